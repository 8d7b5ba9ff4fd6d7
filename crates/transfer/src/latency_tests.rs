use super::*;

#[test]
fn settles_near_the_tail_and_not_at_the_mean() {
    let latency = Latency::default();
    // 1 % of the answers take 10 ms, the others 1 ms.
    for i in 0..100_000 {
        latency.observe(if i % 100 == 0 { 10_000 } else { 1_000 });
    }
    let p99_us = latency.p99_us.load(Ordering::Relaxed);
    assert!((2_000..=10_000).contains(&p99_us), "{p99_us}");
}

#[test]
fn hedges_never_before_the_floor_and_gives_time_for_bytes() {
    let latency = Latency::default();
    assert_eq!(latency.hedge_after_us(0), HEDGE_FLOOR_US);
    assert_eq!(latency.hedge_after_us(10_000_000), HEDGE_FLOOR_US + 1_000_000);
    latency.observe(4_000_000);
    assert_eq!(latency.hedge_after_us(0), 4_000_000);
}
