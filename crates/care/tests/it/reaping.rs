//! The reaper among all others: before every step that it takes they delete, restore, convert, move, merge, write, commit late and crash,
//! and clocks jump. Nothing that is referenced is ever removed, and in the end nothing is left over. By real collections over nodes and
//! a catalogue in memory, in an order that a seed gives.

use crate::harness::mortal::{Mortal, Others};
use crate::harness::{NOW_MS, World};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use weft_care::catalogue::memory::MemoryCatalogue;
use weft_care::collect::{Beside, GRACE_MS, Options, UnreferencedSince, collect, discard, empty_trash};
use weft_care::convert::KEEP_MS;
use weft_care::{Catalogue, Job};
use weft_env::Env;
use weft_format::geometry::Geometry;
use weft_format::records::{Latest, OpeningsRecord, Origin, RetainedRecord, SegmentRecord, ShardLocation, Succession};
use weft_format::shard::Digest;
use weft_format::{Generation, NodeId, SegmentId, ShardIndex, ShardKey};
use weft_nodes::Node;

const NODE_COUNT: u128 = 4;
const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// Numbers of a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[self.below(from.len() as u64) as usize].clone())
    }
}

/// What memory does is done at once.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("memory does not wait"),
    }
}

/// Segments with their shards stored that a writer has not committed yet, or somebody's plan to restore.
type Named = (SegmentId, SegmentRecord);

/// Everybody but the reaper.
struct Everybody {
    random: Random,
    catalogue: Arc<MemoryCatalogue>,
    nodes: Vec<(NodeId, Arc<dyn Node>)>,
    openings: OpeningsRecord,
    /// Of segments, and of attempts at them.
    count: u32,
    attempt: u32,
    /// By the writer of the latest opening.
    uncommitted: Vec<Named>,
    /// Read, to be written at some time.
    restores: Vec<(Named, RetainedRecord)>,
    wall_ms: u64,
    /// So many things are still done.
    steps_left: u64,
}

