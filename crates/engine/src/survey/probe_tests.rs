use super::*;

#[test]
fn a_speed_is_what_is_left_without_the_latency() {
    let (read, latency) = (Duration::from_millis(110), Duration::from_millis(10));
    assert!((speed(1_000_000, read, latency) - 1e7).abs() < 1.0);
    assert!((speed(1_000_000, Duration::from_millis(10), latency) - 1e9).abs() < 1.0, "never without end");
}
