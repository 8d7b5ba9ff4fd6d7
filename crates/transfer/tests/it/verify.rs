//! Looking at shards, and removing them.

use crate::house::{House, bytes, every, key, segment};
use weft_format::shard::object_bytes;
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{Node, NodeErrorKind};
use weft_transfer::{ShardHealth, SuspectKind};

#[tokio::test]
async fn missing_is_told_from_unknown() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(100_000, 1)).await;
    house.node_of(&record, 1).memory.remove(key(segment(0), &record, 1)).await.unwrap();
    for operation in [Operation::Get, Operation::Stat] {
        house.node_of(&record, 2).fault.set_script(every(operation, Fault::Fail(NodeErrorKind::Unavailable)));
        let mut short = (*record).clone();
        short.shards[5] = None;
        let health = match operation {
            Operation::Get => house.transfer.verify(segment(0), &short).await,
            _ => house.transfer.census(segment(0), &short).await,
        };
        let unknown = ShardHealth::Unknown(NodeErrorKind::Unavailable);
        use ShardHealth::{Missing, Sound};
        assert_eq!(health.shards, [Sound, Missing, unknown, Sound, Sound, Missing]);
        let verified = if operation == Operation::Get { 3 * object_bytes(record.geometry.payload_bytes()) } else { 0 };
        assert_eq!(health.bytes_verified, verified);
    }
}

#[tokio::test]
async fn removal_counts_the_absent_as_done_and_reports_the_unknown() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(100_000, 2)).await;
    house.node_of(&record, 1).memory.remove(key(segment(0), &record, 1)).await.unwrap();
    house.node_of(&record, 4).fault.set_script(every(Operation::Remove, Fault::Fail(NodeErrorKind::Io)));
    let removal = house.remove(segment(0), &record).await;
    assert_eq!(removal.gone, 5);
    assert_eq!(removal.unknown.len(), 1);
    assert_eq!((removal.unknown[0].index.0, removal.unknown[0].kind), (4, SuspectKind::Unknown(NodeErrorKind::Io)));
    house.heal();
    assert_eq!(house.remove(segment(0), &record).await.gone, 6);
    assert!(house.shards().await.is_empty());
}

#[tokio::test]
async fn a_node_that_is_no_member_is_unknown() {
    let house = House::new(6);
    let record = house.write(segment(0), "rs:4+2", &bytes(100_000, 3)).await;
    house.fleet.set(Vec::new(), Default::default());
    let health = house.transfer.census(segment(0), &record).await;
    let unknown = ShardHealth::Unknown(NodeErrorKind::Unavailable);
    assert!(health.shards.iter().all(|shard| *shard == unknown));
    assert_eq!(house.remove(segment(0), &record).await.unknown.len(), 6);
    assert!(house.read(segment(0), &record, 0..10).await.is_err());
}
