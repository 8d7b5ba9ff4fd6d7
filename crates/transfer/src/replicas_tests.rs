use super::*;
use crate::fleet::Fleet;
use crate::transfer::Settings;
use std::sync::Arc;
use weft_env::Env;
use weft_format::NodeIdentity;
use weft_format::records::{NodeRecord, PlacementRule, ReplicaKind, replica_id};
use weft_nodes::memory::MemoryNode;

const VOLUME: VolumeId = VolumeId(7);

fn nodes(count: u128) -> Vec<(NodeId, Arc<MemoryNode>)> {
    let node = |number| {
        (
            NodeId(number),
            Arc::new(MemoryNode::new(
                format!("n{number}"),
                NodeIdentity { volume: VOLUME, node: NodeId(number) },
                1 << 30,
            )),
        )
    };
    (1..=count).map(node).collect()
}

fn transfer(nodes: &[(NodeId, Arc<MemoryNode>)]) -> Transfer {
    let members = nodes.iter().map(|(id, node)| {
        let name = format!("n{}", id.0);
        (*id, NodeRecord::of(&name, format!("memory:{name}")), node.clone() as Arc<dyn Node>)
    });
    let fleet = Arc::new(Fleet::new(members.collect(), PlacementRule::default(), &Env::system()));
    Transfer::new(VOLUME, fleet, Settings::default(), tokio::runtime::Handle::current())
}

fn piece(part: u32, bytes: usize) -> Replica {
    let header = ReplicaHeader {
        lineage: 1,
        opening: 3,
        kind: ReplicaKind::Snapshot,
        set: 5,
        part,
        is_last: false,
        after: 8,
        upto: 9,
        at_ms: 10,
        bytes: bytes as u64,
    };
    Replica { header, slots: vec![(vec![2, 1], Some(vec![7; bytes])), (vec![2, 2], None)] }
}

/// Turns a bit of the first frame.
async fn corrupt(node: &MemoryNode, key: ShardKey) {
    let mut bytes = node.get(key, 0..SHARD_BYTES_MAX).await.expect("it is there").to_vec();
    bytes[300] ^= 1;
    node.remove(key).await.expect("removed");
    node.put(key, &[bytes.into()]).await.expect("stored");
}

#[tokio::test]
async fn pieces_are_found_and_read_as_long_as_one_copy_is_sound() {
    let nodes = nodes(4);
    let transfer = transfer(&nodes);
    let (small, large) = (replica_id(3, 11, 0), replica_id(3, 12, 0));
    let written = transfer.write_replica(small, &piece(0, 10), 3).await.expect("written");
    assert_eq!(written.copies.len(), 3);
    transfer.write_replica(large, &piece(1, 100_000), 3).await.expect("written");
    let found = transfer.find_replicas(&BTreeMap::new()).await;
    assert_eq!((found.pieces.len(), found.listed.len()), (2, 4));
    assert_eq!(found.pieces[&large].header, piece(1, 100_000).header);
    assert_eq!(transfer.read_replica(&found.pieces[&large]).await, Ok(piece(1, 100_000)));

    // One copy lies, one is gone: the third is read.
    let copies = &found.pieces[&small].copies;
    let node = |number: usize| &nodes.iter().find(|(id, _)| *id == copies[number].0).expect("a node").1;
    corrupt(node(0), copies[0].1).await;
    node(1).remove(copies[1].1).await.expect("removed");
    let found = transfer.find_replicas(&BTreeMap::new()).await;
    assert_eq!(found.pieces[&small].copies.len(), 2);
    assert_eq!(found.pieces[&small].header, piece(0, 10).header, "the header comes from a sound copy");
    assert_eq!(transfer.read_replica(&found.pieces[&small]).await, Ok(piece(0, 10)));

    transfer.remove_superseded(found.pieces[&small].copies.clone()).await;
    let found = transfer.find_replicas(&BTreeMap::new()).await;
    assert_eq!(found.pieces.keys().collect::<Vec<_>>(), [&large]);
}

#[tokio::test]
async fn a_piece_with_no_sound_copy_says_why() {
    let nodes = nodes(2);
    let transfer = transfer(&nodes);
    let id = replica_id(3, 11, 0);
    let written = transfer.write_replica(id, &piece(0, 10), 2).await.expect("written");
    for (node, key) in &written.copies {
        corrupt(&nodes.iter().find(|(id, _)| id == node).expect("a node").1, *key).await;
    }
    let why = transfer.read_replica(&written).await.expect_err("damaged");
    assert!(why.detail.contains("checksum") && why.is_lost, "{why}");
    let found = transfer.find_replicas(&BTreeMap::new()).await;
    assert!(found.pieces.is_empty() && found.unreadable[&id].is_lost);
}
