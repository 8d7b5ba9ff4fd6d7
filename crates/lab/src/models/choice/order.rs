//! Which codes meet the needs, and in which order they are shown.

use super::{Choice, GIB, Needs};
use std::cmp::Ordering;

/// Why a code does not meet the needs; `None`: it does.
pub(super) fn shortfall(choice: &Choice, needs: &Needs) -> Option<String> {
    if choice.room_bytes < needs.capacity_bytes {
        let (there, wanted) = (choice.room_bytes / GIB, needs.capacity_bytes / GIB);
        return Some(format!("only {there:.0} of {wanted:.0} GiB fit"));
    }
    let is_risky = choice.annual_loss > needs.annual_loss_max;
    is_risky.then(|| format!("loss of {:.1e} a year is above {:.1e}", choice.annual_loss, needs.annual_loss_max))
}

/// Codes that meet the needs first, by price of storage (or bytes stored, where nothing has a price), of a repair, and by time of a read.
/// The others by their chance of loss. Equals stay in the order of the candidates, simple families first.
pub(super) fn order(one: &Choice, other: &Choice) -> Ordering {
    let is_short = |choice: &Choice| choice.shortfall.is_some();
    let figures = |choice: &Choice| match is_short(choice) {
        true => [choice.annual_loss, choice.stored_per_byte, 0.0, 0.0, 0.0, 0.0],
        false => [
            choice.month_price,
            choice.stored_per_byte,
            choice.repair.price,
            choice.repair.bytes,
            choice.read_seconds,
            choice.operations,
        ],
    };
    let compared = figures(one).into_iter().zip(figures(other)).map(|(one, other)| compare(one, other));
    let by_figures = compared.fold(Ordering::Equal, Ordering::then);
    is_short(one).cmp(&is_short(other)).then(by_figures)
}

/// Values that differ by rounding only are equal.
fn compare(one: f64, other: f64) -> Ordering {
    let digits = |value: f64| format!("{value:.9e}").parse().unwrap_or(value);
    digits(one).total_cmp(&digits(other))
}
