//! Daemons that gossip, in a world of their own: they are killed, stopped, started again with another clock or at another address, cut
//! off in one direction or both, over a network that loses, doubles, delays and reorders.
//!
//! While nothing happens to two of them, neither holds the other for dead. When the faults end, everybody soon holds exactly those
//! for alive who are there, and knows what they said last. Nobody sends more than a stated number of packets.
//!
//! `a seed -> daemons and faults by virtual time -> the faults end -> all views agree, or a complaint`.

use bytes::Bytes;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::{BTreeMap, BTreeSet};
use weft_cluster::gossip::{Facts, Gossip, Liveness};

const HOSTS_MAX: usize = 12;
const WELL_KNOWN_MAX: usize = 3;
const FAULTS_MAX: usize = 24;
/// What one fault follows another by, at most.
const BETWEEN_FAULTS_MS_MAX: u64 = 20_000;
/// How long a fault lasts, at most.
const FAULT_MS_MAX: u64 = 60_000;
/// Of a stop: longer than every suspicion, now and then.
const STOP_MS_MAX: u64 = 30_000;
/// A request takes so long on a network that is well.
const LATENCY_MS_MAX: u64 = 20;
/// A packet that takes longer is lost (`crates/daemon/src/gossip.rs` `PACKET_DEADLINE`).
const DEADLINE_MS: u64 = 1_000;
/// Somebody to whom nothing happened for so long is held for dead by nobody of the same kind: dead members are announced to every 15 s,
/// and well-known ones asked every 30 s.
const CALM_MS: u64 = 60_000;
/// After the last fault all views agree within this time: a stop is noticed, and those that were parted find each other.
const AGREED_AFTER_MS: u64 = 90_000;
/// From then on they must go on to agree.
const AGREED_FOR_MS: u64 = 30_000;
/// What members know of another may be older by this number of heartbeats: some are lost, and rumours travel.
const HEARTBEATS_BEHIND_MAX: u64 = 10;
/// Packets that a member sends in a second, on the average of a history, for each other member and in any case.
const PACKETS_A_SECOND_MAX: (u64, u64) = (2, 10);
const UNIX_MS: u64 = 1_700_000_000_000;
const HOUR_MS: u64 = 3_600_000;

/// What a history came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What is not as it should be; empty: nothing.
    pub complaints: Vec<String>,
    /// Things that happened.
    pub steps: u64,
    /// Packets that daemons sent.
    pub packets: u64,
    /// Daemons that were started.
    pub starts: u64,
    /// Faults that struck.
    pub faults: u64,
    /// Of all that happened: two runs of one seed have the same.
    pub digest: u64,
    /// All that was told, if it was kept.
    pub lines: Vec<String>,
}

/// A machine, and its daemon while it runs.
struct Host {
    address: String,
    moves: u64,
    /// Its wall clock against the world's.
    clock_ahead_ms: i64,
    daemon: Option<Daemon>,
    is_stopped: bool,
    /// When something last happened to it.
    struck_ms: u64,
}

struct Daemon {
    gossip: Gossip,
    /// The world's time when it began: its own clock starts at 0.
    began_ms: u64,
    join_at_ms: u64,
    wake_at_ms: u64,
}

enum Event {
    /// To whatever daemon has the address.
    Packet { from: usize, to: String, bytes: Bytes },
    /// A daemon looks what is due. One that has ended since does not.
    Wake { host: usize, began_ms: u64 },
    /// What a well-known member answered.
    Told { host: usize, began_ms: u64, members: Vec<Facts> },
    /// A fault begins.
    Fault,
    /// A machine's daemon is started, if it is not running.
    Start(usize),
    /// It goes on.
    Continue(usize),
    /// Packets from the first to the second arrive again.
    Mend(usize, usize),
    /// The network is well again.
    Calm,
}

struct World {
    now_ms: u64,
    events: BTreeMap<(u64, u64), Event>,
    scheduled: u64,
    hosts: Vec<Host>,
    well_known: usize,
    /// Packets from the first to the second are lost.
    cut: BTreeMap<(usize, usize), u64>,
    lost_per_cent: u32,
    doubled_per_cent: u32,
    latency_ms_max: u64,
    /// Since when the network is well.
    calm_since_ms: Option<u64>,
    choices: ChaCha8Rng,
    outcome: Outcome,
    is_told: bool,
}

