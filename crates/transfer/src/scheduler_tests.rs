use super::asking::{PARTS_UNDER_WAY, STALLED_US};
use super::*;
use crate::algebra::Algebra;
use crate::read::locate::{Batch, Located, locate};
use crate::read::plan::plan_read;
use std::collections::BTreeMap;
use weft_format::geometry::{CELL_BYTES_TARGET, Geometry};
use weft_format::records::SegmentRecord;
use weft_format::{Generation, SegmentId};

const MIB: u64 = 1 << 20;

struct Batches {
    located: Located,
    batches: Vec<Batch>,
}

impl Plans for &Batches {
    fn plan(&self, set: usize, offers: &ShardOffers, arrived: &Arrived) -> Option<ReadPlan> {
        plan_read(&self.located, &self.batches[set], offers, arrived)
    }
}

impl Batches {
    fn new(code: &str, data_bytes: u64) -> Self {
        let algebra = Algebra::default();
        let shape = algebra.load(code).unwrap().shape().clone();
        let (natives, alpha) = (shape.native_count as u32, shape.alpha as u32);
        let alignment = shape.symbol_alignment_bytes as u32;
        let geometry = Geometry::new(data_bytes, natives, alpha, alignment, CELL_BYTES_TARGET).unwrap();
        let record =
            SegmentRecord { code: code.into(), generation: Generation(1), geometry, shards: vec![None; shape.n] };
        let located = locate(&algebra, SegmentId(1), &record, 0..data_bytes).unwrap();
        let batches = located.batches().collect();
        Self { located, batches }
    }

    fn scheduler(&self, profile: Profile, nodes: Vec<NodeView>) -> Scheduler<&Batches> {
        let sets = self.batches.iter().map(|batch| batch.shape(0, &self.located)).collect();
        let lanes = vec![(0..nodes.len()).map(Some).collect()];
        let deadline = Deadline { base_us: 10_000_000, bytes_per_ms: 1_000 };
        Scheduler::new(self, profile, deadline, nodes, lanes, sets, 64 * MIB)
    }
}

/// A node that was found to take a start and its bytes at a rate.
fn node(start_us: u64, bytes_per_us: f64) -> NodeView {
    let mut estimate = Estimate::default();
    for i in 0..50 {
        let bytes = [4096, 65_536, MIB][i % 3];
        estimate.observe(bytes, start_us + (bytes as f64 / bytes_per_us) as u64, 0);
    }
    NodeView { estimate, request_price: 1, kib_price: 1, ..NodeView::default() }
}

fn asks<P: Plans>(scheduler: &mut Scheduler<P>) -> Vec<Ask> {
    let effects = std::iter::from_fn(|| scheduler.effect());
    effects.filter_map(|effect| if let Effect::Ask(ask) = effect { Some(ask) } else { None }).collect()
}

fn shards(asks: &[Ask]) -> Vec<usize> {
    let mut shards: Vec<usize> = asks.iter().map(|ask| ask.shard).collect();
    shards.sort_unstable();
    shards.dedup();
    shards
}

#[test]
fn healthy_reads_ask_for_data_and_nothing_else() {
    let batches = Batches::new("rs:4+2", MIB);
    let mut scheduler = batches.scheduler(Profile::default(), vec![node(100, 1000.0); 6]);
    scheduler.dispatch(0);
    assert_eq!(shards(&asks(&mut scheduler)), [0, 1, 2, 3]);
}

#[test]
fn no_more_than_t_are_under_way() {
    let batches = Batches::new("rs:4+2", 32 * MIB);
    let profile: Profile = "fastest0,T=3".parse().unwrap();
    let mut scheduler = batches.scheduler(profile, vec![node(100, 1000.0); 6]);
    scheduler.dispatch(0);
    let mut under_way = asks(&mut scheduler);
    let mut count = 0;
    while let Some(ask) = under_way.pop() {
        assert!(under_way.len() < 3);
        count += 1;
        scheduler.arrived(ask.request, count);
        while let Some(effect) = scheduler.effect() {
            match effect {
                Effect::Ask(ask) => under_way.push(ask),
                Effect::Ready { set, .. } => scheduler.delivered(set, count),
                Effect::Drop { .. } => panic!("nothing is asked for twice"),
                _ => {}
            }
        }
    }
    assert!(scheduler.is_done());
    assert_eq!(count, 32, "four blocks a set of 4 MiB");
}

