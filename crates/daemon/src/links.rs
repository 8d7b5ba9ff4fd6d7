//! Decisions about the links of a daemon: which one a request takes, when a silent one is left, how fast each is. Pure: moments and
//! figures come in, decisions go out. `link_set.rs` carries them out.
//!
//! A link is one address of a daemon that has several, such as one for each of its network cards (Pertin et al. 2014, section 4.1). A
//! silent daemon and a silent link look alike from one connection. So nothing is concluded from a request that gets no answer: a probe
//! asks over all links, and a link is left if another one answers and it does not.

use std::ops::Range;
use std::time::{Duration, Instant};
use weft_nodes::node::SHARD_BYTES_MAX;
use weft_nodes::rate::Class;

/// Links of one daemon: more network cards than a machine has, few enough to be probed together.
pub const LINKS_MAX: usize = 8;

/// A request of which no byte moves for so long makes its link asked whether it is there. With [`ALLOWANCE_MIN`] it is less than 0.3 s.
const QUIET: Duration = Duration::from_millis(100);

/// A probe may take so long, while another link answers, ...
const ALLOWANCE_MIN: Duration = Duration::from_millis(150);
/// ... and no link is given longer, whatever it took before.
const ALLOWANCE_MAX: Duration = Duration::from_secs(1);

/// A doubted link without an answer for so long is down.
pub(super) const PROBE_DEADLINE: Duration = Duration::from_secs(1);

/// While no link is up they are probed at a request's wish, this often.
pub(super) const PROBE_WISHED: Duration = Duration::from_secs(1);

/// When a link that is down is probed again, ...
const PROBE_AGAIN_MIN: Duration = Duration::from_millis(250);
/// ... doubled with each time in vain, up to this.
const PROBE_AGAIN_MAX: Duration = Duration::from_secs(30);

/// A link that is up is probed by a request this long after its last probe. Otherwise one that seemed far once, maybe because the machine
/// was busy, would seem so for ever, and get nothing that shows otherwise.
pub(super) const PROBE_OF_USED: Duration = Duration::from_secs(2);

/// A measured speed is taken for twice as much after so long without a sample, up to the best link's: what was slow once, maybe because the
/// daemon's disk was, is tried again in a few seconds, by a piece of a read.
const SPEED_DOUBLES: Duration = Duration::from_secs(1);

/// The mean of the speed is over so much time at work, the older the less: a sample counts by how long it took.
const SPEED_TIME: Duration = Duration::from_millis(200);

/// Fewer bytes say more of the latency than of the speed.
pub(super) const SAMPLE_BYTES_MIN: u64 = 64 << 10;

/// A read that stands still for so long is made over another link as well, though its own one answers: big packets may be lost there.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(1);
/// The same of a write: a disk may take long, and the bytes are sent twice.
pub(super) const WRITE_TIMEOUT: Duration = Duration::from_secs(3);
/// While the cable carries the bytes of others a request waits behind them, this many times as long: elsewhere it would be carried twice.
const BEHIND_OTHERS: u32 = 4;

/// While a link is at work a sample lasts so long at least: requests that end together would make short ones of many bytes.
pub(super) const SAMPLE_TIME_MIN: Duration = Duration::from_millis(20);

/// Links whose speeds differ by less than this factor, as a fraction, are as fast as each other: measures vary by as much, and a write
/// gives all its bytes to links as it begins.
const ALIKE: (u64, u64) = (5, 4);

/// A put of this many bytes is large, ...
pub(super) const LARGE_BYTES: u64 = 1 << 20;
/// ... and begins on a cable when what is under way there is carried within this time, and that which it takes alone: many at once press each
/// other out of the queues of a short line, and few do not fill a long one. One that waits takes the cable that is free first.
const QUEUE_TIME: Duration = Duration::from_millis(250);
/// This number may be under way there, however slow it seems.
pub(super) const TOGETHER_MIN: usize = 2;
/// A request of which no byte moves for so long leaves its place there to others.
pub(super) const STILL: Duration = Duration::from_secs(1);
/// The speed of a single put counts half after this time.
const ALONE_HALVES: Duration = Duration::from_secs(60);

/// What a link of which nothing is known is taken for if nothing is known of the others either: ten gigabits.
const SPEED_UNKNOWN: u64 = 1 << 30;

/// Pieces that a large read is cut into, each of which takes the link that is free for it: some milliseconds of a gigabit.
const PIECE_BYTES: u64 = 512 << 10;

/// Pieces of a read that are under way together: several for each link, and few of the connections that a daemon grants to one address.
pub(super) const PIECES_AT_ONCE: usize = 16;

/// A link whose speed is less than the best one's by this factor is shown as slow.
const SLOW_FACTOR: u64 = 4;

/// What a request is, for the choice of its link.
#[derive(Clone, Copy)]
pub(super) struct Errand {
    pub(super) class: Class,
    /// Bytes that it moves.
    pub(super) bytes: u64,
    /// When it is made over another link as well although its own one answers.
    pub(super) timeout: Duration,
    /// Does it store a shard?
    pub(super) is_put: bool,
}

