//! Shrinking, of histories that fail when certain faults strike.

use super::shrink;
use crate::length::Length;

fn strikes(length: &Length, number: u64) -> bool {
    number < length.faults && !length.without.contains(&number)
}

#[test]
fn only_what_is_needed_is_left() {
    let smallest = shrink(Length::of(30), |length| strikes(length, 3) && strikes(length, 11)).expect("it fails");
    assert_eq!(smallest.faults, 12);
    let left: Vec<u64> = (0..smallest.faults).filter(|number| strikes(&smallest, *number)).collect();
    assert_eq!(left, [3, 11]);
}

#[test]
fn a_history_that_fails_without_faults_has_none() {
    assert_eq!(shrink(Length::of(30), |_| true), Some(Length::of(0)));
}

#[test]
fn one_that_does_not_fail_is_not_shrunk() {
    assert_eq!(shrink(Length::of(30), |_| false), None);
}
