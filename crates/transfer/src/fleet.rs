//! The live nodes: who they are (membership) and how to reach them.
//!
//! A [`Fleet`] is replaced as a whole when the volume's nodes change; transfers under way keep the nodes they began with.

use crate::bounded::BoundedNode;
use crate::in_flight::InFlight;
use crate::scheduler::Estimate;
use crate::throttle::Traffic;
use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_cluster::{Membership, Observation, View};
use weft_env::{Clock, Env, Runtime};
use weft_format::NodeId;
use weft_format::records::{NodeRecord, PlacementRule};
use weft_nodes::{Class, Node, NodeError, NodeErrorKind, Space};

/// Room is asked for again after this long: placement wants proportions, not the last byte, and a full node says so itself.
const SPACE_STALE_MS: u64 = 10_000;

/// How long a node may take to say how much room it has.
const SPACE_DEADLINE: Duration = Duration::from_secs(10);

/// At this rate a node does what it says it has to do: 100 MB/s, as a fast line or disk, so that a little makes no difference.
const RUMOURED_BYTES_PER_US: u64 = 100;

/// One node of the fleet, as one class sees it: what waits behind others takes longer.
pub(crate) struct NodeHandle {
    pub(crate) id: NodeId,
    pub(crate) name: String,
    pub(crate) node: Arc<dyn Node>,
    /// What it took lately.
    pub(crate) estimate: Mutex<Estimate>,
    /// Gets under way to it, of all downloads.
    pub(crate) under_way: AtomicU32,
    pub(crate) under_way_bytes: AtomicU64,
    /// When it has done what it said it had to do, in microseconds of the fleet's own clock.
    rumoured_done_us: AtomicU64,
    /// What all classes do there.
    pub(crate) traffic: Arc<Traffic>,
    /// Has it failed since it last answered? Spares healthy nodes the estimator's lock.
    troubled: Arc<AtomicBool>,
    /// What was heard of it, whoever asked.
    pulse: Arc<Pulse>,
}

/// When a node was last heard of: what tells one that is busy from one that is away.
struct Pulse {
    clock: Arc<dyn Clock>,
    epoch: Instant,
    /// Microseconds since the epoch, and 1; 0: never.
    heard_us: AtomicU64,
    /// When it last stored something for this process.
    stored_us: AtomicU64,
    /// When it was last given up although it was heard of.
    stalled_us: AtomicU64,
    /// Is it being asked whether it is there?
    is_asked: AtomicBool,
}

/// A node that answers questions and does nothing else counts as silent for so long.
const STALL: Duration = Duration::from_secs(30);

impl Pulse {
    fn us(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.epoch).as_micros() as u64 + 1
    }
}

impl NodeHandle {
    /// How much longer it is busy, by rumour.
    pub(crate) fn rumoured_us(&self, now_us: u64) -> u64 {
        self.rumoured_done_us.load(Ordering::Relaxed).saturating_sub(now_us)
    }

    fn hear(&self) {
        self.pulse.heard_us.store(self.pulse.us(self.pulse.clock.now()), Ordering::Relaxed);
    }

    /// Has it answered anybody since then?
    pub(crate) fn was_heard_since(&self, since: Instant) -> bool {
        self.pulse.heard_us.load(Ordering::Relaxed) >= self.pulse.us(since)
    }

    /// It has stored something.
    pub(crate) fn has_stored(&self) {
        self.pulse.stored_us.store(self.pulse.us(self.pulse.clock.now()), Ordering::Relaxed);
        self.pulse.stalled_us.store(0, Ordering::Relaxed);
    }

    /// When it last stored something, or `began` if that was later.
    pub(crate) fn stored_since(&self, began: Instant) -> Instant {
        let stored_us = self.pulse.stored_us.load(Ordering::Relaxed);
        began.max(self.pulse.epoch + Duration::from_micros(stored_us))
    }

