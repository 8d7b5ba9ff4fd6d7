use super::*;

#[test]
fn no_limit_never_waits() {
    for limit in [None, Some(0)] {
        let mut pace = Pace::new(limit);
        pace.charge(u64::MAX, 0);
        assert_eq!(pace.wait_ms(0), 0);
        assert_eq!((pace.at_once(4), pace.at_once(0)), (4, 1));
    }
    assert_eq!(Pace::new(Some(1)).at_once(4), 1);
}

#[test]
fn waits_until_what_moved_is_paid() {
    let mut pace = Pace::new(Some(1000));
    assert_eq!(pace.wait_ms(10_000), 0);
    pace.charge(500, 10_000);
    assert_eq!(pace.wait_ms(10_000), 500);
    pace.charge(500, 10_100);
    assert_eq!(pace.wait_ms(10_200), 800);
}

#[test]
fn idle_time_is_not_saved_up() {
    let mut pace = Pace::new(Some(1000));
    pace.charge(1000, 0);
    assert_eq!(pace.wait_ms(60_000), 0);
    pace.charge(1000, 60_000);
    assert_eq!(pace.wait_ms(60_000), 1000);
}

#[test]
fn absurd_sizes_do_not_overflow() {
    let mut pace = Pace::new(Some(1));
    pace.charge(u64::MAX, 5);
    pace.charge(u64::MAX, 5);
    assert_eq!(pace.wait_ms(0), u64::MAX);
}