impl Errand {
    /// Does it wait for room on a cable?
    pub(super) fn is_large_put(&self) -> bool {
        self.is_put && self.bytes >= LARGE_BYTES
    }
}

/// May requests go there?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It has not proved yet that the daemon is there.
    New,
    /// The daemon has proved that it is there.
    Up,
    /// It was silent, and a probe is to tell.
    Doubted,
    /// It did not answer, or somebody else did.
    Down,
}

/// What is known of a link when one is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Candidate {
    /// May requests go there, and was it not tried for this one?
    pub(super) is_usable: bool,
    /// Bytes of requests that are under way there.
    pub(super) in_flight_bytes: u64,
    /// None: not measured yet.
    pub(super) bytes_per_second: Option<u64>,
    pub(super) latency: Duration,
}

/// The link on which `bytes` more arrive first, of those that are equal the first; `None`: none is usable. One whose speed is unknown
/// is taken for as fast as the best.
pub(super) fn choose(links: &[Candidate], bytes: u64) -> Option<usize> {
    let usable = || links.iter().enumerate().filter(|(_, link)| link.is_usable);
    let best = usable().filter_map(|(_, link)| link.bytes_per_second).max().unwrap_or(SPEED_UNKNOWN);
    let arrival_ns = |link: &Candidate| {
        let is_slower = |speed: &u64| speed.saturating_mul(ALIKE.0) < best.saturating_mul(ALIKE.1);
        let speed = u128::from(link.bytes_per_second.filter(is_slower).unwrap_or(best).max(1));
        let bytes = u128::from(link.in_flight_bytes) + u128::from(bytes);
        link.latency.as_nanos() + bytes * 1_000_000_000 / speed
    };
    usable().min_by_key(|(_, link)| arrival_ns(link)).map(|(at, _)| at)
}

/// The links that a large put may take while the one where it arrives first has no room: a slow one is not worth it.
pub(super) fn those_with_room(links: &[Candidate], has_room: impl Fn(usize) -> bool) -> Vec<Candidate> {
    let best = links.iter().filter(|link| link.is_usable).filter_map(|link| link.bytes_per_second).max();
    let may_take = |at, link: &Candidate| link.is_usable && !is_slow(link.bytes_per_second, best) && has_room(at);
    links.iter().enumerate().map(|(at, link)| Candidate { is_usable: may_take(at, link), ..*link }).collect()
}

/// May a put of `bytes` begin on a cable of this speed, while large ones of `moving` bytes each move there? `alone` is the speed of a single put.
pub(super) fn has_room(moving: &[u64], bytes: u64, bytes_per_second: Option<u64>, alone: Option<f64>) -> bool {
    let alone_time = alone.map_or(0.0, |speed| bytes as f64 / speed);
    let carried = bytes_per_second.unwrap_or(0) as f64 * (QUEUE_TIME.as_secs_f64() + alone_time);
    moving.len() < TOGETHER_MIN || (moving.iter().sum::<u64>() as f64) < carried
}

/// A read in pieces that may take links of their own. One that is short, of all that there is of a shard, or of a daemon with one usable link
/// is one piece.
pub(super) fn pieces(range: &Range<u64>, link_count: usize) -> Vec<Range<u64>> {
    let bytes = range.end.saturating_sub(range.start);
    if link_count < 2 || range.end >= SHARD_BYTES_MAX || bytes < 2 * PIECE_BYTES {
        return vec![range.clone()];
    }
    let piece_bytes = bytes.div_ceil(bytes / PIECE_BYTES);
    (range.start..range.end)
        .step_by(piece_bytes as usize)
        .map(|start| start..range.end.min(start + piece_bytes))
        .collect()
}

/// How a request over a link is going.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Look {
    /// Since when no byte of it has moved.
    pub(super) quiet: Duration,
    /// Since when nothing came over the link, or the request began.
    pub(super) unheard: Duration,
    /// Since when its cable has not carried [`SAMPLE_BYTES_MIN`] more in either direction, or the request began. Less is what the system takes
    /// of small requests when nothing is carried any more.
    pub(super) idle: Duration,
    pub(super) standing: Standing,
    /// For how long a probe of the link is under way without an answer, and was another link heard meanwhile?
    pub(super) probe: Option<(Duration, bool)>,
    /// How long a probe may take.
    pub(super) allowance: Duration,
    /// May the request be made over another link that is up?
    pub(super) has_other: bool,
    /// When it is made there in any case.
    pub(super) timeout: Duration,
}

/// What to do about a request that has no answer yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Look again after this time.
    Wait(Duration),
    /// Ask over all links whether the daemon is there.
    Probe,
    /// The link is silent: doubt it, and make the request over another one as well.
    Leave,
    /// The link answers and the request stands still, not behind others: make it over another one as well.
    Hedge,
}

