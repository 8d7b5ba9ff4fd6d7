use super::*;

#[test]
fn on_a_slow_line_what_is_under_way_together_gets_the_time_it_takes() {
    let uplink = Arc::new(Uplink::default());
    assert_eq!(uplink.wait(0, 0), Duration::ZERO);
    let in_flight: Vec<_> = (0..6).map(|_| uplink.enter(8_000_000, 0)).collect();
    assert_eq!(uplink.wait(0, 0), Duration::from_secs(48), "nothing is known: as on the slowest uplink");
    // 4 MB/s for a minute: the caution leaves the slowest uplink's rate.
    (0..60).for_each(|second| uplink.moved(4_000_000, second * 1000));
    assert_eq!(uplink.wait(0, 60_000), Duration::from_secs(48));
    assert_eq!(uplink.wait(8_000_000, 60_000), Duration::from_secs(40));
    drop(in_flight);
    assert_eq!(uplink.wait(0, 60_000), Duration::ZERO);
}

#[test]
fn on_a_fast_line_a_silence_is_noticed_soon() {
    let uplink = Arc::new(Uplink::default());
    let _all_of_memory = uplink.enter(256 << 20, 0);
    (0..300).for_each(|tenth| uplink.moved(40_000_000, tenth * 100));
    let wait = uplink.wait(0, 30_000);
    assert!((Duration::from_secs(2)..Duration::from_secs(4)).contains(&wait), "{wait:?}");
    // After a quiet minute nothing is known again.
    assert_eq!(uplink.wait(0, 120_000), Duration::from_millis((256 << 20) / 1000));
}

#[test]
fn the_pace_of_a_busy_line_is_not_forgotten_while_it_rests() {
    let uplink = Arc::new(Uplink::default());
    assert_eq!(uplink.view(0), UplinkView::default());
    let in_flight = uplink.enter(10_000_000, 1000);
    (1..=10).for_each(|tenth| uplink.moved(1_000_000, 1000 + tenth * 100));
    let view = UplinkView {
        moved_bytes: 10_000_000,
        quiet_ms: Some(500),
        under_way_bytes: 10_000_000,
        bytes_per_ms: Some(10_000),
    };
    assert_eq!(uplink.view(2500), view);
    drop(in_flight);
    let _in_flight_bytes = uplink.enter(1, 900_000);
    uplink.moved(1_000_000, 900_100);
    assert_eq!(uplink.view(900_100).bytes_per_ms, Some(10_000));
}