#[test]
fn fastest0_asks_the_fastest_and_lightest_whoever_is_idle() {
    let batches = Batches::new("rs:4+2", MIB);
    let mut nodes: Vec<NodeView> = (0..6).map(|i| node(1000 * (6 - i), 1000.0)).collect();
    let mut scheduler = batches.scheduler("fastest0,any".parse().unwrap(), nodes.clone());
    scheduler.dispatch(0);
    assert_eq!(shards(&asks(&mut scheduler)), [2, 3, 4, 5]);
    let mut scheduler = batches.scheduler("fastest0,data-first".parse().unwrap(), nodes.clone());
    scheduler.dispatch(0);
    assert_eq!(shards(&asks(&mut scheduler)), [0, 1, 2, 3]);
    nodes[4].load = 9;
    nodes[5].load = 9;
    let mut scheduler = batches.scheduler("lightest,any".parse().unwrap(), nodes);
    scheduler.dispatch(0);
    assert_eq!(shards(&asks(&mut scheduler)), [0, 1, 2, 3]);
}

#[test]
fn progress_past_p_gives_the_work_to_another_as_often_as_r_allows() {
    let batches = Batches::new("rs:4+2", 32 * MIB);
    for (redundancy, expected) in [("R=1", 0), ("R=2", 1)] {
        let profile: Profile = format!("fastest0,T=20,P=6,data-first,{redundancy}").parse().unwrap();
        let mut scheduler = batches.scheduler(profile, vec![node(100, 1000.0); 6]);
        scheduler.dispatch(0);
        let mut under_way = asks(&mut scheduler);
        // The very first never answers; all others do.
        let stuck = under_way.remove(0);
        let mut instead = 0;
        while !under_way.is_empty() {
            let ask = under_way.remove(0);
            scheduler.arrived(ask.request, 1);
            while let Some(effect) = scheduler.effect() {
                match effect {
                    Effect::Ask(ask) => {
                        instead += usize::from(ask.instead && ask.set == stuck.set);
                        under_way.push(ask);
                    }
                    Effect::Ready { set, .. } => scheduler.delivered(set, 1),
                    _ => {}
                }
            }
        }
        assert_eq!(instead, expected, "{redundancy}");
        assert_eq!(scheduler.is_done(), expected == 1);
    }
}

#[test]
fn what_has_come_of_a_shard_that_fails_is_kept() {
    let batches = Batches::new("rs:4+2", 4 * MIB);
    // 1 MiB takes two seconds, so it is asked for in parts.
    let mut scheduler = batches.scheduler(Profile::default(), vec![node(1000, 0.5); 6]);
    scheduler.dispatch(0);
    let first = asks(&mut scheduler);
    let parts: Vec<&Ask> = first.iter().filter(|ask| ask.shard == 0).collect();
    assert_eq!(parts.len(), PARTS_UNDER_WAY);
    scheduler.arrived(parts[0].request, 300_000);
    let kept = parts[0].payload.clone();
    asks(&mut scheduler);
    scheduler.failed(parts[1].request, Setback::Lost, 300_001);
    // Others are asked for the rest of it, from where it failed on.
    let mut asked_instead: Vec<Range<u64>> = Vec::new();
    let mut time_us = 300_001;
    let mut under_way: Vec<Ask> = first.iter().filter(|ask| ask.shard != 0).cloned().collect();
    loop {
        while let Some(effect) = scheduler.effect() {
            match effect {
                Effect::Ask(ask) => {
                    assert_ne!(ask.shard, 0, "it has failed");
                    if ask.shard >= 4 {
                        asked_instead.push(ask.payload.clone());
                    }
                    under_way.push(ask);
                }
                Effect::Drop { request, .. } => under_way.retain(|ask| ask.request != request),
                Effect::Ready { set, .. } => scheduler.delivered(set, time_us),
                _ => {}
            }
        }
        if under_way.is_empty() {
            break;
        }
        let ask = under_way.remove(0);
        time_us += 1000;
        scheduler.arrived(ask.request, time_us);
    }
    assert!(scheduler.is_done());
    let stripe = batches.located.geometry.symbol_bytes as u64;
    let whole_stripes = kept.end / stripe * stripe;
    assert!(!asked_instead.is_empty());
    assert!(asked_instead.iter().all(|part| part.start >= whole_stripes), "{asked_instead:?} though {kept:?} had come");
}

