use super::super::Replicator;
use super::*;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use weft_env::{Clock, Env, Sleep, SystemClock};
use weft_format::records::{NodeRecord, PlacementRule, PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{NodeIdentity, PolicyId, VolumeId};
use weft_meta::kv::Kv;
use weft_meta::{Access, MetaUrl};
use weft_nodes::Node;
use weft_nodes::NodeErrorKind;
use weft_nodes::memory::MemoryNode;
use weft_nodes::wrappers::{Fault, FaultNode, Operation, RecordNode};
use weft_transfer::{Fleet, Settings};

const VOLUME: VolumeId = VolumeId(7);

pub(crate) type Nodes = Vec<(NodeId, Arc<RecordNode>)>;

pub(crate) fn nodes(count: u128) -> Nodes {
    let identity = |number| NodeIdentity { volume: VOLUME, node: NodeId(number) };
    let memory = |number| Arc::new(MemoryNode::new(format!("n{number}"), identity(number), 1 << 30));
    let node = |number| Arc::new(RecordNode::new(memory(number), 1000));
    (1..=count).map(|number| (NodeId(number), node(number))).collect()
}

pub(crate) fn transfer(nodes: &Nodes) -> Transfer {
    transfer_of(nodes.iter().map(|(id, node)| (*id, node.clone() as Arc<dyn Node>)))
}

fn transfer_of(nodes: impl Iterator<Item = (NodeId, Arc<dyn Node>)>) -> Transfer {
    let members = nodes.map(|(id, node)| {
        let name = format!("n{}", id.0);
        (id, NodeRecord::of(&name, format!("memory:{name}")), node)
    });
    let fleet = Arc::new(Fleet::new(members.collect(), PlacementRule::default(), &Env::system()));
    Transfer::new(VOLUME, fleet, Settings::default(), tokio::runtime::Handle::current())
}

pub(crate) fn open(folder: &Path) -> (Arc<dyn Kv>, Arc<Store>) {
    open_in(folder, Env::system())
}

fn open_in(folder: &Path, env: Env) -> (Arc<dyn Kv>, Arc<Store>) {
    let url = MetaUrl::from(folder.join("meta.db"));
    let is_new = !url.exists();
    if is_new {
        url.create().expect("made");
    }
    let kv = url.open(Access::Owner, None, &env).expect("opened");
    let store = if is_new {
        let volume = VolumeRecord { volume: VOLUME, created_ms: 1, default_policy: PolicyId(0) };
        Store::format(kv.clone(), &volume, &PolicyRecord::of("rs:2+2", None), Timestamp::default(), &env)
    } else {
        Store::open(kv.clone(), &env)
    };
    (kv, Arc::new(store.expect("a volume")))
}

/// Something that counts.
pub(crate) fn change(store: &Store, value: u64) {
    store.set_keep_ms(value).expect("changed");
    store.history().expect("it has one").settle().expect("settled");
}

/// Metadata of 2 kB or so for each ten.
pub(crate) fn add_nodes(store: &Store, numbers: std::ops::Range<u128>) {
    for number in numbers.map(|number| number + 1000) {
        let record = NodeRecord::of(format!("n{number}"), format!("memory:{}{number}", "n".repeat(100)));
        store.add_node(NodeId(number), &record).expect("added");
    }
    store.history().expect("it has one").settle().expect("settled");
}

const SMALL: ReplicaSizes = ReplicaSizes { piece_bytes: 2000, changed_bytes_min: 1000 };

pub(crate) fn keeper(store: &Arc<Store>, transfer: &Transfer) -> Keeping {
    keeper_of(store, transfer, ReplicaSizes::default())
}

fn keeper_of(store: &Arc<Store>, transfer: &Transfer, sizes: ReplicaSizes) -> Keeping {
    let history = store.history().expect("it has one");
    Keeping::new(store.clone(), history, transfer.clone(), sizes).expect("read")
}

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) fn all(store: &Store) -> Map {
    store.history().expect("it has one").page(&[], usize::MAX).expect("read").pairs.into_iter().collect()
}

/// The metadata as it is rebuilt from the nodes alone.
async fn recovered(transfer: &Transfer) -> Map {
    let found = transfer.find_replicas(&BTreeMap::new()).await;
    let headers = found.pieces.iter().map(|(id, piece)| (*id, piece.header)).collect();
    let chain = chain::newest(&headers, None).expect("a whole replica");
    let mut map = Map::new();
    for id in chain.pieces() {
        for (key, value) in transfer.read_replica(&found.pieces[&id]).await.expect("sound").slots {
            match value {
                Some(value) => map.insert(key, value),
                None => map.remove(&key),
            };
        }
    }
    map
}

