use super::super::keeping::tests::{Map, Nodes, add_nodes, all, change, keeper, nodes, open, transfer};
use super::*;
use weft_format::ShardKey;

async fn restored(state: &NewestState, transfer: &Transfer) -> Map {
    let mut map = Map::new();
    for piece in state.pieces() {
        for (key, value) in state.read(transfer, piece).await.expect("sound") {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }
    map
}

/// Turns a bit of the last frame of each copy of a piece, which its header is not in.
async fn rot(nodes: &Nodes, copies: &[(NodeId, ShardKey)]) {
    for (id, key) in copies {
        let node = &nodes.iter().find(|(node, _)| node == id).expect("a node").1;
        let mut bytes = node.get(*key, 0..1 << 20).await.expect("it is there").to_vec();
        assert!(bytes.len() > 8192, "{} bytes", bytes.len());
        *bytes.last_mut().expect("a byte") ^= 1;
        node.remove(*key).await.expect("removed");
        node.put(*key, &[bytes.into()]).await.expect("stored");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_newest_piece_is_rotten_the_state_before_it_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = nodes(3);
    let (transfer, (_kv, store)) = (transfer(&nodes), open(folder.path()));
    let history = store.history().expect("it has one");
    let mut keeping = keeper(&store, &transfer);
    change(&store, 1);
    keeping.round(history).await.expect("stored");
    change(&store, 2);
    keeping.round(history).await.expect("stored");
    let (before, known) = (all(&store), transfer.find_replicas(&BTreeMap::new()).await.pieces);
    add_nodes(&store, 0..100);
    keeping.round(history).await.expect("stored");
    let sound = NewestState::find(&transfer).await.expect("whole");
    assert_eq!(restored(&sound, &transfer).await, all(&store));
    assert!(sound.listed.unreadable.is_empty() && sound.newest_at_ms == sound.chain.at_ms());

    let newest = sound.pieces().find(|piece| !known.contains_key(piece)).expect("a new one");
    rot(&nodes, &sound.listed.pieces[&newest].copies).await;
    let state = NewestState::find(&transfer).await.expect("an older one");
    assert_eq!(restored(&state, &transfer).await, before);
    assert_eq!((state.newest_at_ms, state.chain.upto() < sound.chain.upto()), (sound.chain.at_ms(), true));
    assert!(state.listed.unreadable[&newest].detail.contains("checksum"));
}
