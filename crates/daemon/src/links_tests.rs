use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);

fn link(bytes_per_second: u64, in_flight_bytes: u64) -> Candidate {
    Candidate { is_usable: true, in_flight_bytes, bytes_per_second: Some(bytes_per_second), latency: MS }
}

/// By trying what each link would do, a millisecond after the other.
fn slow_choice(links: &[Candidate], bytes: u64) -> Option<usize> {
    let usable: Vec<usize> = (0..links.len()).filter(|at| links[*at].is_usable).collect();
    let best = usable.iter().filter_map(|at| links[*at].bytes_per_second).max().unwrap_or(SPEED_UNKNOWN);
    (0..)
        .find_map(|ms: u64| {
            usable.iter().copied().find(|at| {
                let link = links[*at];
                let speed = link.bytes_per_second.unwrap_or(best);
                let sending_ms = ms.saturating_sub(link.latency.as_millis() as u64);
                ms >= link.latency.as_millis() as u64 && sending_ms * speed >= (link.in_flight_bytes + bytes) * 1000
            })
        })
        .filter(|_| !usable.is_empty())
}

proptest! {
    #[test]
    fn the_choice_is_that_of_the_slow_reference(
        links in proptest::collection::vec((any::<bool>(), 0_u64..30, 1_u64..5, 0_u64..20), 1..5),
        bytes in 0_u64..30,
    ) {
        // Speeds of 1 to 4 bytes a millisecond, and multiples of 12 bytes.
        let links: Vec<Candidate> = links.into_iter().map(|(is_usable, in_flight, speed, latency_ms)| Candidate {
            is_usable,
            in_flight_bytes: in_flight * 12,
            bytes_per_second: Some(speed * 1000),
            latency: MS * latency_ms as u32,
        }).collect();
        prop_assume!(links.iter().any(|link| link.is_usable));
        prop_assert_eq!(choose(&links, bytes * 12), slow_choice(&links, bytes * 12));
    }

    #[test]
    fn pieces_are_the_range(start in 0..2 * SHARD_BYTES_MAX, bytes in 0_u64..64 << 20, link_count in 0_usize..9) {
        let range = start..start + bytes;
        let pieces = pieces(&range, link_count);
        prop_assert_eq!(pieces[0].start, range.start);
        prop_assert_eq!(pieces[pieces.len() - 1].end, range.end);
        prop_assert!(pieces.windows(2).all(|pair| pair[0].end == pair[1].start && !pair[0].is_empty()));
        prop_assert!(pieces.len() == 1 || pieces.iter().all(|piece| piece.end - piece.start <= 2 * PIECE_BYTES));
    }

    #[test]
    fn a_request_is_looked_at_again_and_never_given_up(
        quiet_ms in 0_u64..20_000, unheard_ms in 0_u64..20_000, idle_ms in 0_u64..20_000, standing in 0..4, age in proptest::option::of((0_u64..3000, any::<bool>())),
        allowance_ms in 150_u64..1000, has_other in any::<bool>(), timeout_ms in 500_u64..20_000,
    ) {
        let standing = [Standing::New, Standing::Up, Standing::Doubted, Standing::Down][standing as usize];
        let look = Look {
            quiet: Duration::from_millis(quiet_ms),
            unheard: Duration::from_millis(unheard_ms),
            idle: Duration::from_millis(idle_ms),
            standing,
            probe: age.map(|(age_ms, heard)| (Duration::from_millis(age_ms), heard)),
            allowance: Duration::from_millis(allowance_ms),
            has_other,
            timeout: Duration::from_millis(timeout_ms),
        };
        match judge(&look) {
            Verdict::Wait(time) => prop_assert!(!time.is_zero() && time <= ALLOWANCE_MAX),
            Verdict::Probe => prop_assert!(look.quiet >= QUIET && look.probe.is_none()),
            Verdict::Leave | Verdict::Hedge => prop_assert!(has_other),
        }
    }
}

#[test]
fn equal_links_share_what_is_under_way_and_a_fast_one_takes_more() {
    let spread = |speeds: [u64; 2], requests: u64| {
        let mut links = speeds.map(|speed| link(speed, 0));
        for _ in 0..requests {
            let at = choose(&links, 1 << 20).unwrap();
            links[at].in_flight_bytes += 1 << 20;
        }
        links.map(|link| link.in_flight_bytes >> 20)
    };
    assert_eq!(spread([10_000_000, 10_000_000], 10), [5, 5]);
    assert_eq!(spread([40_000_000, 10_000_000], 10), [8, 2]);
    assert_eq!(spread([10_000_000, 8_100_000], 10), [5, 5], "measures vary by as much");
    assert_eq!(spread([10_000_000, 5_000_000], 9), [6, 3]);
}

