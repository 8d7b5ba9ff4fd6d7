//! Attempts of several processes at the same segments: one that is stopped in the middle and goes on when another has done its work,
//! one that was killed and left shards behind. Each attempt names its shards by a number of its own, so neither overwrites, blocks
//! or removes what another stored, on nodes of every kind.

use crate::harness::mortal::Mortal;
use crate::harness::{NOW_MS, World};
use async_trait::async_trait;
use bytes::Bytes;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use tokio::sync::{Notify, watch};
use weft_care::convert::{self, convert};
use weft_care::{Catalogue, Job, repair};
use weft_env::{Env, Rng};
use weft_format::records::{NodeState, PolicyRecord};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_nodes::wrappers::{Fault, FaultNode};
use weft_nodes::{Capability, Node, NodeError, NodeErrorKind, NodeIdentity, Page, ShardStat, Space};
use weft_transfer::Transfer;

/// A node whose put takes the place of what has the name, as that of many servers does.
struct Replacing(Arc<dyn Node>);

#[async_trait]
impl Node for Replacing {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let _ = self.0.remove(key).await;
        self.0.put(key, parts).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.0.get(key, range).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.0.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.0.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.0.remove(key).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.0.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.0.identity().await
    }
}

/// How puts of a name that is taken end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Puts {
    Refuse,
    Replace,
}

impl Puts {
    fn node(self, node: Arc<dyn Node>) -> Arc<dyn Node> {
        match self {
            Puts::Refuse => node,
            Puts::Replace => Arc::new(Replacing(node)),
        }
    }

    fn transfer(self, world: &World) -> Transfer {
        world.transfer_through(|_, node| self.node(node))
    }
}

/// What is done at a segment.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Every shard is written anew.
    Convert,
    Repair,
}

/// Six nodes, so that there is no other place for a shard, and two segments to work at; a seventh for a repair.
async fn volume(work: Work) -> World {
    let mut world = World::new(if let Work::Repair = work { 7 } else { 6 });
    for number in 0..2 {
        world.write(number, "rs:4+2").await;
    }
    match work {
        Work::Convert => want(&world, "rs:3+3"),
        Work::Repair => {
            let record = &world.catalogue.survey(None, 1).expect("segments")[0].record;
            let lost = record.shards[1].as_ref().expect("placed").node;
            world.change_node(lost, |record| record.state = NodeState::Lost);
        }
    }
    world
}

fn want(world: &World, code: &str) {
    for segment in world.files.keys() {
        world.catalogue.set_policies(*segment, &[PolicyRecord::of(code, None)]);
    }
}

/// Works at all segments; what cannot be done is left.
async fn run(work: Work, catalogue: Arc<dyn Catalogue>, transfer: &Transfer) {
    let job = Job::new(&Env::system().clock);
    match work {
        Work::Convert => {
            let _ = convert(catalogue, transfer, &job, convert::Options::default(), NOW_MS).await;
        }
        Work::Repair => {
            let _ = repair::repair(catalogue, transfer, &job, repair::Options::default(), NOW_MS).await;
        }
    }
}

/// A process that is stopped before one of its calls of nodes: this one and all after it wait until it goes on. No answer to this
/// one comes any more, though it may have been done.
struct Gate {
    left: AtomicI64,
    is_done: bool,
    is_stopped: Notify,
    is_open: watch::Sender<bool>,
}

impl Gate {
    fn new(steps: i64, is_done: bool) -> Arc<Self> {
        let (is_stopped, is_open) = (Notify::new(), watch::Sender::new(false));
        Arc::new(Self { left: AtomicI64::new(steps), is_done, is_stopped, is_open })
    }

    /// Is the answer to this call lost?
    async fn pass(&self) -> bool {
        let left = self.left.fetch_sub(1, Ordering::SeqCst);
        if left <= 0 {
            if left == 0 {
                self.is_stopped.notify_one();
            }
            let opened = self.is_open.subscribe().wait_for(|is_open| *is_open).await.is_ok();
            assert!(opened, "whoever opens it is there");
        }
        left == 0
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T, NodeError>>) -> Result<T, NodeError> {
        let is_lost = self.pass().await;
        if is_lost && !self.is_done {
            return Err(lost());
        }
        let outcome = call.await;
        if is_lost { Err(lost()) } else { outcome }
    }
}

fn lost() -> NodeError {
    NodeError::new(NodeErrorKind::TimedOut, "stopped", "no answer came")
}

/// A node, as that process calls it.
struct Stopped(Arc<dyn Node>, Arc<Gate>);

#[async_trait]
impl Node for Stopped {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.1.call(self.0.put(key, parts)).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.1.call(self.0.get(key, range)).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.1.call(self.0.stat(key)).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.1.call(self.0.list(after, limit)).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.1.call(self.0.remove(key)).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.1.call(self.0.space()).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.1.call(self.0.identity()).await
    }
}

