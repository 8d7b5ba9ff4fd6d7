use super::*;

fn record(name: &str) -> NodeRecord {
    NodeRecord {
        name: name.into(),
        url: format!("file:///{name}"),
        state: NodeState::Active,
        domain: name.into(),
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    }
}

fn of(records: impl IntoIterator<Item = (NodeId, NodeRecord)>) -> Membership {
    Membership::new(records, PlacementRule::default())
}

#[test]
fn a_view_is_a_moment_and_never_changes() {
    let membership = of([(NodeId(1), record("a"))]);
    let before = membership.view();
    membership.observe(NodeId(1), Observation::Refused, 0);
    assert_eq!(before.members[&NodeId(1)].health, Health::Sound);
    let after = membership.view();
    assert!(after.members[&NodeId(1)].health.is_suspected(0));
    assert!(after.epoch > before.epoch);
}

#[test]
fn observations_that_change_nothing_leave_the_epoch() {
    let membership = of([(NodeId(1), record("a"))]);
    let epoch = membership.view().epoch;
    membership.observe(NodeId(1), Observation::Answered, 0);
    membership.observe(NodeId(9), Observation::Refused, 0);
    assert_eq!(membership.view().epoch, epoch);
}

#[test]
fn new_records_keep_what_was_seen_of_nodes_that_stay() {
    let membership = of([(NodeId(1), record("a")), (NodeId(2), record("b"))]);
    membership.observe(NodeId(1), Observation::Refused, 0);
    membership.set_space(NodeId(1), 100, 40, None);
    membership.set_records([(NodeId(1), record("renamed")), (NodeId(3), record("c"))], PlacementRule::default());
    let view = membership.view();
    assert_eq!(view.members.keys().copied().collect::<Vec<_>>(), [NodeId(1), NodeId(3)]);
    let kept = &view.members[&NodeId(1)];
    assert_eq!((kept.name.as_str(), kept.free_bytes), ("renamed", Some(40)));
    assert!(kept.health.is_suspected(0));
}

#[test]
fn a_disk_that_nodes_share_counts_once() {
    let membership = of((1..=4).map(|id| (NodeId(id), record("n"))));
    assert_eq!(membership.view().room_bytes(), (0, 0));
    membership.set_space(NodeId(1), 100, 40, Some(7));
    membership.set_space(NodeId(2), 100, 40, Some(7));
    membership.set_space(NodeId(3), 30, 20, Some(8));
    membership.set_space(NodeId(4), 5, 5, None);
    assert_eq!(membership.view().room_bytes(), (135, 65));
    membership.set_full(NodeId(3));
    assert_eq!(membership.view().room_bytes(), (135, 45));
}

#[test]
fn nodes_that_take_nothing_new_count_with_what_is_in_use() {
    let read_only = |name| NodeRecord { state: NodeState::ReadOnly, ..record(name) };
    let membership = of([(NodeId(1), read_only("a")), (NodeId(2), read_only("b")), (NodeId(3), record("c"))]);
    membership.set_space(NodeId(1), 100, 40, None);
    // It shares a disk with one that takes new shards.
    membership.set_space(NodeId(2), 50, 30, Some(7));
    membership.set_space(NodeId(3), 50, 30, Some(7));
    assert_eq!(membership.view().room_bytes(), (60 + 50, 30));
}

#[test]
fn a_node_that_left_and_came_back_starts_afresh() {
    let membership = of([(NodeId(1), record("a"))]);
    membership.observe(NodeId(1), Observation::Refused, 0);
    membership.set_records([], PlacementRule::default());
    membership.set_records([(NodeId(1), record("a"))], PlacementRule::default());
    assert_eq!(membership.view().members[&NodeId(1)].health, Health::Sound);
}

#[test]
fn members_have_the_units_and_localities_of_the_rule() {
    let rule = PlacementRule { unit_depth: 2, unit_shards: 1, locality_depth: 1, set_count: 5 };
    let host = NodeRecord { domain: "site/rack/host".into(), ..record("a") };
    let view = Membership::new([(NodeId(1), host)], rule).view();
    let member = &view.members[&NodeId(1)];
    assert_eq!((member.domain.as_str(), member.locality.as_str(), view.rule), ("site/rack", "site", rule));
}
