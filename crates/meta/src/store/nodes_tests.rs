use super::super::fixture::*;
use super::*;
use weft_format::Ino;
use weft_format::records::{Kind, NOBODY_COMMITS, NodeState, Succession};

#[test]
fn names_and_urls_are_unique() {
    let (store, _) = volume();
    assert_eq!(store.nodes().unwrap().len(), 6);
    assert_eq!(kind_of(&store.add_node(node_id(1), &node_record(9)).unwrap_err()), "Exists");
    let same_name = NodeRecord { name: "node-2".into(), ..node_record(9) };
    let same_url = NodeRecord { url: "file:///nodes/2".into(), ..node_record(9) };
    for record in [same_name, same_url] {
        let refused = store.add_node(node_id(9), &record).unwrap_err();
        assert!(refused.to_string().contains("node-2"), "{refused}");
        assert_eq!(kind_of(&store.update_node(node_id(3), &node_record(3), &record).unwrap_err()), "Refused");
    }
    let draining = NodeRecord { state: NodeState::Draining, ..node_record(3) };
    store.update_node(node_id(3), &node_record(3), &draining).unwrap();
    assert_eq!(kind_of(&store.update_node(node_id(3), &node_record(3), &draining).unwrap_err()), "Refused");
    assert_eq!(kind_of(&store.update_node(node_id(9), &draining, &draining).unwrap_err()), "NotFound");
    assert_eq!(store.nodes().unwrap()[2], (node_id(3), draining));
    assert_clean(&store);
}

#[test]
fn a_node_that_is_referred_to_stays() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 10, 1);
    store.update_node(node_id(1), &node_record(1), &leaving(1)).unwrap();
    assert!(!store.remove_node(node_id(1), true).unwrap());
    store.truncate(file, 0, at(2), at(2), None).unwrap();
    assert!(!store.remove_node(node_id(1), true).unwrap(), "its shard is not removed yet");
    store.drop_segment(dead(segment_id(1)), &segment_record(10), None).unwrap();
    assert!(store.remove_node(node_id(1), true).unwrap());
    assert!(store.remove_node(node_id(1), true).unwrap());
    assert_eq!(store.nodes().unwrap().len(), 5);
    assert_clean(&store);
}

#[test]
fn a_volume_wants_nothing_of_places_until_it_is_said() {
    let (store, _) = volume();
    assert_eq!(store.placement_rule().unwrap(), PlacementRule::default());
    let rule = PlacementRule { unit_depth: 2, unit_shards: 3, locality_depth: 1, set_count: 700 };
    store.set_placement_rule(rule).unwrap();
    assert_eq!(store.placement_rule().unwrap(), rule);
    assert_clean(&store);
}

fn leaving(number: u128) -> NodeRecord {
    NodeRecord { state: NodeState::Draining, ..node_record(number) }
}

#[test]
fn a_node_leaves_when_the_owner_has_followed_the_table() {
    let (store, _) = volume();
    store.take_opening(1, 0).unwrap();
    assert!(!store.remove_node(node_id(1), false).unwrap(), "shards may come to it");
    store.update_node(node_id(1), &node_record(1), &leaving(1)).unwrap();
    let changes = store.roster().unwrap().changes;
    store.note_settled(1, 7, changes - 1).unwrap();
    assert!(!store.remove_node(node_id(1), false).unwrap(), "an upload that began before may come to it");
    store.note_settled(1, 7, changes).unwrap();
    assert!(store.remove_node(node_id(1), false).unwrap());

    // Of one that was killed nobody knows, but who owns the volume then is alone.
    store.take_opening(2, 0).unwrap();
    assert!(!store.remove_node(node_id(2), true).unwrap(), "it takes shards");
    store.update_node(node_id(2), &node_record(2), &leaving(2)).unwrap();
    assert!(!store.remove_node(node_id(2), false).unwrap());
    assert!(store.remove_node(node_id(2), true).unwrap());

    // One that has ended well says that nothing comes any more, to whatever node.
    store.update_node(node_id(3), &node_record(3), &leaving(3)).unwrap();
    store.note_settled(2, 7, NOBODY_COMMITS).unwrap();
    assert!(store.remove_node(node_id(3), false).unwrap());
    store.take_opening(3, 0).unwrap();
    store.update_node(node_id(4), &node_record(4), &leaving(4)).unwrap();
    assert!(!store.remove_node(node_id(4), false).unwrap(), "what is over says nothing of the next opening");
    assert_clean(&store);
}

/// A worker that was stopped meanwhile has placed it by an older node table.
#[test]
fn no_shard_comes_to_a_node_that_has_left() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 10, 1);
    let old = segment_record(10);
    let mut moved = old.clone();
    moved.shards[0].as_mut().expect("a shard").node = NodeId(0xdead);
    let refused = store.replace_segment(segment_id(1), &old, &moved, &Succession::default(), None).unwrap_err();
    assert_eq!(kind_of(&refused), "SegmentChanged");
    moved.shards[0].as_mut().expect("a shard").node = node_id(9);
    store.add_node(node_id(9), &leaving(9)).unwrap();
    let refused = store.replace_segment(segment_id(1), &old, &moved, &Succession::default(), None).unwrap_err();
    assert_eq!(kind_of(&refused), "SegmentChanged", "it may be removed at this moment");
    store.update_node(node_id(9), &leaving(9), &node_record(9)).unwrap();
    store.replace_segment(segment_id(1), &old, &moved, &Succession::default(), None).unwrap();
    assert_clean(&store);
}

/// A mount that looks at any moment finds as many active nodes as before.
#[test]
fn a_successor_takes_the_name_at_one_moment() {
    let (store, _) = volume();
    let changes = store.roster().unwrap().changes;
    let retained = NodeRecord { name: "node-1.old".into(), ..leaving(1) };
    let new = NodeRecord { url: "file:///nodes/9".into(), ..node_record(1) };
    let succeed = |expected: &NodeRecord| store.succeed_node((node_id(1), expected, &retained), (node_id(9), &new));
    assert_eq!(kind_of(&succeed(&leaving(1)).unwrap_err()), "Refused");
    succeed(&node_record(1)).unwrap();
    let roster = store.roster().unwrap();
    assert_eq!((roster.changes, roster.nodes.len()), (changes + 1, 7));
    assert_eq!(
        kind_of(&store.succeed_node((node_id(2), &node_record(2), &leaving(2)), (node_id(9), &new)).unwrap_err()),
        "Exists"
    );
    assert_clean(&store);
}