#[test]
fn a_link_of_which_nothing_is_known_is_tried() {
    let unknown = Candidate { bytes_per_second: None, ..link(1, 0) };
    assert_eq!(choose(&[link(1000, 1 << 20), unknown], 1 << 20), Some(1));
    assert_eq!(choose(&[unknown, unknown], 0), Some(0));
    let unusable = Candidate { is_usable: false, ..unknown };
    assert_eq!(choose(&[unusable, unusable], 0), None);
    assert_eq!(choose(&[unusable, link(0, 0)], u64::MAX), Some(1));
}

fn look(quiet: u32, probe: Option<(u32, bool)>) -> Look {
    Look {
        quiet: MS * quiet,
        unheard: MS * quiet,
        idle: MS * quiet,
        standing: Standing::Up,
        probe: probe.map(|(age, heard)| (MS * age, heard)),
        allowance: ALLOWANCE_MIN,
        has_other: true,
        timeout: READ_TIMEOUT,
    }
}

/// A cable is pulled: the course of a request whose probe is answered over the other link only.
#[test]
fn a_silent_link_is_left_in_less_than_0_3_s() {
    assert_eq!(judge(&look(30, None)), Verdict::Wait(MS * 70));
    assert_eq!(judge(&look(100, None)), Verdict::Probe);
    assert_eq!(judge(&look(101, Some((1, true)))), Verdict::Wait(MS * 149));
    assert_eq!(judge(&look(250, Some((150, true)))), Verdict::Leave);
    assert!(QUIET + ALLOWANCE_MIN < MS * 300);
}

#[test]
fn a_slow_daemon_is_waited_for_and_its_links_are_not_doubted() {
    // The probe is answered over the link.
    let answered = Look { unheard: MS * 5, ..look(600, None) };
    assert_eq!(judge(&answered), Verdict::Wait(MS * 95));
    // Nobody answers, over no link.
    assert_eq!(judge(&look(600, Some((400, false)))), Verdict::Wait(QUIET));
    // Big packets are lost: the link answers, and the request stands still.
    assert_eq!(judge(&Look { unheard: MS * 5, ..look(1000, None) }), Verdict::Hedge);
    assert_eq!(judge(&Look { has_other: false, ..look(5000, Some((400, true))) }), Verdict::Wait(QUIET));
    // Another request has found out.
    assert_eq!(judge(&Look { standing: Standing::Doubted, ..look(3, None) }), Verdict::Leave);
}

/// Many writes at once over a thin link: some stand still for seconds, and so does a probe, while others are carried.
#[test]
fn a_request_waits_behind_others_on_its_link() {
    let behind = |quiet, probe| Look { idle: MS * 20, ..look(quiet, probe) };
    assert_eq!(judge(&behind(500, Some((400, true)))), Verdict::Wait(MS * 80));
    assert_eq!(judge(&behind(3_900, Some((400, true)))), Verdict::Wait(MS * 80));
    assert_eq!(judge(&behind(4_000, None)), Verdict::Hedge);
    // The others are done: the cable is free, and this one still waits for a packet to be sent again.
    assert_eq!(judge(&Look { unheard: MS * 5, idle: QUIET, ..look(1_500, None) }), Verdict::Hedge);
    // Then nothing is carried any more.
    assert_eq!(judge(&Look { idle: MS * 150, ..look(500, Some((150, true))) }), Verdict::Leave);
    assert_eq!(judge(&Look { unheard: MS * 5, ..look(1_000, None) }), Verdict::Hedge);
}

#[test]
fn a_link_with_long_queues_has_more_time() {
    let mut latency = Latency::default();
    assert_eq!(latency.allowance(), ALLOWANCE_MIN);
    for _ in 0..8 {
        latency.answered(MS * 300);
    }
    assert!(latency.allowance() > MS * 300 && latency.allowance() < MS * 500, "{:?}", latency.allowance());
    latency.answered(Duration::from_secs(20));
    assert_eq!(latency.allowance(), ALLOWANCE_MAX);
}