    /// It answers, and has not done for very long what it was asked for.
    pub(crate) fn stall(&self, now: Instant) {
        self.pulse.stalled_us.store(self.pulse.us(now), Ordering::Relaxed);
    }

    /// Was that not long ago?
    pub(crate) fn stalls(&self, now: Instant) -> bool {
        match self.pulse.stalled_us.load(Ordering::Relaxed) {
            0 => false,
            stalled_us => self.pulse.us(now) < stalled_us + STALL.as_micros() as u64,
        }
    }
}

/// Nodes by id, for the foreground and for the background.
type Handles = [Arc<BTreeMap<NodeId, Arc<NodeHandle>>>; 2];

/// The live nodes of a volume.
pub struct Fleet {
    handles: RwLock<Handles>,
    membership: Membership,
    env: Env,
    started: Instant,
    space_asked_ms: AtomicU64,
    /// When the last round of questions began for whose answers writes waited.
    space_round: tokio::sync::Mutex<Option<Instant>>,
}

impl Fleet {
    /// The nodes that metadata names, each opened, and what the volume wants of places. All that is done with them has this `env`.
    pub fn new(members: Vec<(NodeId, NodeRecord, Arc<dyn Node>)>, rule: PlacementRule, env: &Env) -> Self {
        let fleet = Self {
            handles: RwLock::default(),
            membership: Membership::default(),
            env: env.clone(),
            started: env.clock.now(),
            space_asked_ms: AtomicU64::new(0),
            space_round: tokio::sync::Mutex::default(),
        };
        fleet.set(members, rule);
        fleet
    }

    /// Replaces the whole table, and the rule, at run time. What was seen of nodes that stay is kept.
    pub fn set(&self, members: Vec<(NodeId, NodeRecord, Arc<dyn Node>)>, rule: PlacementRule) {
        let mut handles = self.handles.write();
        let records: Vec<(NodeId, NodeRecord)> = members.iter().map(|(id, record, _)| (*id, record.clone())).collect();
        let mut of_class = [BTreeMap::new(), BTreeMap::new()];
        for (id, record, node) in members {
            let known = (handles[Class::Foreground as usize].get(&id))
                .filter(|handle| Arc::ptr_eq(&handle.node, &node) && handle.name == record.name)
                .zip(handles[Class::Background as usize].get(&id));
            let [foreground, background] = match known {
                Some((foreground, background)) => [foreground.clone(), background.clone()],
                None => new_handles(id, record.name, node, self.started, &self.env.clock),
            };
            of_class[Class::Foreground as usize].insert(id, foreground);
            of_class[Class::Background as usize].insert(id, background);
        }
        *handles = of_class.map(Arc::new);
        self.membership.set_records(records, rule);
        self.space_asked_ms.store(0, Ordering::Relaxed);
    }

    /// Time, chance and threads of all that is done with the nodes.
    pub fn env(&self) -> &Env {
        &self.env
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        &*self.env.clock
    }

    /// A node by id, every call of which ends; `None`: no member.
    pub fn get(&self, id: NodeId) -> Option<Arc<dyn Node>> {
        let handle = self.handle(Class::Foreground, id)?;
        let (node, name, clock) = (handle.node.clone(), handle.name.clone(), self.env.clock.clone());
        Some(Arc::new(BoundedNode { node, name, clock }))
    }

    /// The node's name as the user knows it, or its id.
    pub fn name(&self, id: NodeId) -> String {
        self.handle(Class::Foreground, id).map_or_else(|| id.to_string(), |handle| handle.name.clone())
    }

    /// Takes in how a call to a node ended.
    pub fn report(&self, id: NodeId, outcome: Result<(), NodeErrorKind>) {
        if let Some(handle) = self.handle(Class::Foreground, id) {
            self.report_of(&handle, outcome);
        }
    }

    /// Members, their health and room.
    pub fn view(&self) -> Arc<View> {
        self.membership.view()
    }

