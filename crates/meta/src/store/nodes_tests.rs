use super::super::fixture::*;
use super::*;
use weft_format::Ino;
use weft_format::records::{Kind, NodeState};

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
    assert!(!store.remove_node(node_id(1)).unwrap());
    store.truncate(file, 0, at(2), at(2), None).unwrap();
    assert!(!store.remove_node(node_id(1)).unwrap(), "its shard is not removed yet");
    store.drop_segment(dead(segment_id(1)), &segment_record(10), None).unwrap();
    assert!(store.remove_node(node_id(1)).unwrap());
    assert!(store.remove_node(node_id(1)).unwrap());
    assert_eq!(store.nodes().unwrap().len(), 5);
    assert_clean(&store);
}

#[test]
fn a_volume_wants_nothing_of_places_until_it_is_said() {
    let (store, _) = volume();
    assert_eq!(store.placement_rule().unwrap(), PlacementRule::default());
    let rule = PlacementRule { unit_depth: 2, locality_depth: 1, set_count: 700 };
    store.set_placement_rule(rule).unwrap();
    assert_eq!(store.placement_rule().unwrap(), rule);
    assert_clean(&store);
}

/// The mount takes in that a node is gone within a second: what it stored there until then must not count as there for ever.
#[test]
fn segments_on_a_node_that_was_removed_meanwhile_are_marked() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 10, 1);
    assert_eq!(store.mark_strays().unwrap(), 0);
    let gone = NodeId(0xdead);
    let mut record = segment_record(10);
    record.shards[0].as_mut().expect("a shard").node = gone;
    let attributes = store.attributes(file).unwrap();
    let commit = file_commit(&attributes, vec![extent(10, 10, segment_id(2), 0)]);
    store.commit_files(&[(segment_id(2), record)], &[commit], at(3)).unwrap();
    assert!(store.damaged(None, 10).unwrap().is_empty());
    assert_eq!(store.mark_strays().unwrap(), 1);
    assert_eq!(store.damaged(None, 10).unwrap(), [segment_id(2)]);
}
