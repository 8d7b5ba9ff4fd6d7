//! A store of objects without a catalogue, in a world of its own: members with disks that are killed, stopped, emptied and rolled back to an
//! old image, clients that put, get and remove at once, are killed and paused for hours, with clocks that differ by days, over a network that
//! loses, doubles and delays. New members join, and others leave for good (`churn.rs`). Hosts, keepers, clients and transfer are the product's own code. Each history has a plan of its own (`plan.rs`).
//!
//! One member at most is in trouble at a time, and the others have time to restore what it had: as many losses as an answered put survives for
//! sure. Then a read gives what one of the operations left that no answered one, which began later, has replaced: nothing older, nothing
//! made up, and no removed object again. No keeper removes what is needed (`removals.rs`). At the end everything is whole, and nothing is
//! left over.
//!
//! `a seed -> members, clients and faults -> the faults end -> all is legal, whole and clean, or a complaint`.

mod churn;
mod line;
mod own_place;
mod plan;
mod promise;
mod removals;
mod strikes;

use crate::ambush::ProcessId;
use crate::scheduler::{Ended, Scheduler, env_of};
use crate::weights::chosen;
use churn::MEMBERS_MIN;
use line::{Line, Machine, Machines, Noise};
use own_place::OwnPlace;
use parking_lot::Mutex;
use plan::{Plan, Turn};
use promise::{Kind, Operation, Was, is_legal};
use removals::{refusing_count, two_at_one};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use weft_cluster::gossip::Liveness;
use weft_format::{NodeId, VolumeId};
use weft_objects::{Keeper, KeeperSettings, MemberAt, Neighbourhood, ObjectError, ObjectStore, PutRequest};
use weft_transfer::Settings;

const VOLUME: VolumeId = VolumeId(0x00b1_ec75);
const NAMES: [&str; 4] = ["a", "b/1", "b/2", "c"];
/// Readers at once, more than a shard may have without copies.
const RUSH: usize = 6;
/// Longer than each grace time.
const REST: Duration = Duration::from_secs(2400);
/// Of a put: its number, and bytes that follow from it.
const CONTENTS_BYTES_MAX: u64 = 60_000;
const STEPS_MAX: u64 = 60_000_000;
const SETTINGS: KeeperSettings = KeeperSettings {
    rebuild_after: Duration::from_secs(60),
    leftover_grace: Duration::from_secs(1800),
    superseded_grace: Duration::from_secs(300),
    pause: Duration::from_secs(15),
    bytes_per_second: None,
    // A shard in each round.
    scrub_bytes_per_second: 1,
    hot_reads_per_minute: NonZeroU32::new(2).unwrap(),
};
/// When the faults are over, everything is in order after this.
const ORDER_AFTER: Duration = Duration::from_secs(4 * 3600);

/// What a history came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What is not as promised; empty: nothing.
    pub complaints: Vec<String>,
    /// Things that happened.
    pub steps: u64,
    /// Puts, gets and removals that were begun.
    pub operations: u64,
    /// Those that were answered with success.
    pub answered: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Of all that happened: two runs of one seed have the same.
    pub digest: String,
    /// All that was told, if it was kept.
    pub lines: Vec<String>,
}

/// Runs the history of a seed. `is_told`: keep lines that say what happens.
#[must_use]
pub fn run(seed: u64, is_told: bool) -> Outcome {
    let scheduler = Scheduler::begin(seed, is_told);
    let mut world = World::new(Rc::clone(&scheduler));
    for number in 0..world.plan.turns {
        world.turn(number < world.plan.changes);
        world.wait(Duration::from_millis(scheduler.below(world.plan.turn_ms_max)));
    }
    world.end_faults();
    world.wait(ORDER_AFTER);
    world.check_end();
    let operations = world.operations.lock().clone();
    let mut outcome = Outcome {
        steps: scheduler.steps(),
        operations: operations.len() as u64,
        answered: operations.iter().filter(|operation| operation.was.is_some()).count() as u64,
        faults: world.faults,
        ..Outcome::default()
    };
    outcome.complaints = scheduler.take_complaints();
    (outcome.lines, outcome.digest) = scheduler.told();
    scheduler.end();
    outcome
}

