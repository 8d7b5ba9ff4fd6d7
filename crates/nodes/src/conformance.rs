//! What every node must do, as a library (feature `conformance`): each kind of node and each wrapper runs [`check_all`] in its tests, and
//! so can nodes of others.
//!
//! The shards stored are real ones, so that nodes which look inside pass too. A check that fails panics and says what
//! was expected.

use crate::combine::{Combination, Part};
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{Node, Page};
use bytes::Bytes;
use std::future::Future;
use std::sync::Arc;
use weft_codes::{Matrix, Program, gf};
use weft_format::geometry::{CELL_BYTES_TARGET, Geometry};
use weft_format::shard::{ShardBuilder, ShardHeader, ShardIdentity, verify_object};
use weft_format::{Generation, SegmentId, ShardIndex, ShardKey, VolumeId};

/// Runs every check, each on a new and empty node that `make` gives.
///
/// # Panics
/// The node does not do what every node must.
pub async fn check_all<M, F>(make: M)
where
    M: Fn() -> F,
    F: Future<Output = Arc<dyn Node>>,
{
    round_trip(&*make().await).await;
    ranges(&*make().await).await;
    parts(&*make().await).await;
    put_twice(&*make().await).await;
    not_found(&*make().await).await;
    remove(&*make().await).await;
    list(&*make().await).await;
    extreme_keys(&*make().await).await;
    large_shard(&*make().await).await;
    same_put_side_by_side(make().await).await;
    other_put_side_by_side(make().await).await;
    space_and_identity(&*make().await).await;
    combine(&*make().await).await;
}

