//! Makes a failing history smaller: fewer faults at its end, then fewer in between.

use crate::length::Length;

/// A history with as few faults as were found to suffice; `None`: the whole one does not fail.
pub fn shrink(whole: Length, mut fails: impl FnMut(&Length) -> bool) -> Option<Length> {
    if !fails(&whole) {
        return None;
    }
    let mut smallest = whole;
    // By halves first. A history with fewer faults may fail where one with more does not, so this is no search for the one border.
    let mut step = smallest.faults.div_ceil(2);
    while step > 0 {
        let shorter = Length { faults: smallest.faults.saturating_sub(step), ..smallest.clone() };
        if shorter.faults < smallest.faults && fails(&shorter) {
            smallest = shorter;
        } else {
            step /= 2;
        }
    }
    for number in 0..smallest.faults {
        let mut fewer = smallest.clone();
        fewer.without.insert(number);
        if fails(&fewer) {
            smallest = fewer;
        }
    }
    Some(smallest)
}

#[cfg(test)]
#[path = "shrink_tests.rs"]
mod tests;