struct World {
    scheduler: Rc<Scheduler>,
    plan: Plan,
    machines: Machines,
    noise: Arc<Mutex<Noise>>,
    operations: Arc<Mutex<Vec<Operation>>>,
    /// Of operations that have not ended.
    clients: BTreeMap<usize, ProcessId>,
    next_process: u32,
    /// The member in trouble, until when, and what then.
    trouble: Option<(usize, Duration)>,
    calm_since: Duration,
    faults: u64,
}

/// The members as one of them, or a client, sees them.
struct Seen {
    machines: Machines,
    own: Option<NodeId>,
    /// Who looks.
    process: ProcessId,
    noise: Arc<Mutex<Noise>>,
}

impl Neighbourhood for Seen {
    fn members(&self) -> Vec<MemberAt> {
        let is_known = |machine: &Machine| self.own == Some(machine.id) || machine.is_known_to(self.process);
        let member = |(at, machine): (usize, &Arc<Machine>)| {
            let line = Line::new(self.process, machine.clone(), self.noise.clone());
            let own = |host: Arc<weft_objects::Host>| {
                Arc::new(OwnPlace::new(
                    self.process,
                    host.node_of_keeper(),
                    self.noise.clone(),
                    self.machines.clone(),
                    at,
                ))
            };
            let host = machine.host.lock().clone().filter(|_| self.own == Some(machine.id));
            MemberAt {
                id: machine.id,
                address: format!("m{}", machine.id.0),
                liveness: if machine.is_dead_by_rumour() { Liveness::Dead } else { Liveness::Alive },
                domain: String::new(),
                total_bytes: 1 << 40,
                load_bytes: 0,
                node: host.map_or_else(|| line.clone() as _, |host| own(host) as _),
                questions: line,
            }
        };
        self.machines.all().iter().enumerate().filter(|(_, machine)| is_known(machine)).map(member).collect()
    }
}

impl World {
    fn new(scheduler: Rc<Scheduler>) -> Self {
        let machines = Machines::default();
        (1..=MEMBERS_MIN as u128).for_each(|id| machines.add(Machine::new(NodeId(id), VOLUME, None)));
        let plan = Plan::of(|end| scheduler.below(end));
        scheduler.tell(|| format!("{plan:?}"));
        let mut world = Self {
            scheduler,
            plan,
            machines,
            noise: Arc::default(),
            operations: Arc::default(),
            clients: BTreeMap::new(),
            next_process: 1,
            trouble: None,
            calm_since: Duration::ZERO,
            faults: 0,
        };
        for position in 0..MEMBERS_MIN {
            world.start_member(position);
        }
        world
    }

    fn new_process(&mut self) -> ProcessId {
        let process = ProcessId(self.next_process);
        self.next_process += 1;
        self.scheduler.add_process(process);
        process
    }

    fn seen_by(&self, process: ProcessId, own: Option<NodeId>) -> Seen {
        Seen { machines: self.machines.clone(), own, process, noise: self.noise.clone() }
    }

    fn start_member(&mut self, position: usize) {
        let process = self.new_process();
        let machine = self.machines.at(position);
        machine.start(process);
        let (env, runtime) = env_of(process);
        let Some(host) = machine.host.lock().clone() else { return };
        let seen = Arc::new(self.seen_by(process, Some(machine.id)));
        let keeper = Keeper::new(host, seen, SETTINGS, &env, &runtime);
        drop(runtime.spawn(keeper.run()));
    }

    /// Lets time pass.
    fn wait(&mut self, time: Duration) {
        let until = self.scheduler.now() + time;
        // Something happens at that moment, or the clock would jump beyond it.
        self.scheduler.after(time, || {});
        let scheduler = self.scheduler.clone();
        while scheduler.now() < until {
            if scheduler.run(STEPS_MAX, || scheduler.is_sprung() || scheduler.now() >= until) != Ended::Done {
                scheduler.complain(format!("nothing goes on: {:?}", scheduler.waiting()));
                break;
            }
            self.spring();
        }
        let operations = self.operations.lock();
        self.clients.retain(|number, _| operations[*number].ended.is_none());
    }