/// Runs the history of a seed. `is_told`: keep lines that say what happens.
#[must_use]
pub fn run(seed: u64, is_told: bool) -> Outcome {
    let mut world = World::new(seed, is_told);
    let faults = world.choices.random_range(1..=FAULTS_MAX);
    let mut at_ms = 30_000;
    for _ in 0..faults {
        at_ms += world.choices.random_range(0..BETWEEN_FAULTS_MS_MAX);
        world.schedule(at_ms, Event::Fault);
    }
    // Every fault is over by then.
    world.run_until(at_ms + FAULT_MS_MAX);
    world.end_faults();
    world.run_until(world.now_ms + AGREED_AFTER_MS);
    let agreed_until_ms = world.now_ms + AGREED_FOR_MS;
    while world.now_ms < agreed_until_ms && world.outcome.complaints.is_empty() {
        world.expect_agreement();
        world.run_until(world.now_ms + 1_000);
    }
    world.expect_few_packets();
    world.outcome
}

impl World {
    fn new(seed: u64, is_told: bool) -> Self {
        let mut choices = ChaCha8Rng::seed_from_u64(seed);
        let count = choices.random_range(2..=HOSTS_MAX);
        let well_known = choices.random_range(1..=WELL_KNOWN_MAX.min(count));
        let host = |number: usize| Host {
            address: format!("weft://10.0.0.{number}:7600"),
            moves: 0,
            clock_ahead_ms: 0,
            daemon: None,
            is_stopped: false,
            struck_ms: 0,
        };
        let mut world = Self {
            now_ms: 0,
            events: BTreeMap::new(),
            scheduled: 0,
            hosts: (0..count).map(host).collect(),
            well_known,
            cut: BTreeMap::new(),
            lost_per_cent: 0,
            doubled_per_cent: 0,
            latency_ms_max: LATENCY_MS_MAX,
            calm_since_ms: Some(0),
            choices,
            outcome: Outcome::default(),
            is_told,
        };
        for number in 0..count {
            let at_ms = world.choices.random_range(0..5_000);
            world.schedule(at_ms, Event::Start(number));
        }
        world
    }

    fn schedule(&mut self, at_ms: u64, event: Event) {
        self.scheduled += 1;
        self.events.insert((at_ms.max(self.now_ms), self.scheduled), event);
    }

    fn tell(&mut self, line: impl FnOnce() -> String) {
        if self.is_told {
            let line = format!("{:9.3} {}", self.now_ms as f64 / 1000.0, line());
            self.outcome.lines.push(line);
        }
    }

    fn complain(&mut self, complaint: String) {
        self.tell(|| format!("COMPLAINT {complaint}"));
        self.outcome.complaints.push(complaint);
    }