#[test]
fn a_busy_node_is_asked_later_and_others_now() {
    let batches = Batches::new("rs:4+2", MIB);
    let mut scheduler = batches.scheduler(Profile::default(), vec![node(100, 1000.0); 6]);
    scheduler.dispatch(0);
    let first = asks(&mut scheduler);
    let refused = first.iter().find(|ask| ask.shard == 2).unwrap();
    scheduler.failed(refused.request, Setback::Busy, 10);
    assert_eq!(shards(&asks(&mut scheduler)), [4]);
    // With no others it is waited for.
    let mut scheduler = batches.scheduler(Profile::default(), vec![node(100, 1000.0); 6]);
    for shard in [4, 5] {
        scheduler.lose(0, shard, 0);
    }
    scheduler.dispatch(0);
    let first = asks(&mut scheduler);
    let refused = first.iter().find(|ask| ask.shard == 2).unwrap();
    scheduler.failed(refused.request, Setback::Busy, 10);
    assert!(asks(&mut scheduler).is_empty());
    for ask in first.iter().filter(|ask| ask.shard != 2) {
        scheduler.arrived(ask.request, 20);
    }
    let again_us = scheduler.wake_at_us().unwrap();
    assert_eq!(again_us, 10 + BUSY_US);
    scheduler.wake(again_us);
    assert_eq!(shards(&asks(&mut scheduler)), [2]);
}

#[test]
fn slow_nodes_are_gone_round_where_that_costs_nothing() {
    let batches = Batches::new("rs:4+2", MIB);
    let mut nodes = vec![node(20_000, 20.0); 6];
    nodes[1] = node(200_000, 2.0);
    let mut scheduler = batches.scheduler(Profile::default(), nodes);
    scheduler.dispatch(0);
    let asked = shards(&asks(&mut scheduler));
    assert!(!asked.contains(&1) && asked.len() == 4, "{asked:?}");
}

#[test]
fn nodes_that_are_busy_by_rumour_are_asked_last_until_they_answer() {
    let batches = Batches::new("rs:4+2", MIB);
    let unknown = NodeView { request_price: 1, kib_price: 1, ..NodeView::default() };
    let by_rumour = |rumoured_us| NodeView { rumoured_us, ..unknown };
    let asked = |nodes| {
        let mut scheduler = batches.scheduler(Profile::default(), nodes);
        scheduler.dispatch(0);
        shards(&asks(&mut scheduler))
    };
    let idle = by_rumour(0);
    let little = by_rumour(NOTICED_US - 1);
    let much = by_rumour(10 * NOTICED_US);
    let more = by_rumour(40 * NOTICED_US);
    assert_eq!(asked(vec![idle, much, idle, much, idle, idle]), [0, 2, 4, 5]);
    assert_eq!(asked(vec![more, much, idle, more, idle, idle]), [1, 2, 4, 5]);
    assert_eq!(asked(vec![little, idle, little, idle, idle, idle]), [0, 1, 2, 3]);
    assert_eq!(asked(vec![much; 6]), [0, 1, 2, 3]);
    // Its own answers say that it is as fast as the others.
    let known = NodeView { rumoured_us: much.rumoured_us, ..node(100, 1000.0) };
    assert_eq!(asked(vec![known, known, idle, idle, idle, idle]), [0, 1, 2, 3]);
}

#[test]
fn a_budget_that_is_spent_waits_for_certainty() {
    let batches = Batches::new("rs:4+2", MIB);
    let mut scheduler = batches.scheduler(Profile::default(), vec![node(100, 1000.0); 6]);
    scheduler.allowance_bytes = 0;
    scheduler.dispatch(0);
    let first = asks(&mut scheduler);
    for ask in first.iter().filter(|ask| ask.shard != 0) {
        scheduler.arrived(ask.request, 500);
    }
    let mut woken_at_us = Vec::new();
    while asks(&mut scheduler).is_empty() {
        let at_us = scheduler.wake_at_us().unwrap();
        scheduler.wake(at_us);
        woken_at_us.push(at_us);
    }
    assert_eq!(woken_at_us.last(), Some(&STALLED_US), "{woken_at_us:?}");
}