impl Everybody {
    fn new(world: &World, seed: u64) -> Self {
        let nodes = world.nodes.iter().map(|(id, node)| (*id, node.clone() as Arc<dyn Node>)).collect();
        let openings = OpeningsRecord::default().followed_by(1, NOW_MS);
        world.catalogue.set_openings(openings.clone());
        world.catalogue.set_owner(true);
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            catalogue: world.catalogue.clone(),
            nodes,
            openings,
            count: 0,
            attempt: 1,
            uncommitted: Vec::new(),
            restores: Vec::new(),
            wall_ms: NOW_MS,
            steps_left: 0,
        }
    }

    /// Stores a shard at one of the nodes that are not `avoided`.
    fn put(&mut self, key: ShardKey, avoided: &[NodeId]) -> ShardLocation {
        let free: Vec<_> = self.nodes.iter().filter(|(id, _)| !avoided.contains(id)).cloned().collect();
        let (id, node) = self.random.pick(&free).expect("a node");
        now(node.put(key, &[Bytes::from_static(b"shard")])).expect("a name that nobody used");
        ShardLocation { node: id, generation: key.generation, digest: Digest([0; 32]), origin: None }
    }

    /// So many shards under the names of one attempt.
    fn put_all(&mut self, segment: SegmentId, generation: Generation, count: u16) -> Vec<Option<ShardLocation>> {
        let mut shards: Vec<Option<ShardLocation>> = Vec::new();
        for index in 0..count {
            let avoided: Vec<NodeId> = shards.iter().flatten().map(|shard| shard.node).collect();
            let key = ShardKey { segment, generation, index: ShardIndex(index) };
            let location = self.put(key, &avoided);
            shards.push(Some(location));
        }
        shards
    }

    fn new_attempt(&mut self) -> Generation {
        self.attempt += 1;
        Generation(self.attempt)
    }

    fn living(&self) -> Vec<Named> {
        let segments = self.catalogue.survey(None, usize::MAX).expect("read").into_iter();
        segments.filter(|entry| entry.live_bytes > 0).map(|entry| (entry.segment, entry.record)).collect()
    }

    /// Segments of the latest opening before the first that is not committed are settled.
    fn settle(&mut self) {
        let first = self.uncommitted.iter().map(|(segment, _)| segment.count()).min();
        let settled_below = first.unwrap_or(self.count);
        let latest = self.openings.latest.map(|latest| Latest { settled_below, ..latest });
        self.openings = OpeningsRecord { latest, ..self.openings.clone() };
        self.catalogue.set_openings(self.openings.clone());
    }

    fn begin_to_write(&mut self) {
        let number = (u128::from(self.openings.number()) << 48) | (u128::from(self.count) << 16);
        let segment = SegmentId::new(NOW_MS, number);
        self.count += 1;
        let record = SegmentRecord {
            code: "replica:3".into(),
            geometry: Geometry::new(1000, 1, 1, 1, 4096).expect("a geometry"),
            generation: Generation::FIRST,
            shards: self.put_all(segment, Generation::FIRST, 3),
        };
        self.uncommitted.push((segment, record));
    }

    /// The writer commits, however late, or gives up.
    fn end_to_write(&mut self, is_committed: bool) {
        if self.uncommitted.is_empty() {
            return;
        }
        let at = self.random.below(self.uncommitted.len() as u64) as usize;
        let (segment, record) = self.uncommitted.swap_remove(at);
        if is_committed {
            self.catalogue.commit(segment, record, &format!("/{segment}"));
        }
        self.settle();
    }

    /// Whoever owned the volume is gone, and somebody else opens it.
    fn crash(&mut self) {
        self.uncommitted.clear();
        self.openings = self.openings.followed_by(self.random.below(u64::MAX).into(), NOW_MS);
        self.count = 0;
        self.catalogue.set_openings(self.openings.clone());
    }

    /// Another record takes the place of a segment's, and what it does not name is retained.
    fn replace(&mut self, (segment, record): &Named, shards: Vec<Option<ShardLocation>>, keep_ms: u64) {
        let new = SegmentRecord { shards, generation: Generation(record.generation.0 + 1), ..record.clone() };
        let retained = RetainedRecord::of(record, &new, self.wall_ms, keep_ms);
        let succession = Succession { retained, restored: None };
        self.catalogue.replace_segment(*segment, record, &new, &succession).expect("nobody came in between");
    }

    fn convert(&mut self) {
        let Some(found) = self.random.pick(&self.living()) else { return };
        let attempt = self.new_attempt();
        let shards = self.put_all(found.0, attempt, 3);
        // Some are killed before they commit.
        if self.random.below(4) > 0 {
            self.replace(&found, shards, KEEP_MS);
        }
    }

    fn move_one(&mut self) {
        let Some(found) = self.random.pick(&self.living()) else { return };
        let (segment, record) = &found;
        let index = self.random.below(record.shards.len() as u64) as u16;
        let key = ShardKey { segment: *segment, generation: self.new_attempt(), index: ShardIndex(index) };
        let avoided: Vec<NodeId> = record.nodes().collect();
        let mut shards = record.shards.clone();
        shards[usize::from(index)] = Some(self.put(key, &avoided));
        self.replace(&found, shards, 0);
    }

    /// Reads what is retained, to restore it later.
    fn plan_to_restore(&mut self) {
        let Some((segment, record)) = self.random.pick(&self.living()) else { return };
        let retained = self.catalogue.retained_of(segment).expect("read");
        if let Some(retained) = self.random.pick(&retained) {
            self.restores.push(((segment, record), retained));
        }
    }

    fn restore(&mut self) {
        let Some(((segment, record), retained)) = self.restores.pop() else { return };
        let of_retained = retained.record.shards.iter().zip(&record.shards);
        let shards = of_retained.map(|(retained, present)| retained.clone().or(present.clone())).collect();
        let new = SegmentRecord { shards, generation: Generation(record.generation.0 + 1), ..record.clone() };
        let replaced = RetainedRecord::of(&record, &new, self.wall_ms, KEEP_MS);
        let succession = Succession { retained: replaced, restored: Some(retained.clone()) };
        let restored = self.catalogue.replace_segment(segment, &record, &new, &succession);
        assert!(restored.is_err() || !retained.is_going, "what is going is never named again");
    }

    fn merge(&mut self) {
        let mut living = self.living();
        if living.len() < 2 {
            return;
        }
        let first = living.swap_remove(self.random.below(living.len() as u64) as usize);
        let second = living.swap_remove(self.random.below(living.len() as u64) as usize);
        let merged = SegmentId::of_worker(NOW_MS, self.openings.number(), self.random.below(u64::MAX) as _);
        let mut shards: Vec<Option<ShardLocation>> = Vec::new();
        for (source, record) in [&first, &second] {
            let nodes: Vec<NodeId> = shards.iter().flatten().map(|shard: &ShardLocation| shard.node).collect();
            let mut located = record.located(*source);
            let Some((_, key, location)) = located.find(|(_, _, location)| !nodes.contains(&location.node)) else {
                return;
            };
            let origin = Some(Origin { segment: key.segment, index: key.index });
            shards.push(Some(ShardLocation { origin, ..location.clone() }));
        }
        let nodes: Vec<NodeId> = shards.iter().flatten().map(|shard| shard.node).collect();
        let parity = ShardKey { segment: merged, generation: self.new_attempt(), index: ShardIndex(2) };
        shards.push(Some(self.put(parity, &nodes)));
        let record = SegmentRecord {
            code: "raid5:3".into(),
            geometry: Geometry::new(1000, 1, 1, 1, 4096).expect("a geometry").merged(2),
            generation: Generation::FIRST,
            shards,
        };
        self.catalogue.merge(&[first, second], &(merged, record)).expect("nobody came in between");
    }

    fn delete(&mut self) {
        if let Some((segment, _)) = self.random.pick(&self.living()) {
            self.catalogue.kill(segment, self.wall_ms);
        }
    }

    fn step(&mut self) {
        match self.random.below(16) {
            0..=2 => self.begin_to_write(),
            3..=4 => self.end_to_write(true),
            5 => self.end_to_write(false),
            6 => self.crash(),
            7 => self.delete(),
            8..=9 => self.convert(),
            10 => self.move_one(),
            11..=12 => self.plan_to_restore(),
            13 => self.restore(),
            14 => self.merge(),
            _ => self.wall_ms = NOW_MS + self.random.below(4 * DAY_MS) - 2 * DAY_MS,
        }
        self.assert_nothing_is_missing();
    }

    /// What is done before a step of the reaper.
    fn meanwhile(&mut self) {
        while self.steps_left > 0 && self.random.below(3) == 0 {
            self.steps_left -= 1;
            self.step();
        }
        self.assert_nothing_is_missing();
    }

    /// Where shards are that somebody may read, restore, or commit.
    fn referenced(&self) -> BTreeSet<(NodeId, ShardKey)> {
        let mut records = self.living();
        for (segment, _) in records.clone() {
            let retained = self.catalogue.retained_of(segment).expect("read").into_iter();
            records.extend(retained.filter(|retained| !retained.is_going).map(|retained| (segment, retained.record)));
        }
        records.extend(self.uncommitted.clone());
        let shards = |(segment, record): &Named| -> Vec<_> {
            record.located(*segment).map(|(_, key, location)| (location.node, key)).collect()
        };
        records.iter().flat_map(shards).collect()
    }

    fn assert_nothing_is_missing(&self) {
        for (id, key) in self.referenced() {
            let (_, node) = self.nodes.iter().find(|(node, _)| *node == id).expect("a node");
            assert!(now(node.stat(key)).is_ok(), "{key} of node {id} is referenced and gone");
        }
    }
}

