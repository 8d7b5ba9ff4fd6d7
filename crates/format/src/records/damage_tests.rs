use super::*;
use crate::ids::{Generation, SegmentId};

fn runs(bounds: &[(u64, u64)]) -> Option<Vec<Range<u64>>> {
    Some(bounds.iter().map(|(start, end)| *start..*end).collect())
}

fn shard(index: u16, frames: Option<Vec<Range<u64>>>) -> DamagedShard {
    let key = ShardKey { segment: SegmentId(7), generation: Generation(2), index: ShardIndex(index) };
    DamagedShard { index: ShardIndex(index), node: NodeId(9), key, complaint: "frame 3 is damaged".into(), frames }
}

#[test]
fn finding_09_a_record_of_damage_comes_back_as_it_went() {
    for record in [
        DamageRecord::default(),
        DamageRecord::suspicion(),
        DamageRecord::new([shard(4, None), shard(1, runs(&[(0, 1), (7, 12)])), shard(2, Some(Vec::new()))]),
    ] {
        assert_eq!(DamageRecord::decode(&record.encode()), Ok(record));
    }
}

#[test]
fn finding_09_findings_of_one_place_add_up_and_of_another_replace() {
    let mut record = DamageRecord::new([shard(1, runs(&[(3, 4), (8, 9)]))]);
    record.add([shard(1, runs(&[(4, 6)]))]);
    assert_eq!(record.shards(), [shard(1, runs(&[(3, 6), (8, 9)]))]);
    let moved = DamagedShard { node: NodeId(10), ..shard(1, runs(&[(20, 21)])) };
    record.add([moved.clone()]);
    assert_eq!(record.shards(), [moved]);
    record.add([shard(1, None), shard(1, runs(&[(1, 2)]))]);
    assert_eq!(record.shards(), [shard(1, None)], "of what is lost altogether no part is sound");
}

#[test]
fn finding_09_what_is_too_much_for_a_record_counts_as_damaged() {
    let runs: Vec<Range<u64>> = (0..1000).map(|at| at * 3..at * 3 + 1).collect();
    let record = DamageRecord::new([DamagedShard { complaint: "ä".repeat(500), ..shard(0, Some(runs.clone())) }]);
    let noted = record.shards()[0].frames.as_ref().unwrap();
    assert!(noted.len() <= RUNS_MAX && record.shards()[0].complaint.len() <= COMPLAINT_MAX);
    assert!(runs.iter().all(|run| noted.iter().any(|known| known.start <= run.start && run.end <= known.end)));
    assert_eq!(DamageRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn finding_09_a_record_that_cannot_be_is_refused() {
    let encode = |change: fn(&mut ShardMessage)| {
        let mut message = Message::decode(&DamageRecord::new([shard(1, runs(&[(3, 4)]))]).encode()[..]).unwrap();
        change(&mut message.shards[0]);
        message.encode_to_vec()
    };
    let changes: [fn(&mut ShardMessage); 6] = [
        |shard| shard.index = 70_000,
        |shard| shard.key = "shard".into(),
        |shard| shard.frames = vec![4, 3],
        |shard| shard.frames = vec![4],
        |shard| shard.is_whole = true,
        |shard| shard.node = vec![1],
    ];
    for change in changes {
        assert!(DamageRecord::decode(&encode(change)).is_err());
    }
}
