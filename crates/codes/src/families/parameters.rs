//! Reading what follows the colon of a spec string.

use alloc::borrow::ToOwned;
use alloc::string::String;

/// What a family finds wrong with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// They are not written as its syntax says.
    Syntax,
    /// They break a bound; the text says which.
    Impossible(String),
}

/// A count in plain decimal digits.
///
/// # Errors
/// [`Problem::Syntax`] for anything else; [`Problem::Impossible`] for more than any code has.
pub fn count(text: &str) -> Result<usize, Problem> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Problem::Syntax);
    }
    // Digits that do not fit are still a number, only too large a one.
    let value = text.parse().unwrap_or(usize::MAX);
    if value > 65_536 { Err(Problem::Impossible("no code has so many shards".to_owned())) } else { Ok(value) }
}

/// `k+m` as two counts.
///
/// # Errors
/// As [`count`].
pub fn data_and_parity(text: &str) -> Result<(usize, usize), Problem> {
    let (data, parity) = text.split_once('+').ok_or(Problem::Syntax)?;
    Ok((count(data)?, count(parity)?))
}

/// `name=count` as the count.
///
/// # Errors
/// As [`count`].
pub fn named_count(text: &str, name: &str) -> Result<usize, Problem> {
    let value = text.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')).ok_or(Problem::Syntax)?;
    count(value)
}

/// Refuses with this reason unless the condition holds.
///
/// # Errors
/// [`Problem::Impossible`].
pub fn require(holds: bool, reason: impl FnOnce() -> String) -> Result<(), Problem> {
    if holds { Ok(()) } else { Err(Problem::Impossible(reason())) }
}