    /// Takes in what a node says of its room.
    pub fn set_space(&self, id: NodeId, space: &Space) {
        self.membership.set_space(id, space.total_bytes, space.free_bytes, space.disk);
    }

    /// Takes in how many bytes a node says it has under way. That counts until they would be moved: the node may say nothing more here.
    pub fn set_load(&self, id: NodeId, load_bytes: u64) {
        let done_us = self.now_us() + load_bytes / RUMOURED_BYTES_PER_US;
        for handle in [Class::Foreground, Class::Background].into_iter().filter_map(|class| self.handle(class, id)) {
            handle.rumoured_done_us.store(done_us, Ordering::Relaxed);
        }
    }

    /// Asks every node for its room, all at once; doubles as a health probe. A node that does not answer in time is
    /// reported as silent.
    pub async fn refresh_space(&self) {
        self.refresh_space_within(SPACE_DEADLINE).await;
    }

    /// As [`Self::refresh_space`], for somebody who waits: no longer than `deadline`, for all nodes together.
    pub async fn refresh_space_within(&self, deadline: Duration) {
        self.space_asked_ms.store(self.now_ms().max(1), Ordering::Relaxed);
        let handles = self.handles(Class::Background);
        let mut asked = InFlight::new();
        for handle in handles.values() {
            asked.push(handle, Box::pin(self.env.clock.timeout(deadline, handle.node.space())));
        }
        while let Some((handle, answer)) = asked.next().await {
            match answer {
                Ok(Ok(space)) => {
                    self.set_space(handle.id, &space);
                    self.report_of(handle, Ok(()));
                }
                Ok(Err(error)) => self.report_of(handle, Err(error.kind)),
                Err(_) => self.report_of(handle, Err(NodeErrorKind::TimedOut)),
            }
        }
    }

    /// Asks every node for its room, unless that was done since `moment`. Those who want that at the same time share the answers: however many
    /// they are, nodes are asked twice.
    pub(crate) async fn refresh_space_since(&self, moment: Instant, deadline: Duration) {
        let mut last_began = self.space_round.lock().await;
        if last_began.is_none_or(|began| began <= moment) {
            let began = self.env.clock.now();
            self.refresh_space_within(deadline).await;
            *last_began = Some(began);
        }
    }

    /// Asks a node in the background whether it is there; what it says is heard of it, and how much room it has.
    pub(crate) fn ask_if_there(self: &Arc<Self>, handle: &Arc<NodeHandle>, runtime: &Runtime) {
        if handle.pulse.is_asked.swap(true, Ordering::Relaxed) {
            return;
        }
        let (fleet, handle) = (self.clone(), handle.clone());
        runtime.spawn(async move {
            let answer = fleet.env.clock.timeout(SPACE_DEADLINE, handle.node.space()).await;
            handle.pulse.is_asked.store(false, Ordering::Relaxed);
            match answer {
                Ok(Ok(space)) => {
                    fleet.set_space(handle.id, &space);
                    handle.hear();
                }
                Ok(Err(error)) if observation(error.kind) == Observation::Answered => handle.hear(),
                // Whoever waits finds out that it is silent.
                Ok(Err(_)) | Err(_) => {}
            }
        });
    }