    /// `may_change`: clients put and remove, too.
    fn turn(&mut self, may_change: bool) {
        if let Some((position, until)) = self.trouble
            && until <= self.scheduler.now()
        {
            self.end_trouble(position);
        }
        match chosen(&self.plan.happens, |end| self.scheduler.below(end)) {
            Turn::Operation => self.begin_operation(may_change),
            Turn::Rush => {
                let name = self.a_name();
                self.rush(name);
            }
            Turn::StrikeMember => self.strike_member(),
            Turn::StrikeClient => self.strike_client(),
            Turn::Ambush => self.lay_ambush(),
            Turn::Noise => self.change_noise(),
            Turn::Image => {
                let all = self.machines.all();
                all.iter().filter(|_| self.scheduler.chance(500)).for_each(|machine| machine.take_image());
            }
            Turn::LatePut if may_change => self.put_late(),
            Turn::LatePut => {}
            Turn::Return => self.leave_and_return(may_change),
            Turn::Crowd => self.crowd(),
            Turn::Join => self.join(),
            Turn::Leave => self.leave(),
            Turn::Rest => self.wait(Duration::from_millis(self.scheduler.below(REST.as_millis() as u64))),
        }
    }

    fn a_name(&self) -> &'static str {
        NAMES[self.scheduler.below(self.plan.names as u64) as usize]
    }

    fn begin_operation(&mut self, may_change: bool) {
        let name = self.a_name();
        let kind = chosen(&self.plan.does, |end| self.scheduler.below(end));
        self.begin(if may_change { kind } else { Kind::Get }, name);
    }

    /// Many read one object at once.
    fn rush(&mut self, name: &'static str) {
        (0..RUSH).for_each(|_| self.begin(Kind::Get, name));
    }

    fn begin(&mut self, kind: Kind, name: &'static str) {
        let process = self.new_process();
        let day_ms = 86_400_000;
        if self.scheduler.chance(300) {
            self.scheduler.set_clock(process, self.scheduler.below(2 * day_ms) as i64 - day_ms as i64);
        }
        let number = self.operations.lock().len();
        let begun = self.scheduler.now();
        self.operations.lock().push(Operation { name, kind, begun, ended: None, was: None });
        self.clients.insert(number, process);
        if self.scheduler.chance(150) {
            self.pause_soon(number, process);
        }
        let bytes = self.scheduler.below(CONTENTS_BYTES_MAX);
        self.scheduler.tell(|| format!("{number}: {kind:?} {name}"));
        let (env, runtime) = env_of(process);
        let (seen, operations) = (self.seen_by(process, None), self.operations.clone());
        let (code, segment_bytes) = (self.plan.code, self.plan.segment_bytes);
        let task_runtime = runtime.clone();
        drop(runtime.spawn(async move {
            let settings = Settings { cache_bytes: 0, ..Settings::default() };
            let store = ObjectStore::new(VOLUME, seen.members(), settings, &env, &task_runtime);
            let store = store.with_segment_bytes(segment_bytes);
            let was = operate(&store, kind, name, number, (code, bytes)).await;
            end(&operations, number, was);
        }));
    }

    fn end_faults(&mut self) {
        self.call_off_ambush();
        *self.noise.lock() = Noise::default();
        if let Some((position, _)) = self.trouble {
            self.end_trouble(position);
        }
    }

    /// Every name is read, and every member's disk looked at.
    fn check_end(&mut self) {
        let operations = self.operations.lock().clone();
        for (number, operation) in operations.iter().enumerate() {
            if let Some(was) = &operation.was
                && !is_legal(&operations, operation, was)
            {
                let Operation { kind, name, .. } = operation;
                self.scheduler.complain(format!("{kind:?} {number} of {name} gave {was:?}"));
            }
        }
        let process = self.new_process();
        let (env, runtime) = env_of(process);
        for name in NAMES {
            let number = self.operations.lock().len();
            let begun = self.scheduler.now();
            let read = Operation { name, kind: Kind::Get, begun, ended: None, was: None };
            self.operations.lock().push(read);
            let (seen, done) = (self.seen_by(process, None), self.operations.clone());
            let (env, task_runtime, whole) = (env.clone(), runtime.clone(), Arc::new(Mutex::new(None)));
            let told = whole.clone();
            drop(runtime.spawn(async move {
                let store = ObjectStore::new(VOLUME, seen.members(), Settings::default(), &env, &task_runtime);
                let was = operate(&store, Kind::Get, name, number, ("", 0)).await;
                *told.lock() = store.stat(name).await.ok();
                end(&done, number, was);
            }));
            self.wait(Duration::from_secs(60));
            let operations = self.operations.lock().clone();
            let read = &operations[number];
            match &read.was {
                None => self.scheduler.complain(format!("{name} cannot be read when all is well")),
                Some(was) if !is_legal(&operations, read, was) => {
                    self.scheduler.complain(format!("at the end {name} is {was:?}"));
                }
                Some(Was::Contents(_)) => {
                    let stat = whole.lock().clone();
                    // Members that gave the version up take nothing of it any more.
                    let disks = self.machines.stored();
                    let is_whole = stat.as_ref().is_some_and(|stat| {
                        let room = self.machines.present().len() - refusing_count(VOLUME, &disks, name, stat.version);
                        stat.shards.iter().all(|(found, of)| *found >= (*of).min(room))
                    });
                    if !is_whole {
                        self.scheduler.complain(format!("at the end {name} is not whole: {stat:?}"));
                    }
                }
                Some(Was::Absent | Was::Done | Was::There) => {}
            }
        }
        for machine in self.machines.all() {
            machine.leftovers().into_iter().for_each(|leftover| self.scheduler.complain(leftover));
        }
        two_at_one(&self.machines.stored()).into_iter().for_each(|complaint| self.scheduler.complain(complaint));
    }
}