async fn piece_count(transfer: &Transfer) -> usize {
    transfer.find_replicas(&BTreeMap::new()).await.pieces.len()
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_have_the_store_after_each_round_and_few_pieces_of_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = nodes(5);
    let (transfer, (_kv, store)) = (transfer(&nodes), open(folder.path()));
    store.take_opening(1, 0).expect("opened");
    let mut keeping = keeper(&store, &transfer);
    for value in 0..60 {
        change(&store, value);
        keeping.round(store.history().expect("it has one")).await.expect("stored");
        assert_eq!(recovered(&transfer).await, all(&store), "round {value}");
    }
    assert!(piece_count(&transfer).await <= 18, "sixteen of a level and a snapshot");
    let found = transfer.find_replicas(&BTreeMap::new()).await;
    assert!(found.pieces.values().all(|piece| piece.copies.len() == 3), "rs:2+2 survives two losses");
    // Any two nodes and the metadata.
    for one in 0..5 {
        for other in 0..one {
            let left: Nodes =
                (0..5).filter(|node| *node != one && *node != other).map(|node| nodes[node].clone()).collect();
            assert_eq!(recovered(&self::transfer(&left)).await, all(&store));
        }
    }
    // The next owner goes on with what is there.
    let before = piece_count(&transfer).await;
    change(&store, 1000);
    let mut next = keeper(&store, &transfer);
    next.round(store.history().expect("it has one")).await.expect("stored");
    assert_eq!(recovered(&transfer).await, all(&store));
    assert!(piece_count(&transfer).await <= before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_renewed_while_nothing_happens_is_not_stored() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = nodes(4);
    let (transfer, (_kv, store)) = (transfer(&nodes), open(folder.path()));
    let history = store.history().expect("it has one");
    let mut keeping = keeper(&store, &transfer);
    history.settle().expect("settled");
    keeping.round(history).await.expect("stored");
    let before = piece_count(&transfer).await;
    store.set_job("care", Some(b"alive")).expect("noted");
    history.settle().expect("settled");
    keeping.round(history).await.expect("nothing to do");
    assert_eq!(piece_count(&transfer).await, before);
    change(&store, 1);
    keeping.round(history).await.expect("stored");
    assert_eq!(recovered(&transfer).await, all(&store), "it comes with the next change");
}

/// Puts, gets and lists at all nodes since the last time.
fn requests(nodes: &Nodes) -> [usize; 3] {
    let calls: Vec<_> = nodes.iter().flat_map(|(_, node)| node.take_calls()).map(|call| call.operation).collect();
    [Operation::Put, Operation::Get, Operation::List].map(|wanted| calls.iter().filter(|call| **call == wanted).count())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_costs_a_put_for_each_copy_and_nothing_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = nodes(5);
    let (transfer, (_kv, store)) = (transfer(&nodes), open(folder.path()));
    let history = store.history().expect("it has one");
    change(&store, 0);
    let mut keeping = keeper(&store, &transfer);
    keeping.round(history).await.expect("stored");
    assert_eq!(requests(&nodes), [3, 0, 5], "a snapshot in one piece, after each node was listed once");
    for value in 1..=5 {
        change(&store, value);
        keeping.round(history).await.expect("stored");
        keeping.round(history).await.expect("nothing to do");
        assert_eq!(requests(&nodes), [3, 0, 0], "change {value}");
    }
}

/// In-step fsyncs wait for a round, so a round must not be as long as a snapshot.
#[tokio::test(flavor = "multi_thread")]
async fn while_a_snapshot_is_stored_part_by_part_changes_go_on_to_nodes() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = nodes(3);
    let (transfer, (_kv, store)) = (transfer(&nodes), open(folder.path()));
    let history = store.history().expect("it has one");
    add_nodes(&store, 0..100);
    let mut keeping = keeper_of(&store, &transfer, SMALL);
    let mut round_count = 1;
    while !keeping.round(history).await.expect("stored") {
        assert!(requests(&nodes)[0] <= 3, "one part of the first snapshot");
        round_count += 1;
    }
    assert!(round_count >= 8, "{round_count}");
    assert_eq!(recovered(&transfer).await, all(&store));
    let first = keeping.chain.as_ref().expect("whole").snapshot.clone();
    let part_count =
        |keeping: &Keeping| keeping.known.values().filter(|found| found.header.kind == ReplicaKind::Snapshot).count();
    let (mut number, mut during_count) = (100, 0);
    while keeping.chain.as_ref().expect("whole").snapshot == first {
        let before = part_count(&keeping);
        add_nodes(&store, number..number + 3);
        number += 3;
        assert!(keeping.round(history).await.expect("stored"), "nodes have the change");
        assert!(part_count(&keeping) <= before + 1, "one part");
        during_count += usize::from(keeping.under_way.is_some());
        assert_eq!(recovered(&transfer).await, all(&store), "{number}");
    }
    assert!(during_count >= 8, "{during_count}");
    let chain = keeping.chain.as_ref().expect("whole");
    let is_since = |set: &chain::Set| set.after >= chain.snapshot.after;
    assert!(chain.changes.iter().skip(1).all(is_since), "it carries nothing that the snapshot has");
    let found = transfer.find_replicas(&BTreeMap::new()).await;
    assert_eq!(found.pieces.len(), chain.pieces().count(), "the older snapshot is gone");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_goes_on_after_a_failure_where_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let (nodes, is_away) = (nodes(3), Arc::new(AtomicBool::new(false)));
    let faulty = |(id, node): &(NodeId, Arc<RecordNode>)| {
        let is_away = is_away.clone();
        let script = move |_: &_| match is_away.load(Ordering::Relaxed) {
            true => Fault::Fail(NodeErrorKind::Full),
            false => Fault::None,
        };
        (*id, Arc::new(FaultNode::new(node.clone(), "n", Box::new(script))) as Arc<dyn Node>)
    };
    let (transfer, (_kv, store)) = (transfer_of(nodes.iter().map(faulty)), open(folder.path()));
    let history = store.history().expect("it has one");
    add_nodes(&store, 0..50);
    let mut keeping = keeper_of(&store, &transfer, SMALL);
    for _ in 0..3 {
        assert!(!keeping.round(history).await.expect("stored"));
    }
    is_away.store(true, Ordering::Relaxed);
    keeping.round(history).await.expect_err("nodes are full");
    add_nodes(&store, 50..60);
    is_away.store(false, Ordering::Relaxed);
    while !keeping.round(history).await.expect("stored") {}
    assert_eq!(recovered(&transfer).await, all(&store));
    let snapshot = &keeping.chain.as_ref().expect("whole").snapshot;
    let part_count = keeping.known.values().filter(|found| found.header.kind == ReplicaKind::Snapshot).count();
    assert_eq!(part_count, snapshot.parts.len(), "no part is stored twice");
}