/// Decides about a request. It is never given up: what comes first counts.
pub(super) fn judge(look: &Look) -> Verdict {
    if look.has_other && !matches!(look.standing, Standing::Up) {
        return Verdict::Leave;
    }
    let is_behind_others = look.idle < QUIET && look.quiet < look.timeout.saturating_mul(BEHIND_OTHERS);
    if look.has_other && look.quiet >= look.timeout && !is_behind_others {
        return Verdict::Hedge;
    }
    let until_timeout = look.timeout.checked_sub(look.quiet).filter(|left| !left.is_zero()).unwrap_or(QUIET);
    let wait = |time: Duration| Verdict::Wait(time.min(until_timeout));
    let heard = look.quiet.min(look.unheard).min(look.idle);
    if heard < QUIET {
        return wait(QUIET - heard);
    }
    match look.probe {
        None => Verdict::Probe,
        Some((age, _)) if age < look.allowance => wait(look.allowance - age),
        Some((_, true)) if look.has_other => Verdict::Leave,
        // Nobody answers: it is the daemon or this machine, and no link is better.
        Some(_) => wait(QUIET),
    }
}

/// When to probe a link that is down, after this many probes in vain.
pub(super) fn probe_again(failures: u32) -> Duration {
    PROBE_AGAIN_MIN.saturating_mul(1 << failures.min(16)).min(PROBE_AGAIN_MAX)
}

/// Is a link slow beside the best one?
pub(super) fn is_slow(bytes_per_second: Option<u64>, best: Option<u64>) -> bool {
    bytes_per_second.zip(best).is_some_and(|(own, best)| own.saturating_mul(SLOW_FACTOR) < best)
}

/// How often the speed has doubled since it was measured.
fn doublings(measured: Instant, now: Instant) -> f64 {
    now.saturating_duration_since(measured).as_secs_f64() / SPEED_DOUBLES.as_secs_f64()
}

/// How long probes of a link take: mean and mean deviation (as in RFC 6298). Nothing is known at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latency(Option<(Duration, Duration)>);

impl Latency {
    /// From what another process has measured.
    pub(super) fn remembered(mean: Option<Duration>) -> Self {
        Self(mean.map(|mean| (mean, mean / 2)))
    }

    /// A probe took so long.
    pub(super) fn answered(&mut self, took: Duration) {
        self.0 = Some(match self.0 {
            None => (took, took / 2),
            // Probes are seconds apart, so each counts more than the samples of the RFC.
            Some((mean, deviation)) => ((mean + took) / 2, (deviation * 3 + mean.abs_diff(took)) / 4),
        });
    }

    /// Mean time of a probe.
    pub(super) fn mean(&self) -> Option<Duration> {
        self.0.map(|(mean, _)| mean)
    }

    /// How long a probe may take before the link is doubted.
    pub(super) fn allowance(&self) -> Duration {
        let usual = self.0.map_or(Duration::ZERO, |(mean, deviation)| mean + deviation * 4);
        usual.clamp(ALLOWANCE_MIN, ALLOWANCE_MAX)
    }
}

/// How fast a cable is: exponentially weighted mean of bytes a second, and when it had its last sample. Nothing is known at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Speed(Option<(f64, Instant)>);

impl Speed {
    /// From what another process has measured.
    pub(super) fn remembered(bytes_per_second: u64, now: Instant) -> Self {
        Self(Some((bytes_per_second as f64, now)))
    }

    /// These bytes took this long.
    pub(super) fn moved(&mut self, bytes: u64, took: Duration, now: Instant) {
        let seconds = took.as_secs_f64().max(1e-6);
        let (sample, gain) = (bytes as f64 / seconds, seconds / (seconds + SPEED_TIME.as_secs_f64()));
        let mean = self.0.map_or(sample, |(mean, at)| {
            // What is old counts less.
            let kept = (1.0 - gain) / doublings(at, now).exp2();
            sample + kept * (mean - sample)
        });
        self.0 = Some((mean, now));
    }

    /// Measured bytes a second.
    pub(super) fn bytes_per_second(&self) -> Option<u64> {
        self.0.map(|(mean, _)| (mean as u64).max(1))
    }

    /// What a choice may expect: the older the measure, the more.
    pub(super) fn expected_bytes_per_second(&self, now: Instant) -> Option<u64> {
        self.0.map(|(mean, at)| {
            // More than any number of bytes is the most.
            ((mean * doublings(at, now).exp2()) as u64).max(1)
        })
    }
}

/// How fast a single put is that has a cable to itself: the fastest of the last ones. Bytes a second. Nothing is known at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Alone(Option<(f64, Instant)>);

impl Alone {
    /// A put of these bytes took this long.
    pub(super) fn stored(&mut self, bytes: u64, took: Duration, now: Instant) {
        let sample = bytes as f64 / took.as_secs_f64().max(1e-6);
        let known = self.bytes_per_second(now).unwrap_or(0.0);
        self.0 = Some((sample.max(known), now));
    }

    pub(super) fn bytes_per_second(&self, now: Instant) -> Option<f64> {
        let halvings = |at| now.saturating_duration_since(at).as_secs_f64() / ALONE_HALVES.as_secs_f64();
        self.0.map(|(speed, at)| speed / halvings(at).exp2())
    }
}

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