/// One is stopped after so many steps, another does all there is to do, and the first goes on. Were there so many steps?
async fn stopped_and_overtaken(work: Work, puts: Puts, steps: i64) -> bool {
    let world = volume(work).await;
    let gate = Gate::new(steps, steps % 2 == 0);
    let transfer = world.transfer_through(|_, node| Arc::new(Stopped(puts.node(node), gate.clone())));
    let late = run(work, world.catalogue.clone(), &transfer);
    tokio::pin!(late);
    let was_stopped = tokio::select! {
        biased;
        () = &mut late => false,
        () = gate.is_stopped.notified() => true,
    };
    if was_stopped {
        run(work, world.catalogue.clone(), &puts.transfer(&world)).await;
        world.assert_invariants().await;
        gate.is_open.send_replace(true);
        late.await;
    }
    world.assert_contents().await;
    if let Work::Convert = work {
        let codes: Vec<String> = world.files.keys().map(|segment| world.record(*segment).code).collect();
        assert!(!was_stopped || codes == ["rs:3+3"; 2], "{codes:?}");
    }
    let whole = |segment: &SegmentId| world.record(*segment).shards.len();
    for segment in world.files.keys() {
        assert_eq!(world.sound_count(*segment).await, whole(segment), "{work:?} {puts:?} after {steps} steps");
    }
    was_stopped
}

async fn at_every_step(work: Work, steps_min: i64) {
    for puts in [Puts::Refuse, Puts::Replace] {
        let mut steps = 0;
        while stopped_and_overtaken(work, puts, steps).await {
            steps += 1;
        }
        assert!(steps >= steps_min, "{work:?} has only {steps} steps");
    }
}

#[tokio::test]
async fn finding_02_a_late_conversion_removes_nothing_of_its_successors() {
    at_every_step(Work::Convert, 20).await;
}

#[tokio::test]
async fn finding_02_a_late_repair_removes_nothing_of_its_successors() {
    at_every_step(Work::Repair, 5).await;
}

#[tokio::test]
async fn finding_02_a_withdrawal_names_only_what_its_own_attempt_stored() {
    let world = volume(Work::Convert).await;
    let segment = *world.files.keys().next().expect("a segment");
    let record = world.record(segment);
    let first = world.transfer().recode(segment, &record, "rs:3+3", None).await.expect("recoded");
    world.catalogue.replace_segment(segment, &record, &first.record, &Default::default()).expect("committed");
    // The other began with the same record. Of one node no answer comes, so that it gives up.
    let refusing = world.transfer_through(|id, node| match id == NodeId(3) {
        false => node,
        true => Arc::new(FaultNode::new(node, "deaf", Box::new(|_| Fault::Fail(NodeErrorKind::TimedOut)))),
    });
    refusing.recode(segment, &record, "rs:3+3", None).await.expect_err("one shard has no place");
    assert_eq!(world.sound_count(segment).await, 6);
    world.assert_contents().await;
}

#[tokio::test]
async fn finding_03_what_a_killed_conversion_left_is_in_nobodys_way() {
    let mut steps = 0;
    loop {
        let world = volume(Work::Convert).await;
        let mortal = Mortal::new(&world, steps, steps % 2 == 0);
        let killed = tokio::select! {
            biased;
            () = mortal.dead() => true,
            // It ends by itself, too, where its metadata is dead to it.
            () = run(Work::Convert, mortal.catalogue(), &mortal.transfer) => tokio::select! {
                biased;
                () = mortal.dead() => true,
                () = std::future::ready(()) => false,
            },
        };
        // Other bytes under the same indices, and no other nodes to take them.
        want(&world, "rs:2+4");
        let options = convert::Options::default();
        let report =
            convert(world.catalogue.clone(), &world.transfer(), &Job::new(&Env::system().clock), options, NOW_MS).await;
        assert_eq!(report.expect("converted").failures, [], "after {steps} steps");
        world.assert_invariants().await;
        assert!(world.files.keys().all(|segment| world.record(*segment).code == "rs:2+4"));
        if !killed {
            break;
        }
        steps += 1;
    }
    assert!(steps > 20, "{steps} steps");
}

/// These numbers of 32 bits, in this order.
struct Numbers {
    given: Vec<u32>,
    drawn: AtomicUsize,
}

impl Rng for Numbers {
    fn next_u64(&self) -> u64 {
        u64::from(self.given[self.drawn.fetch_add(1, Ordering::SeqCst)]) << 32
    }
}

#[tokio::test]
async fn finding_03_an_attempt_that_draws_a_name_that_is_taken_draws_another() {
    let mut world = World::new(7);
    let segment = world.write(0, "rs:4+2").await;
    let record = world.record(segment);
    // 0 and 1 are no numbers of later attempts, and 7 is one that the record names by then.
    let numbers = Numbers { given: vec![0, 1, 7, 7, 1, 9], drawn: AtomicUsize::new(0) };
    let env = Env { rng: Arc::new(numbers), ..Env::system() };
    let transfer = world.transfer_within(&env, |_, node| node);
    let once = transfer.rebuild(segment, &record, &[weft_format::ShardIndex(0)]).await.expect("rebuilt").record;
    let twice = transfer.rebuild(segment, &once, &[weft_format::ShardIndex(1)]).await.expect("rebuilt").record;
    let names = |record: &weft_format::records::SegmentRecord| -> Vec<u32> {
        record.shards.iter().flatten().map(|shard| shard.generation.0).collect()
    };
    assert_eq!((names(&once), names(&twice)), (vec![7, 1, 1, 1, 1, 1], vec![7, 9, 1, 1, 1, 1]));
    assert_eq!([record.generation.0, once.generation.0, twice.generation.0], [1, 2, 3], "records are counted");
}