#[test]
fn a_speed_follows_its_samples_and_an_old_one_is_doubted() {
    let now = weft_env::Env::system().clock.now();
    let mut speed = Speed::default();
    assert_eq!(speed.expected_bytes_per_second(now), None);
    speed.moved(1_000_000, MS * 100, now);
    assert_eq!(speed.bytes_per_second(), Some(10_000_000));
    // A short burst says little.
    speed.moved(1_000_000, MS, now);
    assert!(speed.bytes_per_second().unwrap() < 16_000_000);
    (0..40).for_each(|_| speed.moved(100_000, MS * 100, now));
    let settled = speed.bytes_per_second().unwrap();
    assert!((1_000_000..1_050_000).contains(&settled), "{settled}");
    let later = speed.expected_bytes_per_second(now + 2 * SPEED_DOUBLES).unwrap();
    assert!(later.abs_diff(4 * settled) < 8, "{later} of {settled}");
    // An old measure is soon forgotten.
    speed.moved(1_000_000, MS, now + 10 * SPEED_DOUBLES);
    assert!(speed.bytes_per_second().unwrap() > 990_000_000, "{speed:?}");
    speed.moved(0, Duration::ZERO, now);
    assert!(speed.bytes_per_second().unwrap() > 0);
}

#[test]
fn a_link_that_is_down_is_probed_ever_more_seldom() {
    let pauses: Vec<u128> = (0..9).map(|failures| probe_again(failures).as_millis()).collect();
    assert_eq!(pauses, [250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]);
    assert_eq!(probe_again(u32::MAX), PROBE_AGAIN_MAX);
}

#[test]
fn slow_is_less_than_a_quarter_of_the_best() {
    assert!(is_slow(Some(24), Some(100)) && !is_slow(Some(25), Some(100)));
    assert!(!is_slow(None, Some(100)) && !is_slow(None, None) && !is_slow(Some(u64::MAX), Some(u64::MAX)));
}

#[test]
fn a_cable_has_room_for_what_it_carries_soon() {
    const MIB: u64 = 1 << 20;
    let room = |count: usize, speed: Option<u64>, alone: Option<f64>| {
        has_room(&vec![4 * MIB; count], 4 * MIB, speed.map(|mib| mib * MIB), alone.map(|mib| mib * MIB as f64))
    };
    assert!(room(1, None, None) && !room(2, None, None), "nothing is known of it");
    assert!(room(1, Some(1), Some(4.0)) && !room(2, Some(1), Some(4.0)), "it is slow");
    assert!(room(9, Some(160), None) && !room(10, Some(160), None), "a quarter of a second");
    assert!(room(42, Some(40), Some(1.0)) && !room(43, Some(40), Some(1.0)), "and four, which one takes");
}

/// Where losses or distance limit each flow, more of them carry more. So there is room for more until they take longer than one alone.
#[test]
fn puts_become_more_on_a_line_that_one_does_not_fill() {
    const BYTES: u64 = 4 << 20;
    let (of_one, of_line) = (1.0e6, 9.0e6);
    let mut count = TOGETHER_MIN;
    for _ in 0..20 {
        let speed = (count as f64 * of_one).min(of_line);
        while has_room(&vec![BYTES; count], BYTES, Some(speed as u64), Some(of_one)) {
            count += 1;
        }
    }
    assert!((9..=12).contains(&count), "{count} carry 9 MB/s together");
}

#[test]
fn the_fastest_put_is_known_for_a_while() {
    let (mut alone, now) = (Alone::default(), Instant::now());
    assert_eq!(alone.bytes_per_second(now), None);
    alone.stored(4000, Duration::from_secs(1), now);
    alone.stored(4000, Duration::from_secs(4), now);
    assert_eq!(alone.bytes_per_second(now), Some(4000.0));
    assert_eq!(alone.bytes_per_second(now + 2 * ALONE_HALVES), Some(1000.0));
    alone.stored(4000, Duration::from_secs(2), now + 2 * ALONE_HALVES);
    assert_eq!(alone.bytes_per_second(now + 2 * ALONE_HALVES), Some(2000.0));
}

#[test]
fn a_put_takes_another_cable_with_room_if_that_is_not_slow() {
    let cable =
        |bytes_per_second| Candidate { is_usable: true, in_flight_bytes: 0, bytes_per_second, latency: Duration::ZERO };
    let links = [cable(Some(100)), cable(Some(26)), cable(Some(24)), cable(None)];
    let usable = |has_room: &[usize]| -> Vec<usize> {
        let those = those_with_room(&links, |at| has_room.contains(&at));
        (0..links.len()).filter(|at| those[*at].is_usable).collect()
    };
    assert_eq!(usable(&[1, 2, 3]), [1, 3]);
    assert_eq!(usable(&[2]), [0; 0]);
}