/// What one process has seen.
#[derive(Default)]
struct Processes {
    workers: [UnreferencedSince; 2],
    owner: UnreferencedSince,
    at_ms: u64,
}

async fn reap(world: &World, everybody: &Arc<Mutex<Everybody>>, processes: &Processes) {
    let (kind, steps, wall_ms, is_quiet) = {
        let mut everybody = everybody.lock();
        everybody.steps_left = everybody.random.below(12);
        let steps = if everybody.random.below(3) == 0 { everybody.random.below(40) as i64 } else { i64::MAX };
        let is_quiet = everybody.uncommitted.is_empty() && everybody.restores.is_empty();
        (everybody.random.below(5), steps, everybody.wall_ms, is_quiet)
    };
    let busy = everybody.clone();
    let others: Others = Arc::new(move || busy.lock().meanwhile());
    // Who has the volume alone is among nobody.
    let others = (kind != 4).then_some(others);
    let mortal = Mortal::among(world, steps, steps % 2 == 0, others);
    let (catalogue, transfer, job) = (mortal.catalogue(), &mortal.transfer, Job::new(&Env::system().clock));
    let beside = |unreferenced_since| Beside { unreferenced_since, at_ms: processes.at_ms };
    let options = Options { grace_ms: GRACE_MS, in_use: None, dry_run: false };
    match kind {
        0 | 1 => {
            let in_use = Some(beside(&processes.workers[kind as usize]));
            mortal.kills(collect(catalogue, transfer, &job, Options { in_use, ..options }, wall_ms)).await
        }
        2 => mortal.kills(empty_trash(catalogue, transfer, &job, beside(&processes.owner))).await,
        3 => mortal.kills(discard(&*catalogue, transfer, &job, beside(&processes.workers[0]))).await,
        _ if is_quiet => mortal.kills(collect(catalogue, transfer, &job, options, wall_ms)).await,
        _ => false,
    };
    everybody.lock().assert_nothing_is_missing();
}