/// Random networks, orders, failures, refusals and silences: a download ends, well where enough shards are left, and never
/// has more under way than it may.
#[test]
fn downloads_end_whatever_happens() {
    let profiles =
        ["adaptive", "adaptive,whole", "fastest0,T=4", "fastest1,R=2,P=5,whole", "lightest,R=3,P=3,data-first"];
    for code in ["rs:4+2", "ldpc:cube-8-6", "lrc:4+2+1", "replica:3", "clay:4+2"] {
        let batches = Batches::new(code, 9 * MIB + 12_345);
        let n = batches.located.code.shape().n;
        let tolerance = batches.located.code.shape().tolerance;
        for (index, profile) in profiles.iter().enumerate() {
            for seed in 0..6u64 {
                let mut random = 77 * seed + index as u64 + 1;
                let mut die = move |sides: u64| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    (random >> 33) % sides
                };
                let nodes: Vec<NodeView> = (0..n).map(|_| node(die(100_000), 0.1 + die(100) as f64)).collect();
                let gone: Vec<usize> = (0..n).filter(|_| die(3) == 0).collect();
                let silent = die(n as u64) as usize;
                let profile: Profile = profile.parse().unwrap();
                let mut scheduler = batches.scheduler(profile, nodes);
                let ready = simulate(&mut scheduler, &profile, &gone, silent, &mut die);
                let lost = gone.len() + usize::from(!gone.contains(&silent));
                let what = format!("{code} {profile}, seed {seed}, gone {gone:?} and {silent} silent");
                assert!(ready || lost > tolerance, "{what}");
            }
        }
    }
}

/// Runs a download to its end; did it end well?
fn simulate<P: Plans>(
    scheduler: &mut Scheduler<P>,
    profile: &Profile,
    gone: &[usize],
    silent: usize,
    die: &mut impl FnMut(u64) -> u64,
) -> bool {
    let mut now_us = 0;
    // By time and request: what is going to happen.
    let mut coming: BTreeMap<(u64, RequestId), Ask> = BTreeMap::new();
    let mut under_way = 0;
    scheduler.dispatch(now_us);
    for _ in 0..100_000 {
        while let Some(effect) = scheduler.effect() {
            match effect {
                Effect::Ask(ask) => {
                    under_way += 1;
                    assert!(under_way <= profile.transfers);
                    let at_us = if ask.shard == silent { u64::MAX } else { now_us + 1000 + die(300_000) };
                    coming.insert((at_us, ask.request), ask);
                }
                Effect::Drop { request, .. } | Effect::Expired { request } => {
                    under_way -= 1;
                    coming.retain(|(_, other), _| *other != request);
                }
                Effect::Ready { set, .. } => scheduler.delivered(set, now_us),
                Effect::Stuck { .. } => return false,
                Effect::Late { .. } => {}
            }
        }
        if scheduler.is_done() {
            return true;
        }
        let first = coming.first_key_value().map(|((at_us, _), _)| *at_us).unwrap_or(u64::MAX);
        let wake_us = scheduler.wake_at_us().unwrap_or(u64::MAX);
        assert!(first.min(wake_us) < u64::MAX, "{profile}: it waits for nothing");
        now_us = first.min(wake_us).max(now_us);
        if wake_us <= first {
            scheduler.wake(now_us);
            continue;
        }
        let Some((_, ask)) = coming.pop_first() else { continue };
        under_way -= 1;
        if gone.contains(&ask.shard) {
            scheduler.failed(ask.request, Setback::Lost, now_us);
        } else if die(10) == 0 {
            scheduler.failed(ask.request, Setback::Busy, now_us);
        } else {
            scheduler.arrived(ask.request, now_us);
        }
    }
    panic!("it does not end");
}