/// What an operation came to; `None`: an error that says nothing of the object.
async fn operate(
    store: &ObjectStore,
    kind: Kind,
    name: &str,
    number: usize,
    (code, bytes): (&str, u64),
) -> Option<Was> {
    match kind {
        Kind::Put | Kind::Make => {
            let contents = contents(number, bytes);
            let request = PutRequest { name: name.into(), code: code.into(), replace: kind == Kind::Put };
            match store.put(&request, &mut &contents[..]).await {
                Ok(_) => Some(Was::Done),
                Err(ObjectError::Exists { .. }) => Some(Was::There),
                Err(_) => None,
            }
        }
        Kind::Remove => store.remove(name).await.ok().map(|_| Was::Done),
        Kind::Get => {
            let mut got = Vec::new();
            let mut sink = |data: &[u8]| {
                got.extend_from_slice(data);
                Ok(())
            };
            match store.get(name, &mut sink).await {
                Ok(_) => {
                    let number = got.first_chunk().map(|number| u64::from_le_bytes(*number) as usize);
                    // Made up, or mixed: no operation has this number.
                    let number = number.filter(|number| got == contents(*number, got.len() as u64 - 8));
                    Some(Was::Contents(number.unwrap_or(usize::MAX)))
                }
                Err(ObjectError::NotFound { .. }) => Some(Was::Absent),
                Err(_) => None,
            }
        }
    }
}

fn contents(number: usize, bytes: u64) -> Vec<u8> {
    let body = (0..bytes).map(|at| (at.wrapping_mul(31) ^ number as u64) as u8);
    (number as u64).to_le_bytes().into_iter().chain(body).collect()
}

fn end(operations: &Mutex<Vec<Operation>>, number: usize, was: Option<Was>) {
    let scheduler = crate::scheduler::running();
    scheduler.tell(|| format!("{number}: {was:?}"));
    let operation = &mut operations.lock()[number];
    (operation.ended, operation.was) = (Some(scheduler.now()), was);
}

#[cfg(test)]
#[path = "objects_tests.rs"]
mod tests;