/// The key of shard `index` of a segment that `segment` alone decides.
pub fn key(segment: u64, index: u16) -> ShardKey {
    // Spread as random ids are, so that a folder's subfolders are all used.
    let spread = u128::from(segment.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    ShardKey { segment: SegmentId::new(segment, spread), generation: Generation(0), index: ShardIndex(index) }
}

/// A whole shard object of about `data_bytes`, whose content `seed` decides.
///
/// # Panics
/// `data_bytes` is more than a segment holds.
pub fn shard(volume: VolumeId, key: ShardKey, data_bytes: u64, seed: u64) -> Bytes {
    let geometry = Geometry::new(data_bytes, 1, 1, 1, CELL_BYTES_TARGET).expect("a length that a segment can have");
    let header = ShardHeader { identity: ShardIdentity { volume, key }, code: "replica:1".to_owned(), geometry };
    let mut builder = ShardBuilder::new(&header).expect("the header above is sound");
    let mut state = seed;
    for frame in 0..builder.frame_count() {
        for byte in builder.frame_mut(frame) {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
    builder.finish().0
}

async fn volume_of(node: &dyn Node) -> VolumeId {
    node.identity().await.expect("a node says who it is").volume
}

async fn put(node: &dyn Node, key: ShardKey, bytes: &Bytes) {
    node.put(key, std::slice::from_ref(bytes)).await.unwrap_or_else(|error| panic!("put {key}: {error}"));
}

async fn get_all(node: &dyn Node, key: ShardKey) -> Bytes {
    node.get(key, 0..u64::MAX).await.unwrap_or_else(|error| panic!("get {key}: {error}"))
}

fn expect_kind<T: std::fmt::Debug>(what: &str, result: Result<T, NodeError>, kind: NodeErrorKind) {
    match result {
        Err(error) if error.kind == kind => {
            assert!(
                !error.detail.is_empty() && !error.node.is_empty(),
                "{what}: an error that says nothing: {error:?}"
            );
        }
        other => panic!("{what}: expected {kind:?}, got {other:?}"),
    }
}

async fn round_trip(node: &dyn Node) {
    let volume = volume_of(node).await;
    for (segment, data_bytes) in [(1, 1), (2, 4096), (3, 4097), (4, 100_000)] {
        let (key, bytes) = (key(segment, 0), shard(volume, key(segment, 0), data_bytes, segment));
        put(node, key, &bytes).await;
        assert_eq!(get_all(node, key).await, bytes, "what was put is what is got");
        let stat = node.stat(key).await.expect("stat of a stored shard");
        assert_eq!(stat.bytes, bytes.len() as u64, "stat gives the object's length");
    }
}

async fn ranges(node: &dyn Node) {
    let (key, volume) = (key(1, 3), volume_of(node).await);
    let bytes = shard(volume, key, 20_000, 7);
    put(node, key, &bytes).await;
    let length = bytes.len() as u64;
    // The last but one begins behind its end: empty, like any range that holds no byte.
    let backwards = std::ops::Range { start: 200, end: 100 };
    for range in [0..1, 255..257, 256..4360, 0..length, 100..100, length - 1..length, length..length, backwards] {
        let got = node.get(key, range.clone()).await.expect("a range of a stored shard");
        let expected = bytes.get(range.start as usize..range.end as usize).unwrap_or_default();
        assert_eq!(got, expected, "range {range:?}");
    }
    for range in [length - 10..length + 10, length - 10..u64::MAX] {
        let got = node.get(key, range).await.expect("a range across the end");
        assert_eq!(got, bytes.slice(bytes.len() - 10..), "a range across the end gives what there is");
    }
    for range in [length + 1..length + 2, u64::MAX - 1..u64::MAX] {
        let got = node.get(key, range).await.expect("a range past the end");
        assert!(got.is_empty(), "a range past the end is empty");
    }
}

async fn parts(node: &dyn Node) {
    let (key, volume) = (key(1, 0), volume_of(node).await);
    let bytes = shard(volume, key, 50_000, 1);
    // More parts than a kernel takes at once, some of them empty.
    let mut parts: Vec<Bytes> = bytes.chunks(37).map(|part| bytes.slice_ref(part)).collect();
    parts.insert(0, Bytes::new());
    parts.insert(100, Bytes::new());
    parts.push(Bytes::new());
    node.put(key, &parts).await.expect("a shard in many parts");
    assert_eq!(get_all(node, key).await, bytes, "parts are concatenated");
}

async fn put_twice(node: &dyn Node) {
    let (key, volume) = (key(1, 0), volume_of(node).await);
    let bytes = shard(volume, key, 10_000, 1);
    put(node, key, &bytes).await;
    put(node, key, &bytes).await;
    let halves = [bytes.slice(..5_000), bytes.slice(5_000..)];
    node.put(key, &halves).await.expect("the same bytes in other parts are the same bytes");
    for (what, data_bytes, seed) in
        [("other bytes", 10_000, 2), ("a shorter shard", 9_000, 1), ("a longer shard", 11_000, 1)]
    {
        let other = shard(volume, key, data_bytes, seed);
        expect_kind(what, node.put(key, &[other]).await, NodeErrorKind::Exists);
    }
    assert_eq!(get_all(node, key).await, bytes, "a refused put changes nothing");
}

async fn not_found(node: &dyn Node) {
    let volume = volume_of(node).await;
    let stored = key(1, 0);
    put(node, stored, &shard(volume, stored, 100, 1)).await;
    let other_generation = ShardKey { generation: Generation(1), ..stored };
    for absent in [key(1, 1), key(2, 0), other_generation] {
        expect_kind("get", node.get(absent, 0..1).await, NodeErrorKind::NotFound);
        expect_kind("stat", node.stat(absent).await, NodeErrorKind::NotFound);
        expect_kind("remove", node.remove(absent).await, NodeErrorKind::NotFound);
    }
}

async fn remove(node: &dyn Node) {
    let (key, volume) = (key(1, 0), volume_of(node).await);
    let bytes = shard(volume, key, 10_000, 1);
    put(node, key, &bytes).await;
    assert_eq!(get_all(node, key).await, bytes);
    node.remove(key).await.expect("a stored shard can be removed");
    expect_kind("get after remove", node.get(key, 0..1).await, NodeErrorKind::NotFound);
    expect_kind("stat after remove", node.stat(key).await, NodeErrorKind::NotFound);
    expect_kind("second remove", node.remove(key).await, NodeErrorKind::NotFound);
    let page = node.list(None, 10).await.expect("list after remove");
    assert!(page.keys.is_empty() && !page.more, "a removed shard is not listed");
    let other = shard(volume, key, 5_000, 2);
    put(node, key, &other).await;
    assert_eq!(get_all(node, key).await, other, "nothing of a removed shard is left");
}

async fn list(node: &dyn Node) {
    let empty = Page { keys: Vec::new(), foreign: Vec::new(), more: false };
    assert_eq!(node.list(None, 10).await.expect("list of an empty node"), empty);
    let volume = volume_of(node).await;
    let mut stored: Vec<ShardKey> = (0..40).flat_map(|segment| (0..3).map(move |index| key(segment, index))).collect();
    for &key in &stored {
        put(node, key, &shard(volume, key, 10, 1)).await;
    }
    stored.sort_unstable();
    for limit in [1, 7, 119, 120, 121, usize::MAX] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = node.list(after, limit).await.expect("a page");
            assert!(page.keys.len() <= limit, "no more keys than asked for");
            assert!(!page.keys.is_empty(), "`more` says that there is more");
            found.extend(page.keys);
            after = found.last().copied();
            if !page.more {
                break;
            }
        }
        assert_eq!(found, stored, "pages of {limit} give every key once, ascending");
    }
    let middle = stored[60];
    let page = node.list(Some(middle), 5).await.expect("a page from the middle");
    assert_eq!((page.keys.as_slice(), page.more), (&stored[61..66], true));
    node.remove(middle).await.expect("remove");
    let page = node.list(Some(middle), 5).await.expect("a page after a key that is not there");
    assert_eq!(page.keys, &stored[61..66]);
    let page = node.list(stored.last().copied(), 5).await.expect("a page after the last key");
    assert_eq!(page, empty);
    let page = node.list(None, 0).await.expect("a page of nothing");
    assert!(page.keys.is_empty() && page.more, "a page of nothing says that there is more");
}

async fn extreme_keys(node: &dyn Node) {
    let volume = volume_of(node).await;
    let mut keys = Vec::new();
    for segment in [SegmentId(0), SegmentId(u128::MAX)] {
        for generation in [Generation(0), Generation(u32::MAX)] {
            for index in [ShardIndex(0), ShardIndex(u16::MAX)] {
                keys.push(ShardKey { segment, generation, index });
            }
        }
    }
    for (seed, &key) in keys.iter().enumerate() {
        put(node, key, &shard(volume, key, 100, seed as u64)).await;
    }
    for (seed, &key) in keys.iter().enumerate() {
        assert_eq!(get_all(node, key).await, shard(volume, key, 100, seed as u64), "shard {key}");
    }
    assert_eq!(node.list(None, 100).await.expect("list").keys, keys);
}

async fn large_shard(node: &dyn Node) {
    let (key, volume) = (key(1, 0), volume_of(node).await);
    let bytes = shard(volume, key, 3_000_001, 1);
    put(node, key, &bytes).await;
    assert_eq!(get_all(node, key).await, bytes);
    let range = 1_000_000..2_500_000;
    assert_eq!(
        node.get(key, range.clone()).await.expect("a long range"),
        bytes.slice(1_000_000..2_500_000),
        "{range:?}"
    );
}

async fn same_put_side_by_side(node: Arc<dyn Node>) {
    let (key, volume) = (key(1, 0), volume_of(&*node).await);
    let bytes = shard(volume, key, 100_000, 1);
    let puts: Vec<_> = (0..8)
        .map(|_| {
            let (node, bytes) = (Arc::clone(&node), bytes.clone());
            tokio::spawn(async move { node.put(key, &[bytes]).await })
        })
        .collect();
    for put in puts {
        put.await.expect("no panic").expect("the same bytes may be put by many at once");
    }
    assert_eq!(get_all(&*node, key).await, bytes);
}

async fn other_put_side_by_side(node: Arc<dyn Node>) {
    let (key, volume) = (key(1, 0), volume_of(&*node).await);
    let contents: Vec<Bytes> = (0..8).map(|seed| shard(volume, key, 100_000, seed)).collect();
    let puts: Vec<_> = contents
        .iter()
        .map(|bytes| {
            let (node, bytes) = (Arc::clone(&node), bytes.clone());
            tokio::spawn(async move { node.put(key, &[bytes]).await })
        })
        .collect();
    let mut stored = Vec::new();
    for (put, content) in puts.into_iter().zip(&contents) {
        match put.await.expect("no panic") {
            Ok(()) => stored.push(content),
            refused => expect_kind("other bytes of the same name", refused, NodeErrorKind::Exists),
        }
    }
    assert_eq!(stored.len(), 1, "exactly one of several unlike puts of one name succeeds");
    assert_eq!(get_all(&*node, key).await, *stored[0], "and it is whole");
}

async fn space_and_identity(node: &dyn Node) {
    let space = node.space().await.expect("a node says how much room it has");
    assert!(0 < space.free_bytes && space.free_bytes <= space.total_bytes, "{space:?}");
    let identity = node.identity().await.expect("a node says who it is");
    assert_eq!(node.identity().await.expect("and says it again"), identity);
    assert!(node.capability().range_granularity_bytes >= 1);
}

async fn combine(node: &dyn Node) {
    const DATA_BYTES: u64 = 50_000;
    let (stored, volume) = (key(1, 0), volume_of(node).await);
    let object = shard(volume, stored, DATA_BYTES, 1);
    put(node, stored, &object).await;
    let verified = verify_object(&ShardIdentity { volume, key: stored }, &object).expect("a sound shard");
    let mut payload = vec![0; DATA_BYTES as usize];
    verified.frames.copy_into(0..DATA_BYTES, &mut payload).expect("all of it");
    let coefficients = Matrix::from_fn(2, 3, |row, column| (5 * row + 2 * column + 1) as u8);
    let starts: [[u64; 3]; 2] = [[0, 20_000, 49_900], [4_095, 4_096, 1]];
    let combination = Combination {
        payload_bytes: DATA_BYTES,
        program: Program::from_matrix(&coefficients),
        parts: starts.iter().map(|starts| Part { starts: starts.to_vec(), bytes: 100 }).collect(),
    };
    if !node.capability().combines {
        expect_kind("combine", node.combine(stored, &combination).await, NodeErrorKind::Unsupported);
        return;
    }
    let byte = |starts: &[usize; 3], row: usize, at: usize| {
        (0..3).fold(0, |sum, column| sum ^ gf::mul(coefficients.at(row, column), payload[starts[column] + at]))
    };
    let rows = starts.iter().flat_map(|starts| (0..2).map(move |row| (starts.map(|start| start as usize), row)));
    let right: Vec<u8> = rows
        .flat_map(|(starts, row)| (0..100).map(move |at| (starts, row, at)))
        .map(|(s, row, at)| byte(&s, row, at))
        .collect();
    assert_eq!(node.combine(stored, &combination).await.expect("a combination"), right, "part by part, row by row");
    expect_kind("combine", node.combine(key(2, 0), &combination).await, NodeErrorKind::NotFound);
    let beyond = Combination { payload_bytes: 10, ..combination.clone() };
    expect_kind("combine", node.combine(stored, &beyond).await, NodeErrorKind::Unsupported);
    let mut damaged = object.to_vec();
    damaged[300] ^= 1;
    node.remove(stored).await.expect("removed");
    // A node that looks at what it stores does not even take it.
    if node.put(stored, &[damaged.into()]).await.is_ok() {
        expect_kind("combine", node.combine(stored, &combination).await, NodeErrorKind::Corrupt);
    }
}
