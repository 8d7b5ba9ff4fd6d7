use super::*;
use crate::roster::{NodeFacts, Reach};
use weft_format::Generation;
use weft_format::geometry::Geometry;
use weft_format::records::{NodeRecord, PlacementRule, ShardLocation};
use weft_format::shard::Digest;
use weft_nodes::{NodeErrorKind, Space};

fn facts(id: u128, state: NodeState, answers: bool, domain: &str) -> (NodeId, NodeFacts) {
    let record = NodeRecord {
        name: format!("n{id}"),
        url: String::new(),
        state,
        domain: domain.into(),
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    };
    let reach = match answers {
        true => Reach::Answers(Space { total_bytes: 1, free_bytes: 1, disk: None }),
        false => Reach::OutOfReach("gone".into()),
    };
    (NodeId(id), NodeFacts { record, reach, presumed_lost: false })
}

fn record(nodes: &[Option<u128>]) -> SegmentRecord {
    let location = |node: &u128| ShardLocation {
        node: NodeId(*node),
        generation: Generation(0),
        digest: Digest([0; 32]),
        origin: None,
    };
    SegmentRecord {
        code: "rs:4+2".into(),
        geometry: Geometry::new(100, 4, 1, 1, 4096).expect("a geometry"),
        generation: Generation(0),
        shards: nodes.iter().map(|node| node.as_ref().map(location)).collect(),
    }
}

fn roster(nodes: Vec<(NodeId, NodeFacts)>) -> Roster {
    Roster { nodes: nodes.into_iter().collect(), ..Roster::default() }
}

#[test]
fn silence_is_never_loss() {
    let roster = roster(vec![facts(1, NodeState::Active, false, "a"), facts(2, NodeState::Lost, false, "b")]);
    let record = record(&[Some(1), Some(2), None, Some(9)]);
    let expected = [
        Standing::OutOfReach,
        Standing::Lost(Loss::NodeLost),
        Standing::Lost(Loss::NeverStored),
        // It was added while somebody worked by this roster.
        Standing::OutOfReach,
    ];
    assert_eq!(standings(&record, &roster, &[]), expected);
    for kind in [NodeErrorKind::Unavailable, NodeErrorKind::TimedOut, NodeErrorKind::WrongNode, NodeErrorKind::Io] {
        let found = vec![Some(ShardHealth::Unknown(kind)); 4];
        assert_eq!(standings(&record, &roster, &found), expected, "{kind:?}");
    }
}

#[test]
fn what_was_found_counts() {
    let roster = roster((1..=5).map(|id| facts(id, NodeState::Active, true, &id.to_string())).collect());
    let record = record(&[Some(1), Some(2), Some(3), Some(4), Some(5)]);
    let found = [
        ShardHealth::Sound,
        ShardHealth::Missing,
        ShardHealth::Damaged(Damage::whole("frame 3 is damaged")),
        ShardHealth::Unknown(NodeErrorKind::Unavailable),
        ShardHealth::Unknown(NodeErrorKind::Io),
    ]
    .map(Some);
    let verdicts = standings(&record, &roster, &found);
    assert_eq!(verdicts[..2], [Standing::Sound, Standing::Lost(Loss::Missing)]);
    assert_eq!(verdicts[2].complaint().as_deref(), Some("frame 3 is damaged"));
    assert_eq!(verdicts[3], Standing::OutOfReach);
    // A bad sector on a node that otherwise answers.
    assert!(matches!(&verdicts[4], Standing::Lost(Loss::Damaged(_))));
}

#[test]
fn of_two_shards_in_one_domain_one_must_go() {
    let roster = roster(vec![
        facts(1, NodeState::Active, true, "rack"),
        facts(2, NodeState::Active, true, "rack"),
        facts(3, NodeState::Active, true, "other"),
    ]);
    let verdicts = standings(&record(&[Some(1), Some(2), Some(3)]), &roster, &[]);
    let misplaced = Standing::Misplaced(Misplacement::SharedDomain("rack".into()));
    assert_eq!(verdicts, [Standing::Sound, misplaced, Standing::Sound]);
}

/// Two racks of two, and perhaps one more.
fn racks(unit_shards: u32, more: &[&str]) -> Roster {
    let domains = [&["a", "a", "b", "b"][..], more].concat();
    let nodes = (1..).zip(domains).map(|(id, domain)| facts(id, NodeState::Active, true, domain)).collect();
    Roster { rule: PlacementRule { unit_shards, ..PlacementRule::default() }, ..roster(nodes) }
}

#[test]
fn a_domain_may_hold_as_many_shards_as_it_must() {
    let record = record(&[Some(1), Some(2), Some(3), Some(4)]);
    let misplaced = |roster: &Roster| {
        standings(&record, roster, &[]).iter().filter(|standing| **standing != Standing::Sound).count()
    };
    assert_eq!(misplaced(&racks(2, &[])), 0, "four shards on two racks");
    assert_eq!(misplaced(&racks(1, &[])), 2, "the rule does not allow it");
    assert_eq!(misplaced(&racks(2, &["c"])), 0, "three racks are too few for four shards of one each");
    assert_eq!(misplaced(&racks(2, &["c", "d"])), 2, "four are enough");
    // A node that leaves does not count.
    let mut leaving = racks(2, &["c", "d"]);
    leaving.nodes.values_mut().last().expect("a node").record.state = NodeState::Draining;
    assert_eq!(misplaced(&leaving), 0);
    let mut lost = racks(2, &["c", "d"]);
    lost.nodes.values_mut().last().expect("a node").record.state = NodeState::Lost;
    lost.nodes.values_mut().last().expect("a node").reach = Reach::OutOfReach("gone".into());
    assert_eq!(misplaced(&lost), 0);
}

#[test]
fn a_silent_shard_keeps_its_domain() {
    let roster = roster(vec![facts(1, NodeState::Active, true, "rack"), facts(2, NodeState::Active, false, "rack")]);
    let verdicts = standings(&record(&[Some(1), Some(2)]), &roster, &[]);
    assert_eq!(verdicts[0], Standing::Misplaced(Misplacement::SharedDomain("rack".into())));
    assert_eq!(verdicts[1], Standing::OutOfReach);
}

#[test]
fn a_node_being_emptied_is_read_and_left() {
    let roster = roster(vec![facts(1, NodeState::Draining, true, "a"), facts(2, NodeState::Active, true, "a")]);
    let verdicts = standings(&record(&[Some(1), Some(2)]), &roster, &[]);
    assert_eq!(verdicts, [Standing::Misplaced(Misplacement::Draining), Standing::Sound]);
    assert!(verdicts[0].is_there());
}

#[test]
fn a_read_only_node_keeps_what_it_holds() {
    let roster = roster(vec![facts(1, NodeState::ReadOnly, true, "a"), facts(2, NodeState::Active, true, "b")]);
    assert_eq!(standings(&record(&[Some(1), Some(2)]), &roster, &[]), [Standing::Sound, Standing::Sound]);
}