/// On which each put takes forty seconds.
#[derive(Default)]
struct SlowPuts(AtomicU64);

impl Clock for SlowPuts {
    fn now(&self) -> Instant {
        SystemClock.now() + Duration::from_secs(40 * self.0.load(Ordering::Relaxed))
    }

    fn unix_time(&self) -> Duration {
        SystemClock.unix_time()
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        SystemClock.sleep_until(moment)
    }

    fn block(&self, time: Duration) {
        SystemClock.block(time);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_the_first_snapshot_waits_as_long_as_nodes_take_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let (nodes, clock) = (nodes(1), Arc::<SlowPuts>::default());
    let slow = |(id, node): &(NodeId, Arc<RecordNode>)| {
        let clock = clock.clone();
        let script = move |call: &weft_nodes::wrappers::fault::Call| {
            clock.0.fetch_add(u64::from(call.operation == Operation::Put), Ordering::Relaxed);
            Fault::None
        };
        (*id, Arc::new(FaultNode::new(node.clone(), "n", Box::new(script))) as Arc<dyn Node>)
    };
    let env = Env { clock: clock.clone(), ..Env::system() };
    let (transfer, (_kv, store)) = (transfer_of(nodes.iter().map(slow)), open_in(folder.path(), env));
    add_nodes(&store, 0..30);
    let runtime = tokio::runtime::Handle::current().into();
    let replicator = Replicator::start(&store, &transfer, SMALL, &runtime).expect("started").expect("it has a history");
    let wait = || tokio::task::block_in_place(|| replicator.catch_up());
    assert_eq!(wait(), Ok(()));
    assert!(clock.0.load(Ordering::Relaxed) >= 3, "two minutes");
    assert_eq!(recovered(&transfer).await, all(&store));
}

/// The disk is set back to an earlier moment of the same opening, with all that is beside the file, and nodes do not say so when it is opened.
#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_was_set_back_changes_nothing_when_nodes_tell() {
    set_back_and_changed(0).await;
}

/// And before the next mount a command changes so much that there are more transactions than nodes have of the lost past.
#[tokio::test(flavor = "multi_thread")]
async fn so_it_is_where_others_changed_it_before_the_next_replica() {
    set_back_and_changed(60).await;
}