    fn run_until(&mut self, end_ms: u64) {
        let mut checked_ms = self.now_ms;
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= end_ms) {
            let ((at_ms, number), event) = entry.remove_entry();
            self.now_ms = at_ms;
            self.outcome.steps += 1;
            self.outcome.digest = (self.outcome.digest ^ at_ms ^ (number << 32)).wrapping_mul(0x0000_0100_0000_01b3);
            self.happen(event);
            if self.now_ms >= checked_ms + 1_000 {
                checked_ms = self.now_ms;
                self.expect_no_false_death();
            }
        }
        self.now_ms = end_ms;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Packet { from, to, bytes } => {
                let Some(host) = self.hosts.iter().position(|host| host.address == to) else { return };
                if self.hosts[host].is_stopped || self.cut.contains_key(&(from, host)) {
                    return;
                }
                if let Some(daemon) = &mut self.hosts[host].daemon {
                    let now_ms = self.now_ms - daemon.began_ms;
                    // Packets to an earlier life of a member are refused by the later one; that is no failure.
                    let _ = daemon.gossip.receive(&bytes, now_ms);
                    self.follow(host);
                }
            }
            Event::Wake { host, began_ms } => self.wake(host, began_ms),
            Event::Told { host, began_ms, members } => {
                if !self.hosts[host].is_stopped
                    && let Some(daemon) = self.hosts[host].daemon.as_mut().filter(|daemon| daemon.began_ms == began_ms)
                {
                    daemon.gossip.join(members, self.now_ms - began_ms);
                    self.follow(host);
                }
            }
            Event::Fault => self.strike(),
            Event::Start(host) => self.start(host),
            Event::Continue(host) => self.go_on(host),
            Event::Mend(from, to) => {
                if self.cut.get(&(from, to)).is_some_and(|until_ms| *until_ms <= self.now_ms) {
                    self.cut.remove(&(from, to));
                    self.hosts[from].struck_ms = self.now_ms;
                    self.hosts[to].struck_ms = self.now_ms;
                }
            }
            Event::Calm => self.calm(),
        }
    }

    /// A process that was stopped does what became due meanwhile.
    fn go_on(&mut self, number: usize) {
        let host = &mut self.hosts[number];
        if !std::mem::take(&mut host.is_stopped) {
            return;
        }
        host.struck_ms = self.now_ms;
        if let Some(daemon) = &mut host.daemon {
            daemon.wake_at_ms = u64::MAX;
        }
        self.tell(|| format!("{number} goes on"));
        self.follow(number);
    }

    fn calm(&mut self) {
        (self.lost_per_cent, self.doubled_per_cent, self.latency_ms_max) = (0, 0, LATENCY_MS_MAX);
        self.calm_since_ms.get_or_insert(self.now_ms);
    }

    /// A process starts. Its time is the wall clock's, as its machine has it.
    fn start(&mut self, number: usize) {
        let now_ms = self.now_ms;
        let host = &mut self.hosts[number];
        if host.daemon.is_some() {
            return;
        }
        let started_ms = (UNIX_MS + now_ms).saturating_add_signed(host.clock_ahead_ms);
        let facts = Facts {
            address: host.address.clone(),
            started_ms,
            node: format!("node {number}"),
            domain: format!("domain {}", number % 3),
            ..Facts::default()
        };
        let gossip = Gossip::new(facts, self.choices.random(), 0);
        host.daemon = Some(Daemon { gossip, began_ms: now_ms, join_at_ms: now_ms, wake_at_ms: u64::MAX });
        (host.is_stopped, host.struck_ms) = (false, now_ms);
        self.outcome.starts += 1;
        let (address, ahead_ms) = (host.address.clone(), host.clock_ahead_ms);
        self.tell(|| format!("{number} starts at {address}, its clock {ahead_ms} ms ahead"));
        self.follow(number);
    }

    /// Does what is due, as the daemon's driver does.
    fn wake(&mut self, number: usize, began_ms: u64) {
        let now_ms = self.now_ms;
        let well_known: Vec<String> = self.hosts[..self.well_known].iter().map(|host| host.address.clone()).collect();
        let host = &mut self.hosts[number];
        let Some(daemon) = host.daemon.as_mut().filter(|daemon| daemon.began_ms == began_ms && !host.is_stopped) else {
            return;
        };
        if daemon.wake_at_ms > now_ms {
            return;
        }
        daemon.wake_at_ms = u64::MAX;
        if daemon.join_at_ms <= now_ms {
            let joining = daemon.gossip.whom_to_join(&well_known, now_ms - began_ms);
            daemon.join_at_ms = now_ms + joining.again_after_ms;
            for address in joining.ask {
                self.ask(number, began_ms, &address);
            }
        }
        if let Some(daemon) = &mut self.hosts[number].daemon
            && daemon.gossip.due_ms() <= now_ms - began_ms
        {
            daemon.gossip.tick(now_ms - began_ms);
        }
        self.follow(number);
    }

    /// Asks a well-known member for the others. If it does not answer, nothing happens.
    fn ask(&mut self, from: usize, began_ms: u64, address: &str) {
        let Some(to) = self.hosts.iter().position(|host| host.address == address) else { return };
        let is_cut = self.cut.contains_key(&(from, to)) || self.cut.contains_key(&(to, from));
        let asked = &self.hosts[to];
        if is_cut || asked.is_stopped || self.choices.random_range(0..100) < self.lost_per_cent {
            return;
        }
        let Some(daemon) = &asked.daemon else { return };
        let heard = daemon.gossip.members(self.now_ms - daemon.began_ms);
        let members = heard.into_iter().map(|heard| heard.facts).collect();
        let at_ms = self.now_ms + self.choices.random_range(1..=2 * self.latency_ms_max);
        self.schedule(at_ms, Event::Told { host: from, began_ms, members });
    }

    /// Sends what a daemon has to send, and wakes it when it is due.
    fn follow(&mut self, number: usize) {
        let Some(daemon) = &mut self.hosts[number].daemon else { return };
        let (outgoing, began_ms) = (daemon.gossip.take_outgoing(), daemon.began_ms);
        let due_ms = (began_ms + daemon.gossip.due_ms()).min(daemon.join_at_ms).max(self.now_ms);
        if due_ms < daemon.wake_at_ms {
            daemon.wake_at_ms = due_ms;
            self.schedule(due_ms, Event::Wake { host: number, began_ms });
        }
        for (to, bytes) in outgoing {
            self.outcome.packets += 1;
            let copies = if self.choices.random_range(0..100) < self.doubled_per_cent { 2 } else { 1 };
            for _ in 0..copies {
                let is_lost = self.choices.random_range(0..100) < self.lost_per_cent;
                let latency_ms = self.choices.random_range(1..=self.latency_ms_max);
                if !is_lost && latency_ms <= DEADLINE_MS {
                    let packet = Event::Packet { from: number, to: to.clone(), bytes: bytes.clone() };
                    self.schedule(self.now_ms + latency_ms, packet);
                }
            }
        }
    }

    fn strike(&mut self) {
        self.outcome.faults += 1;
        let now_ms = self.now_ms;
        let lasts_ms = self.choices.random_range(500..FAULT_MS_MAX / 2);
        let host = self.choices.random_range(0..self.hosts.len());
        match self.choices.random_range(0..10) {
            0..3 => self.end_process(host, lasts_ms),
            3..5 => {
                let until_ms = now_ms + self.choices.random_range(100..STOP_MS_MAX);
                self.hosts[host].is_stopped = true;
                self.hosts[host].struck_ms = until_ms;
                self.tell(|| format!("{host} stops for {} ms", until_ms - now_ms));
                self.schedule(until_ms, Event::Continue(host));
            }
            5..8 => self.cut_off(lasts_ms),
            _ => {
                self.calm_since_ms = None;
                self.lost_per_cent = self.choices.random_range(0..40);
                self.doubled_per_cent = self.choices.random_range(0..40);
                self.latency_ms_max = self.choices.random_range(LATENCY_MS_MAX..2 * DEADLINE_MS);
                let (lost, doubled, latency_ms) = (self.lost_per_cent, self.doubled_per_cent, self.latency_ms_max);
                self.tell(|| {
                    format!("{lost} % lost, {doubled} % doubled, up to {latency_ms} ms late, for {lasts_ms} ms")
                });
                self.schedule(now_ms + lasts_ms, Event::Calm);
            }
        }
    }

    /// A daemon is killed, or leaves. It is started again, perhaps with another clock, at another address, or much later.
    fn end_process(&mut self, number: usize, lasts_ms: u64) {
        let now_ms = self.now_ms;
        let leaves = self.choices.random_bool(0.3) && !self.hosts[number].is_stopped;
        if leaves && let Some(daemon) = &mut self.hosts[number].daemon {
            daemon.gossip.leave(now_ms - daemon.began_ms);
            self.follow(number);
        }
        let moves = number >= self.well_known && self.choices.random_bool(0.2);
        let ahead_ms = [0, HOUR_MS as i64, -(HOUR_MS as i64), -1_000][self.choices.random_range(0..4)];
        let host = &mut self.hosts[number];
        (host.daemon, host.is_stopped, host.struck_ms, host.clock_ahead_ms) = (None, false, now_ms, ahead_ms);
        if moves {
            host.moves += 1;
            host.address = format!("weft://10.0.{}.{number}:7600", host.moves);
        }
        self.tell(|| format!("{number} {} for {lasts_ms} ms", if leaves { "leaves" } else { "is killed" }));
        self.schedule(now_ms + lasts_ms, Event::Start(number));
    }

    /// Some do not hear some others, in one direction or in both.
    fn cut_off(&mut self, lasts_ms: u64) {
        let until_ms = self.now_ms + lasts_ms;
        let is_both_ways = self.choices.random_bool(0.6);
        let chance = [0.15, 0.5][self.choices.random_range(0..2)];
        let numbers = 0..self.hosts.len();
        let (some, others): (Vec<usize>, Vec<usize>) = numbers.partition(|_| self.choices.random_bool(chance));
        self.tell(|| format!("{some:?} are cut off from {others:?} for {lasts_ms} ms, both ways: {is_both_ways}"));
        for pair in some.iter().flat_map(|a| others.iter().map(move |b| (*a, *b))) {
            let ways = if is_both_ways { vec![pair, (pair.1, pair.0)] } else { vec![pair] };
            for way in ways {
                let until_ms = self.cut.get(&way).copied().unwrap_or_default().max(until_ms);
                self.cut.insert(way, until_ms);
                self.schedule(until_ms, Event::Mend(way.0, way.1));
            }
        }
    }

    /// Everybody runs, and the network is well. Of the machines that are down some stay so, but no well-known one.
    fn end_faults(&mut self) {
        self.tell(|| "the faults end".into());
        self.cut.clear();
        self.calm();
        for number in 0..self.hosts.len() {
            self.go_on(number);
            self.hosts[number].struck_ms = self.now_ms;
            if number >= self.well_known && self.choices.random_bool(0.1) {
                self.hosts[number].daemon = None;
                self.tell(|| format!("{number} is killed for good"));
            } else {
                self.start(number);
            }
        }
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Host, &Daemon)> {
        let hosts = self.hosts.iter().enumerate();
        hosts.filter_map(|(number, host)| host.daemon.as_ref().map(|daemon| (number, host, daemon)))
    }

    fn expect_no_false_death(&mut self) {
        let since_ms = self.now_ms.saturating_sub(CALM_MS);
        let is_cut = |number: usize| self.cut.keys().any(|(from, to)| *from == number || *to == number);
        let is_calm = self.calm_since_ms.is_some_and(|calm_ms| calm_ms <= since_ms);
        if !is_calm || since_ms == 0 {
            return;
        }
        let well: Vec<(usize, &Host, &Daemon)> = self
            .running()
            .filter(|(number, host, _)| host.struck_ms <= since_ms && !host.is_stopped && !is_cut(*number))
            .collect();
        let wrong = well.iter().find_map(|(number, _, daemon)| {
            let members = daemon.gossip.members(self.now_ms - daemon.began_ms);
            let dead: BTreeSet<String> = members
                .into_iter()
                .filter(|heard| heard.liveness == Liveness::Dead)
                .map(|heard| heard.facts.address)
                .collect();
            let victim = well.iter().find(|(_, host, _)| dead.contains(&host.address))?;
            Some(format!("{number} holds {} for dead, though nothing happened to them for a minute", victim.0))
        });
        if let Some(complaint) = wrong {
            self.complain(complaint);
        }
    }

    fn expect_agreement(&mut self) {
        let expected: BTreeMap<&str, (u64, u64)> = self
            .running()
            .map(|(_, host, daemon)| {
                let own = &daemon.gossip.members(self.now_ms - daemon.began_ms)[0].facts;
                (host.address.as_str(), (own.started_ms, own.sequence))
            })
            .collect();
        let wrong = self.running().find_map(|(number, _, daemon)| {
            let members = daemon.gossip.members(self.now_ms - daemon.began_ms);
            let alive = members.iter().filter(|heard| heard.liveness == Liveness::Alive);
            let alive: BTreeMap<&str, (u64, u64)> = alive
                .map(|heard| (heard.facts.address.as_str(), (heard.facts.started_ms, heard.facts.sequence)))
                .collect();
            let missed: Vec<_> = expected.keys().filter(|address| !alive.contains_key(*address)).collect();
            let strange: Vec<_> = alive.keys().filter(|address| !expected.contains_key(*address)).collect();
            if !missed.is_empty() || !strange.is_empty() {
                let held = members.iter().filter(|heard| missed.contains(&&heard.facts.address.as_str()));
                let held: Vec<_> = held.map(|heard| (heard.liveness, heard.phi)).collect();
                return Some(format!("{number} holds {missed:?} for {held:?}, and {strange:?} for alive"));
            }
            let behind = alive.iter().find(|(address, (started_ms, sequence))| {
                let (own_started_ms, own_sequence) = expected[*address];
                *started_ms != own_started_ms || sequence + HEARTBEATS_BEHIND_MAX < own_sequence
            });
            behind.map(|(address, heard)| {
                format!("{number} knows of {address} what it said long ago: {heard:?} for {:?}", expected[address])
            })
        });
        if let Some(complaint) = wrong {
            self.complain(complaint);
        }
    }

    fn expect_few_packets(&mut self) {
        let (each, base) = PACKETS_A_SECOND_MAX;
        let members = self.hosts.len() as u64;
        let most = members * (base + each * members) * self.now_ms / 1_000;
        if self.outcome.packets > most {
            self.complain(format!("{} packets were sent in {} s", self.outcome.packets, self.now_ms / 1_000));
        }
    }
}

#[cfg(test)]
mod tests {
    /// A short run; `weft-sim gossip` has the long ones.
    #[test]
    fn views_agree_after_any_faults() {
        for seed in 0..if crate::effort::is_long() { 60 } else { 12 } {
            let outcome = super::run(seed, false);
            assert!(outcome.complaints.is_empty(), "seed {seed}: {:#?}", outcome.complaints);
        }
    }

    #[test]
    fn a_seed_gives_one_history() {
        let (first, again) = (super::run(7, false), super::run(7, true));
        assert_eq!((first.steps, first.digest), (again.steps, again.digest));
        assert!(first.steps > 1_000 && first.faults > 0, "{first:?}");
    }
}