    /// Is it time to ask for room again? Says yes to one caller only.
    pub(crate) fn space_is_stale(&self) -> bool {
        let (asked_ms, now_ms) = (self.space_asked_ms.load(Ordering::Relaxed), self.now_ms().max(1));
        let stale = asked_ms == 0 || now_ms.saturating_sub(asked_ms) >= SPACE_STALE_MS;
        stale && self.space_asked_ms.compare_exchange(asked_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// All nodes at this moment.
    pub(crate) fn handles(&self, class: Class) -> Arc<BTreeMap<NodeId, Arc<NodeHandle>>> {
        self.handles.read()[class as usize].clone()
    }

    pub(crate) fn handle(&self, class: Class, id: NodeId) -> Option<Arc<NodeHandle>> {
        self.handles.read()[class as usize].get(&id).cloned()
    }

    /// What goes on at those of `nodes`, each once, that leave the background's share to whoever asks.
    pub(crate) fn traffic(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<Arc<Traffic>> {
        let (handles, nodes) = (self.handles(Class::Background), nodes.collect::<BTreeSet<NodeId>>());
        let handles = nodes.iter().filter_map(|node| handles.get(node)).filter(|handle| !handle.node.shares_itself());
        handles.map(|handle| handle.traffic.clone()).collect()
    }

    pub(crate) fn report_of(&self, handle: &NodeHandle, outcome: Result<(), NodeErrorKind>) {
        let observation = match outcome {
            Ok(()) => Observation::Answered,
            Err(kind) => observation(kind),
        };
        if outcome == Err(NodeErrorKind::Full) {
            self.membership.set_full(handle.id);
        }
        let answered = observation == Observation::Answered;
        if answered {
            handle.hear();
        }
        if answered && !handle.troubled.load(Ordering::Relaxed) {
            return;
        }
        handle.troubled.store(!answered, Ordering::Relaxed);
        self.membership.observe(handle.id, observation, self.now_ms());
    }

    /// Microseconds of the fleet's own clock.
    pub(crate) fn now_us(&self) -> u64 {
        self.env.clock.elapsed(self.started).as_micros() as u64
    }

    /// Milliseconds of the fleet's own clock, which membership is told.
    pub(crate) fn now_ms(&self) -> u64 {
        self.env.clock.elapsed(self.started).as_millis() as u64
    }
}

/// A node that is new here, for each class.
fn new_handles(
    id: NodeId,
    name: String,
    node: Arc<dyn Node>,
    epoch: Instant,
    clock: &Arc<dyn Clock>,
) -> [Arc<NodeHandle>; 2] {
    let pulse = Arc::new(Pulse {
        clock: clock.clone(),
        epoch,
        heard_us: AtomicU64::new(0),
        stored_us: AtomicU64::new(0),
        stalled_us: AtomicU64::new(0),
        is_asked: AtomicBool::new(false),
    });
    let (traffic, troubled) = (Arc::new(Traffic::new(clock)), Arc::new(AtomicBool::new(true)));
    let in_background: Arc<dyn Node> = Arc::new(BoundedNode {
        node: node.in_background().unwrap_or_else(|| node.clone()),
        name: name.clone(),
        clock: clock.clone(),
    });
    let handle = |node| NodeHandle {
        id,
        name: name.clone(),
        node,
        estimate: Mutex::default(),
        under_way: AtomicU32::new(0),
        under_way_bytes: AtomicU64::new(0),
        rumoured_done_us: AtomicU64::new(0),
        traffic: traffic.clone(),
        troubled: troubled.clone(),
        pulse: pulse.clone(),
    };
    [node, in_background].map(|node| Arc::new(handle(node)))
}

/// What a failure says of the node as a whole; most answers say that it is well.
fn observation(kind: NodeErrorKind) -> Observation {
    match kind {
        NodeErrorKind::NotFound
        | NodeErrorKind::Exists
        | NodeErrorKind::Full
        | NodeErrorKind::Corrupt
        | NodeErrorKind::Busy
        | NodeErrorKind::Unsupported => Observation::Answered,
        NodeErrorKind::TimedOut | NodeErrorKind::Io => Observation::Silent,
        NodeErrorKind::Unavailable | NodeErrorKind::Wiped | NodeErrorKind::WrongNode | NodeErrorKind::Denied => {
            Observation::Refused
        }
    }
}

/// The error of a shard whose node the volume does not have now.
pub(crate) fn no_member(id: NodeId) -> NodeError {
    NodeError {
        kind: NodeErrorKind::Unavailable,
        node: id.to_string(),
        detail: "is not a node of this volume now; add it again, or repair what it held".into(),
    }
}
