//! Clusters in simulated time: every member is the state machine itself, and the network delays, drops, cuts and freezes. Seeds
//! are fixed, so every run is the same.

use super::*;
use std::collections::BTreeSet;

const LATENCY_MS_MAX: u64 = 20;

/// News spread to all in some gossip rounds (of 200 ms) per doubling of the cluster, and a few more; whom they do not reach,
/// by chance, the next heartbeats do.
fn rounds_ms(members: usize) -> u64 {
    (10 + 5 * (members as f64).log2().ceil() as u64) * 200 + 2 * HEARTBEAT_MS
}

/// From a death to the last of `members` having noticed: each is probed once in about as many seconds as there are members
/// by any one, and by somebody within a few; then the suspicion lasts, and the news spread.
fn noticed_ms(members: usize) -> u64 {
    8_000 + config(members as u32).suspect_to_down_after.as_millis() as u64 + rounds_ms(members)
}

struct Packet {
    due_ms: u64,
    from: usize,
    to: usize,
    bytes: Bytes,
}

/// A process; what is frozen neither hears nor speaks, and goes on where it was.
struct Process {
    gossip: Gossip,
    is_frozen: bool,
}

struct World {
    now_ms: u64,
    /// By number; a process that was killed is gone.
    processes: BTreeMap<usize, Process>,
    network: Vec<Packet>,
    /// Pairs that do not hear each other.
    cut: BTreeSet<(usize, usize)>,
    lost_per_cent: u64,
    generator: u64,
}

fn address(number: usize) -> String {
    format!("weft://10.0.{}.{}:7600", number / 250, number % 250)
}

fn facts(number: usize, started_ms: u64) -> Facts {
    Facts { address: address(number), started_ms, node: format!("node {number}"), ..Facts::default() }
}

impl World {
    fn new() -> Self {
        let (processes, network, cut) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { now_ms: 1_000, processes, network, cut, lost_per_cent: 0, generator: 42 }
    }

    /// `members` that joined through number 0, one every 50 ms, and know each other.
    fn settled(members: usize) -> Self {
        let mut world = Self::new();
        for number in 0..members {
            world.start(number, 0);
            world.run(50);
        }
        world.run(rounds_ms(members));
        world.expect_all((0..members).collect());
        world
    }

    fn random(&mut self, below: u64) -> u64 {
        self.generator = self.generator.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.generator >> 33) % below
    }

    fn start(&mut self, number: usize, through: usize) {
        self.start_at(number, through, self.now_ms);
    }

    fn start_at(&mut self, number: usize, through: usize, started_ms: u64) {
        let mut gossip = Gossip::new(facts(number, started_ms), number as u64 * 7 + started_ms, self.now_ms);
        if let Some(seed) = self.processes.get(&through) {
            let told = seed.gossip.members(self.now_ms).into_iter().map(|heard| heard.facts).collect();
            gossip.join(told, self.now_ms);
        }
        self.processes.insert(number, Process { gossip, is_frozen: false });
    }

    fn freeze(&mut self, number: usize, is_frozen: bool) {
        self.processes.get_mut(&number).unwrap().is_frozen = is_frozen;
    }

    fn run(&mut self, for_ms: u64) {
        let end_ms = self.now_ms + for_ms;
        while self.now_ms < end_ms {
            self.now_ms += 5;
            let (due, later) = std::mem::take(&mut self.network).into_iter().partition(|p| p.due_ms <= self.now_ms);
            self.network = later;
            let due: Vec<Packet> = due;
            for packet in due {
                let is_cut =
                    self.cut.contains(&(packet.from, packet.to)) || self.cut.contains(&(packet.to, packet.from));
                let is_lost = self.random(100) < self.lost_per_cent;
                if let Some(process) =
                    self.processes.get_mut(&packet.to).filter(|p| !p.is_frozen && !is_cut && !is_lost)
                {
                    // Packets to an earlier life of a member are refused by the later one; that is no failure.
                    let _ = process.gossip.receive(&packet.bytes, self.now_ms);
                }
            }
            let numbers: Vec<usize> = self.processes.keys().copied().collect();
            for from in numbers {
                let process = self.processes.get_mut(&from).unwrap();
                if process.is_frozen {
                    continue;
                }
                if process.gossip.due_ms() <= self.now_ms {
                    process.gossip.tick(self.now_ms);
                }
                for (to, bytes) in process.gossip.take_outgoing() {
                    assert!(bytes.len() <= PACKET_BYTES_MAX);
                    let due_ms = self.now_ms + 1 + self.random(LATENCY_MS_MAX);
                    let to = (0..1_000).find(|number| address(*number) == to).unwrap();
                    self.network.push(Packet { due_ms, from, to, bytes });
                }
            }
        }
    }

    /// What `number` holds of others, by liveness.
    fn seen(&self, number: usize, wanted: Liveness) -> BTreeSet<String> {
        let members = self.processes[&number].gossip.members(self.now_ms).into_iter();
        members.filter(|heard| heard.liveness == wanted).map(|heard| heard.facts.node).collect()
    }

    /// Everybody who is not frozen holds exactly these for alive.
    fn expect_all(&self, alive: BTreeSet<usize>) {
        let expected: BTreeSet<String> = alive.iter().map(|number| format!("node {number}")).collect();
        for (number, _) in self.processes.iter().filter(|(_, process)| !process.is_frozen) {
            let seen = self.seen(*number, Liveness::Alive);
            let wrong: Vec<_> = seen.symmetric_difference(&expected).collect();
            assert!(wrong.is_empty(), "at {} ms node {number} is wrong about {wrong:?}", self.now_ms);
        }
    }

    fn anybody_sees(&self, number: usize, liveness: Liveness) -> bool {
        let name = format!("node {number}");
        self.processes.iter().any(|(of, process)| !process.is_frozen && self.seen(*of, liveness).contains(&name))
    }
}