async fn set_back_and_changed(count: u64) {
    let parent = tempfile::tempdir().expect("a folder");
    let (folder, kept) = (parent.path().join("meta"), parent.path().join("kept"));
    std::fs::create_dir(&folder).expect("made");
    let nodes = nodes(4);
    let transfer = transfer(&nodes);
    {
        let (_kv, store) = open(&folder);
        store.take_opening(1, 0).expect("opened");
        change(&store, 1);
        keeper(&store, &transfer).round(store.history().expect("it has one")).await.expect("stored");
    }
    let copy = |from: &Path, to: &Path| {
        let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp runs");
        assert!(copied.success());
    };
    copy(&folder, &kept);
    {
        let (_kv, store) = open(&folder);
        (2..40).for_each(|value| change(&store, value));
        keeper(&store, &transfer).round(store.history().expect("it has one")).await.expect("stored");
        assert_eq!(recovered(&transfer).await, all(&store));
    }
    // In place: a store knows its inode.
    for name in ["meta.db", "meta.db-owner", "meta.db-intents"] {
        let bytes = std::fs::read(kept.join(name)).expect("read");
        std::fs::write(folder.join(name), bytes).expect("written");
    }
    if count > 0 {
        let (_kv, store) = open(&folder);
        store.take_opening(2, 0).expect("opened");
        (200..200 + count).for_each(|value| change(&store, value));
    }
    let (_kv, store) = open(&folder);
    store.take_opening(3, 0).expect("opened");
    change(&store, 100);
    let before = recovered(&transfer).await;
    let failed = keeper(&store, &transfer).round(store.history().expect("it has one")).await.expect_err("set back");
    assert!(matches!(failed, ReplicaError::SetBack(_)), "{failed}");
    assert!(store.halted().is_some_and(|why| why.contains("as it was earlier") && why.contains("weft recover")));
    assert_eq!(recovered(&transfer).await, before, "the later state stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_note_says_why_there_is_no_replica() {
    let folder = tempfile::tempdir().expect("a folder");
    let (transfer, (_kv, store)) = (transfer(&Nodes::new()), open(folder.path()));
    let history = store.history().expect("it has one");
    let mut keeping = keeper(&store, &transfer);
    let why = keeping.round(history).await.expect_err("there is no node").to_string();
    assert!(why.contains("weft node add"), "{why}");
    let meta = MetaUrl::from(folder.path().join("meta.db"));
    keeping.note(Some(why.clone())).write(&meta);
    let status = super::super::replica_status(&store, &meta).expect("read").expect("its engine keeps no copies itself");
    assert_eq!((status.at_ms, status.failure), (None, Some(why)));
}

/// While a node is away, pieces have a copy less. What they would make needless stays, since it may be all that is left.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_while_a_piece_that_is_needed_lacks_a_copy() {
    let folder = tempfile::tempdir().expect("a folder");
    let (nodes, is_away) = (nodes(3), Arc::new(AtomicBool::new(false)));
    let faulty = |(id, node): &(NodeId, Arc<RecordNode>)| {
        let (is_away, is_third) = (is_away.clone(), id.0 == 3);
        let script = move |_: &_| match is_third && is_away.load(Ordering::Relaxed) {
            true => Fault::Fail(NodeErrorKind::Unavailable),
            false => Fault::None,
        };
        (*id, Arc::new(FaultNode::new(node.clone(), "n", Box::new(script))) as Arc<dyn Node>)
    };
    let (transfer, (_kv, store)) = (transfer_of(nodes.iter().map(faulty)), open(folder.path()));
    let history = store.history().expect("it has one");
    let mut keeping = keeper(&store, &transfer);
    let mut round = async |value| {
        change(&store, value);
        keeping.round(history).await.expect("stored");
    };
    round(0).await;
    is_away.store(true, Ordering::Relaxed);
    let left: Nodes = nodes[..2].to_vec();
    let seen = self::transfer(&left);
    for value in 1..=20 {
        round(value).await;
        assert_eq!(recovered(&seen).await, all(&store));
        assert_eq!(piece_count(&seen).await, 1 + value as usize, "also those that were made one");
    }
}

/// A node that leaves while no mount is there takes its pieces along, and nobody stores them again.
#[tokio::test(flavor = "multi_thread")]
async fn the_note_says_that_nodes_with_pieces_have_left() {
    let folder = tempfile::tempdir().expect("a folder");
    let nodes = nodes(3);
    let (transfer, (_kv, store)) = (transfer(&nodes), open(folder.path()));
    store.take_opening(1, 0).expect("opened");
    let record = |id: &NodeId| NodeRecord::of(format!("n{}", id.0), format!("memory:n{}", id.0));
    nodes.iter().for_each(|(id, _)| store.add_node(*id, &record(id)).expect("added"));
    let mut keeping = keeper(&store, &transfer);
    keeping.round(store.history().expect("it has one")).await.expect("stored");
    let meta = MetaUrl::from(folder.path().join("meta.db"));
    keeping.note(None).write(&meta);
    let failure = || super::super::replica_status(&store, &meta).expect("read").expect("no copies itself").failure;
    assert_eq!(failure(), None);
    let left = NodeId(2);
    let draining = NodeRecord { state: NodeState::Draining, ..record(&left) };
    store.update_node(left, &record(&left), &draining).expect("drained");
    assert!(store.remove_node(left, true).expect("removed"));
    assert!(failure().expect("told").contains("had pieces of it 1 left the volume"));
}