/// A download whose answers come one after the other over an uplink that all share, slower than the nodes are known to be.
#[test]
fn what_waits_for_its_share_of_the_clients_line_is_not_late() {
    let batches = Batches::new("rs:4+2", 32 * MIB);
    let mut scheduler = batches.scheduler(Profile::default(), vec![node(100, 100.0); 6]);
    let mut uplink =
        UplinkView { moved_bytes: 0, quiet_ms: Some(0), under_way_bytes: 64 * MIB, bytes_per_ms: Some(1000) };
    scheduler.set_uplink(uplink, 0);
    scheduler.dispatch(0);
    let mut under_way: std::collections::VecDeque<Ask> = asks(&mut scheduler).into();
    // 64 MiB at 1 MB/s: each answer takes a minute, and no node is asked for it twice.
    let mut now_us = 0;
    while let Some(ask) = under_way.pop_front() {
        let carried_at_us = now_us + 2_000_000;
        while scheduler.wake_at_us().is_some_and(|at_us| at_us < carried_at_us) {
            now_us = scheduler.wake_at_us().unwrap().max(now_us + 1);
            scheduler.wait_longer(600_000_000);
            scheduler.set_uplink(UplinkView { quiet_ms: Some(0), ..uplink }, now_us);
            scheduler.wake(now_us);
            assert!(asks(&mut scheduler).is_empty(), "at {now_us}");
        }
        now_us = carried_at_us;
        uplink.moved_bytes += ask.payload.end - ask.payload.start;
        scheduler.set_uplink(uplink, now_us);
        scheduler.arrived(ask.request, now_us);
        while let Some(effect) = scheduler.effect() {
            match effect {
                Effect::Ask(ask) => {
                    assert!(!ask.instead, "at {now_us}");
                    under_way.push_back(ask);
                }
                Effect::Ready { set, .. } => scheduler.delivered(set, now_us),
                Effect::Drop { .. } => panic!("asked for twice, at {now_us}"),
                _ => {}
            }
        }
    }
    assert!(scheduler.is_done());
}

/// The same uplink, and a node that is stuck: the uplink has carried its share and more, or nothing for longer than it takes.
#[test]
fn a_line_that_goes_on_or_rests_excuses_nobody() {
    let batches = Batches::new("rs:4+2", MIB);
    for (moved_bytes, quiet_ms, excuses) in [(0, 0, true), (8 * MIB, 0, false), (0, 5_000, false)] {
        let mut scheduler = batches.scheduler(Profile::default(), vec![node(100, 100.0); 6]);
        let uplink =
            UplinkView { moved_bytes: 0, quiet_ms: Some(0), under_way_bytes: 2 * MIB, bytes_per_ms: Some(1000) };
        scheduler.set_uplink(uplink, 0);
        scheduler.dispatch(0);
        for ask in asks(&mut scheduler).iter().filter(|ask| ask.shard != 0) {
            scheduler.arrived(ask.request, 500);
        }
        let now_us = 5_000_000;
        scheduler.set_uplink(UplinkView { moved_bytes, quiet_ms: Some(quiet_ms), ..uplink }, now_us);
        scheduler.wake(now_us);
        assert_eq!(asks(&mut scheduler).is_empty(), excuses, "{moved_bytes} {quiet_ms}");
    }
}

/// Nothing is left to ask for, an idle node would overtake, and neither budget nor uplink allow it: the next look is later, not now.
#[test]
fn one_that_may_not_be_overtaken_is_not_looked_at_without_end() {
    let batches = Batches::new("rs:4+2", MIB);
    let mut nodes = vec![node(100, 1000.0); 6];
    nodes[0] = node(15_000, 1000.0);
    let mut scheduler = batches.scheduler(Profile::default(), nodes);
    scheduler.allowance_bytes = 0;
    let uplink = UplinkView { moved_bytes: 0, quiet_ms: Some(0), under_way_bytes: 64 * MIB, bytes_per_ms: Some(1000) };
    scheduler.set_uplink(uplink, 0);
    scheduler.dispatch(0);
    let first = asks(&mut scheduler);
    for request in &mut scheduler.requests {
        request.due_us = 60_000_000;
    }
    for ask in first.iter().filter(|ask| ask.shard != 0) {
        scheduler.arrived(ask.request, 500);
    }
    let mut now_us = 2_000_000;
    for _ in 0..20 {
        scheduler.set_uplink(UplinkView { quiet_ms: Some(0), ..uplink }, now_us);
        scheduler.wake(now_us);
        assert!(asks(&mut scheduler).is_empty(), "at {now_us}");
        let at_us = scheduler.wake_at_us().unwrap();
        assert!(at_us > now_us, "{at_us} is not after {now_us}");
        now_us = at_us;
    }
}