#[test]
fn views_converge_in_rounds_that_grow_with_the_logarithm() {
    // Asserted by `settled`.
    for members in [2, 8, 64] {
        World::settled(members);
    }
}

#[test]
fn a_member_that_is_killed_is_down_for_all_and_the_others_are_not() {
    let mut world = World::settled(32);
    world.processes.remove(&7);
    world.run(noticed_ms(32));
    world.expect_all((0..32).filter(|number| *number != 7).collect());
    assert!((0..32).filter(|number| *number != 7).all(|number| world.seen(number, Liveness::Dead).contains("node 7")));
}

#[test]
fn a_member_that_leaves_is_down_for_all_within_a_few_rounds() {
    let mut world = World::settled(32);
    let now_ms = world.now_ms;
    world.processes.get_mut(&9).unwrap().gossip.leave(now_ms);
    world.run(50);
    world.processes.remove(&9);
    world.run(rounds_ms(32));
    world.expect_all((0..32).filter(|number| *number != 9).collect());
}

#[test]
fn a_cut_between_two_and_lost_packets_make_nobody_down() {
    let mut world = World::settled(16);
    world.cut.insert((3, 4));
    world.lost_per_cent = 5;
    for _ in 0..60 {
        world.run(1_000);
        assert!((0..16).all(|number| !world.anybody_sees(number, Liveness::Dead)), "others reach them");
    }
}

#[test]
fn a_suspicion_is_refuted_by_whoever_wakes_up_in_time() {
    let mut world = World::settled(16);
    world.freeze(5, true);
    let mut was_doubted = false;
    while !was_doubted {
        world.run(100);
        was_doubted = world.anybody_sees(5, Liveness::Suspect);
        assert!(!world.anybody_sees(5, Liveness::Dead));
    }
    world.freeze(5, false);
    for _ in 0..100 {
        world.run(100);
        assert!(!world.anybody_sees(5, Liveness::Dead), "it objects before the suspicion is over");
    }
    world.expect_all((0..16).collect());
}

#[test]
fn a_member_that_flaps_hurts_nobody_else_and_is_back_in_the_end() {
    let mut world = World::settled(16);
    for _ in 0..6 {
        world.freeze(5, true);
        world.run(9_000);
        world.freeze(5, false);
        world.run(6_000);
        assert!((0..16).filter(|number| *number != 5).all(|number| !world.anybody_sees(number, Liveness::Dead)));
    }
    world.run(30_000);
    world.expect_all((0..16).collect());
}

