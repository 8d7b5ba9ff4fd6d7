use super::*;

fn record(name: &str, stamp: u64, state: ObjectState) -> (ShardKey, ObjectRecord) {
    let record = ObjectRecord { name: name.into(), stamp: Stamp(stamp), width: 3, state };
    let hash = name_hash(name);
    (record_key(hash, Stamp(stamp)), record)
}

fn shard(name: &str, stamp: u64, number: u32) -> ShardKey {
    let segment = data_segment(name_hash(name), Stamp(stamp), number);
    ShardKey { segment, generation: Generation::FIRST, index: ShardIndex(1) }
}

#[test]
fn all_of_a_name_is_found_and_nothing_of_another() {
    let mut index = Index::default();
    for name in ["a", "b"] {
        for stamp in [5, 6] {
            let (key, record) = record(name, stamp, ObjectState::Removed);
            index.add_record(key, record);
            index.add_shard(shard(name, stamp, 0));
            index.add_shard(shard(name, stamp, 65_535));
        }
    }
    let found = index.find(name_hash("a"));
    assert_eq!((found.records.len(), found.shards.len()), (2, 4));
    assert!(found.shards.iter().all(|shard| ObjectId::of(shard.key().segment).hash == name_hash("a")));
    assert_eq!(index.stamps(name_hash("a")), BTreeSet::from([Stamp(5), Stamp(6)]));
    assert_eq!(index.shards_of(name_hash("a"), Stamp(5)).len(), 2);
    assert_eq!(index.newest().map(|record| record.stamp.0).collect::<Vec<_>>(), [6, 6]);
    // The newest goes, and the one before is the newest again.
    index.forget(record_key(name_hash("a"), Stamp(6)));
    assert_eq!(index.newest().map(|record| record.stamp.0).collect::<Vec<_>>(), [5, 6]);
    assert_eq!(index.counts(), (3, 8));
}

#[test]
fn what_comes_of_a_version_after_it_was_given_up_is_not_found() {
    let (mut index, hash) = (Index::default(), name_hash("a"));
    for stamp in [5, 6] {
        index.add_shard(shard("a", stamp, 0));
    }
    index.add_record(record_key(hash, Stamp(5)), ObjectRecord::given_up(Stamp(5)));
    index.add_shard(shard("a", 5, 1));
    let found = index.find(hash).shards.iter().map(|shard| shard.key()).collect::<Vec<_>>();
    assert_eq!(found, [shard("a", 6, 0)]);
    assert_eq!(index.shards_of(hash, Stamp(5)).len(), 2, "they are there to be removed");
}

#[test]
fn a_list_goes_on_after_a_name_and_ends_with_its_prefix() {
    let mut index = Index::default();
    for name in ["a", "p/1", "p/2", "p/3", "q"] {
        let (key, record) = record(name, 5, ObjectState::Removed);
        index.add_record(key, record);
    }
    let names = |listed: &Listed| listed.names.iter().map(|name| name.name.clone()).collect::<Vec<_>>();
    let first = index.list("p/", "", 2);
    assert_eq!((names(&first), first.more), (vec!["p/1".into(), "p/2".into()], true));
    let rest = index.list("p/", "p/2", 2);
    assert_eq!((names(&rest), rest.more), (vec!["p/3".into()], false));
    assert_eq!(names(&index.list("", "", 100)).len(), 5);
    // What was given up has no name.
    index.add_record(record_key(name_hash("zz"), Stamp(1)), ObjectRecord::given_up(Stamp(1)));
    assert_eq!(names(&index.list("", "", 100)).len(), 5);
}
