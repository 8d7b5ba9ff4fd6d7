use super::*;
use crate::question::{FoundRecord, FoundShard};
use weft_format::geometry::Geometry;
use weft_format::records::{Contents, ObjectSegment, name_hash};
use weft_format::shard::Digest;

const NAME: &str = "a/b";

fn stored(stamp: u64) -> ObjectRecord {
    let geometry = Geometry::new(1000, 1, 1, 1, 4096).unwrap();
    let segment = ObjectSegment { geometry, digest: [1; 32], shards: vec![Digest([2; 32]); 3] };
    let contents = Contents {
        code: "replica:3".into(),
        bytes: 1000,
        digest: [3; 32],
        segments: vec![segment],
        alternates: Vec::new(),
    };
    ObjectRecord { name: NAME.into(), stamp: Stamp(stamp), width: 3, state: ObjectState::Stored(contents) }
}

fn found(records: &[ObjectRecord]) -> Found {
    let record = |record: &ObjectRecord| FoundRecord { stamp: record.stamp.0, record: Some(record.encode()) };
    Found { records: records.iter().map(record).collect(), shards: Vec::new() }
}

fn findings(answers: Vec<Found>) -> Findings {
    let answers = answers.into_iter().enumerate().map(|(i, found)| (NodeId(i as u128), found)).collect();
    Findings { answers, ..Findings::default() }
}

#[test]
fn the_newest_version_with_a_record_anywhere_comes_first() {
    let removed = ObjectRecord { state: ObjectState::Removed, ..stored(9) };
    let other = ObjectRecord { name: "another of this hash".into(), ..stored(11) };
    let findings =
        findings(vec![found(&[stored(5), stored(7)]), found(&[stored(7), removed.clone()]), found(&[other])]);
    let versions = versions(NAME, &findings);
    assert_eq!(versions.iter().map(|version| version.stamp.0).collect::<Vec<_>>(), [9, 7, 5]);
    assert_eq!(versions[0].record, Some(removed));
    assert_eq!(versions[1].holders, BTreeSet::from([NodeId(0), NodeId(1)]));
}

#[test]
fn who_has_given_an_upload_up_holds_no_version_and_is_told() {
    let findings = findings(vec![found(&[ObjectRecord::given_up(Stamp(7))]), found(&[stored(7)])]);
    let versions = versions(NAME, &findings);
    assert_eq!(versions.len(), 1);
    assert_eq!(versions[0].given_up, BTreeSet::from([NodeId(0)]));
    // Given up by all is no version.
    let findings = self::findings(vec![found(&[ObjectRecord::given_up(Stamp(7))])]);
    assert!(super::versions(NAME, &findings).is_empty());
}

#[test]
fn of_records_that_differ_the_one_of_most_members_counts_and_what_is_none_does_not() {
    let mut forged = stored(7);
    if let ObjectState::Stored(contents) = &mut forged.state {
        contents.digest = [8; 32];
    }
    let garbage = Found { records: vec![FoundRecord { stamp: 99, record: Some(vec![1, 2, 3]) }], shards: Vec::new() };
    let findings = findings(vec![found(&[forged]), found(&[stored(7)]), found(&[stored(7)]), garbage]);
    let versions = versions(NAME, &findings);
    assert_eq!(versions.len(), 1);
    assert_eq!(versions[0].record, Some(stored(7)));
}

#[test]
fn of_two_copies_of_a_shard_the_cheaper_is_read_and_none_that_was_wrong() {
    let hash = name_hash(NAME);
    let segment = data_segment(hash, Stamp(7), 0);
    let key = |generation, index| ShardKey { segment, generation: Generation(generation), index: ShardIndex(index) };
    let with = |keys: &[ShardKey]| Found {
        records: Vec::new(),
        shards: keys.iter().map(|key| FoundShard::of(*key)).collect(),
    };
    let findings = findings(vec![with(&[key(1, 0)]), with(&[key(77, 0)]), with(&[key(1, 2)])]);
    let cost = |node: NodeId| if node == NodeId(0) { 9 } else { 1 };
    let record = located(&stored(7), hash, 0, &findings, cost, &BTreeSet::new()).unwrap();
    let places: Vec<Option<(NodeId, u32)>> =
        record.shards.iter().map(|shard| shard.as_ref().map(|shard| (shard.node, shard.generation.0))).collect();
    assert_eq!(places, [Some((NodeId(1), 77)), None, Some((NodeId(2), 1))]);
    let refused = BTreeSet::from([(NodeId(1), key(77, 0))]);
    let record = located(&stored(7), hash, 0, &findings, cost, &refused).unwrap();
    assert_eq!(record.shards[0].as_ref().map(|shard| shard.node), Some(NodeId(0)));
    assert!(located(&stored(7), hash, 1, &findings, cost, &refused).is_none());
}