#[test]
fn a_member_that_restarts_with_its_clock_set_back_is_known_again() {
    let mut world = World::settled(16);
    world.now_ms += 7_200_000;
    world.processes.clear();
    let mut world = World { now_ms: 10_000_000, ..World::new() };
    for number in 0..16 {
        world.start(number, 0);
        world.run(50);
    }
    world.run(rounds_ms(16));
    world.processes.remove(&5);
    world.run(1_000);
    // An hour earlier than its last start.
    world.start_at(5, 2, world.now_ms - 3_600_000);
    world.run(noticed_ms(16));
    world.expect_all((0..16).collect());
}

/// A well-known member has nobody to ask: it learns from those who deny it.
#[test]
fn a_member_whose_clock_was_ahead_is_known_again_though_it_asks_nobody() {
    let mut world = World::settled(8);
    world.processes.remove(&0);
    world.run(1_000);
    // A year ahead, then corrected.
    let year_ms = 365 * 24 * 3_600_000;
    world.start_at(0, 1, world.now_ms + year_ms);
    world.run(noticed_ms(8));
    world.expect_all((0..8).collect());
    world.processes.remove(&0);
    world.run(1_000);
    world.start_at(0, 999, world.now_ms);
    world.run(noticed_ms(8) + 15_000);
    world.expect_all((0..8).collect());
    let told = world.processes[&3].gossip.members(world.now_ms);
    assert!(told.iter().any(|heard| heard.facts.address == address(0) && heard.facts.started_ms > year_ms));
}

#[test]
fn few_members_at_rest_suspect_nobody() {
    let mut world = World::settled(3);
    for _ in 0..1_200 {
        world.run(1_000);
        world.expect_all((0..3).collect());
    }
}

#[test]
fn a_member_that_moves_to_another_address_is_found_by_its_node() {
    let mut world = World::settled(8);
    world.processes.remove(&3);
    let moved = Facts { node: "node 3".into(), ..facts(103, world.now_ms) };
    let mut gossip = Gossip::new(moved, 9, world.now_ms);
    let told = world.processes[&6].gossip.members(world.now_ms).into_iter().map(|heard| heard.facts).collect();
    gossip.join(told, world.now_ms);
    world.processes.insert(103, Process { gossip, is_frozen: false });
    world.run(rounds_ms(8));
    for number in [0, 1, 2, 4, 5, 6, 7] {
        let members = world.processes[&number].gossip.members(world.now_ms);
        let latest =
            members.iter().filter(|heard| heard.facts.node == "node 3").max_by_key(|heard| heard.facts.started_ms);
        assert_eq!(latest.unwrap().facts.address, address(103));
    }
    world.run(noticed_ms(8));
    world.expect_all((0..8).collect());
}

#[test]
fn a_fifth_of_the_members_are_replaced_at_once() {
    let mut world = World::settled(50);
    for number in 40..50 {
        world.processes.remove(&number);
        world.start(number + 100, number - 40);
        world.run(20);
    }
    world.run(noticed_ms(50));
    world.expect_all((0..40).chain(140..150).collect());
}

#[test]
fn halves_that_were_parted_find_each_other_again() {
    let mut world = World::settled(20);
    world.cut = (0..10).flat_map(|a| (10..20).map(move |b| (a, b))).collect();
    world.run(60_000);
    for number in 0..20 {
        assert_eq!(world.seen(number, Liveness::Alive).len(), 10, "each half goes on");
        assert_eq!(world.seen(number, Liveness::Dead).len(), 10, "and the other is dead for it, not forgotten");
    }
    world.cut.clear();
    // Dead members are announced to every 15 s.
    world.run(20_000 + rounds_ms(20));
    world.expect_all((0..20).collect());
}

#[test]
fn what_members_say_reaches_all_and_nonsense_nobody() {
    let mut world = World::settled(8);
    world.processes.get_mut(&3).unwrap().gossip.say(|facts| facts.free_bytes = 123);
    world.run(HEARTBEAT_MS + rounds_ms(8));
    let now_ms = world.now_ms;
    for process in world.processes.values_mut() {
        let members = process.gossip.members(now_ms);
        assert!(members.iter().any(|heard| heard.facts.node == "node 3" && heard.facts.free_bytes == 123));
        for packet in [&b""[..], b"no packet", &[0xff; 500]] {
            assert!(process.gossip.receive(packet, now_ms).is_err());
        }
        assert_eq!(process.gossip.members(now_ms), members);
    }
    let long = Facts { domain: "x".repeat(257), ..facts(9, 1) };
    assert_eq!(long.encode(), None);
}
