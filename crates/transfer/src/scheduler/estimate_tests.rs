use super::*;

#[test]
fn a_line_is_learned_from_answers_of_several_lengths() {
    let mut estimate = Estimate::default();
    assert_eq!(estimate.expected_us(1000, 0), None);
    // 20 ms and 1 MB/s.
    for i in 0..50 {
        let bytes = [4096, 65_536, 1 << 20][i % 3];
        estimate.observe(bytes, 20_000 + bytes, i as u64);
    }
    for bytes in [4096, 300_000, 4 << 20] {
        let (expected_us, right_us) = (estimate.expected_us(bytes, 50).unwrap(), 20_000 + bytes);
        assert!(expected_us.abs_diff(right_us) <= right_us / 20, "{bytes}: {expected_us} where {right_us} are right");
    }
}

#[test]
fn answers_of_one_length_are_scaled_where_they_are_long() {
    let mut estimate = Estimate::default();
    (0..20).for_each(|i| estimate.observe(1 << 20, 1_000_000, i));
    let expected_us = estimate.expected_us(2 << 20, 20).unwrap();
    assert!(expected_us.abs_diff(2_000_000) < 20_000, "{expected_us}");
    let mut estimate = Estimate::default();
    (0..20).for_each(|i| estimate.observe(4096, 500, i));
    assert_eq!(estimate.expected_us(8192, 20), Some(500));
}

#[test]
fn one_answer_that_got_stuck_is_no_slow_node_and_many_are() {
    let mut estimate = Estimate::default();
    (0..50).for_each(|i| estimate.observe(4096, 1_000, i));
    estimate.observe(4096, 10_000_000, 50);
    let after_one_us = estimate.expected_us(4096, 51).unwrap();
    assert!(after_one_us < 5_000, "{after_one_us}");
    (0..20).for_each(|i| estimate.observe(4096, 10_000_000, 51 + i));
    let after_many_us = estimate.expected_us(4096, 80).unwrap();
    assert!(after_many_us > 1_000_000, "{after_many_us}");
}

#[test]
fn what_was_long_ago_counts_no_longer() {
    let mut estimate = Estimate::default();
    estimate.observe(4096, 1_000, 0);
    assert_eq!(estimate.expected_us(4096, FORGOTTEN_US - 1), Some(1_000));
    assert_eq!(estimate.expected_us(4096, FORGOTTEN_US), None);
}

#[test]
fn late_is_well_beyond_what_answers_take() {
    let unknown = Estimate::default();
    assert_eq!(unknown.late_after_us(0), LATE_FLOOR_US);
    assert_eq!(unknown.late_after_us(10_000_000), LATE_FLOOR_US + 1_000_000);
    let mut estimate = Estimate::default();
    (0..10_000u64).for_each(|i| estimate.observe(4096, if i % 100 == 0 { 800_000 } else { 400_000 }, i));
    let late_us = estimate.late_after_us(4096);
    assert!((600_000..1_000_000).contains(&late_us), "{late_us}");
    let mut fast = Estimate::default();
    (0..1000).for_each(|i| fast.observe(4096, 100, i));
    assert_eq!(fast.late_after_us(4096), LATE_FLOOR_US, "not for a moment's delay");
}