async fn live_through(seed: u64) {
    let mut world = World::new(NODE_COUNT);
    let everybody = Arc::new(Mutex::new(Everybody::new(&world, seed)));
    let mut processes = Processes::default();
    for _ in 0..40 {
        {
            let mut everybody = everybody.lock();
            (0..everybody.random.below(6)).for_each(|_| everybody.step());
            processes.at_ms += everybody.random.below(2 * GRACE_MS);
        }
        reap(&world, &everybody, &processes).await;
    }
    // At last all is quiet, and time goes by.
    {
        let mut everybody = everybody.lock();
        everybody.crash();
        everybody.restores.clear();
        everybody.steps_left = 0;
    }
    for _ in 0..4 {
        processes.at_ms += 2 * KEEP_MS;
        let in_use = Some(Beside { unreferenced_since: &processes.workers[0], at_ms: processes.at_ms });
        let options = Options { grace_ms: GRACE_MS, in_use, dry_run: false };
        let wall_ms = everybody.lock().wall_ms;
        let (transfer, job) = (world.transfer(), Job::new(&Env::system().clock));
        collect(world.catalogue.clone(), &transfer, &job, options, wall_ms).await.expect("collected");
    }
    let referenced: Vec<_> = everybody.lock().referenced().into_iter().collect();
    assert_eq!(world.stored().await, referenced, "nothing is left over");
    assert_eq!(world.catalogue.unreferenced(None, usize::MAX), Ok(Vec::new()));
    world.files.clear();
}

#[tokio::test]
async fn whatever_others_do_nothing_referenced_goes_and_everything_else_does() {
    for seed in 0..if crate::effort::is_long() { 150 } else { 60 } {
        println!("seed {seed}");
        live_through(seed).await;
    }
}
