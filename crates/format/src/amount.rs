//! Numbers of bytes as people write them: `10M`, `10MiB`, `1.5g`, `512`; powers of 1024 all of them.

use std::num::NonZeroU64;

/// Powers of 1024, by the letter that names them.
const UNITS: [(char, u64); 6] =
    [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30), ('t', 1 << 40), ('p', 1 << 50), ('e', 1 << 60)];

/// `10M`, `10MiB`, `10MB`, `1.5g`, `512`: powers of 1024 all of them; a bare number is bytes.
pub fn parse_bytes(text: &str) -> Option<NonZeroU64> {
    let lower = text.to_ascii_lowercase();
    let number_length = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(number_length);
    let factor = match unit {
        "" | "b" => 1,
        unit => {
            let letter = unit.chars().next()?;
            let (_, factor) = UNITS.into_iter().find(|(known, _)| *known == letter)?;
            matches!(&unit[1..], "" | "b" | "ib").then_some(factor)?
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let fraction = fraction.trim_end_matches('0');
    // Exact: as many digits as this make a whole number of bytes of any size that there is.
    if whole.is_empty() || fraction.len() > 15 || number.ends_with('.') {
        return None;
    }
    let of_fraction = match fraction {
        "" => 0,
        digits => digits.parse::<u128>().ok()? * u128::from(factor) / 10u128.pow(digits.len() as u32),
    };
    let bytes = whole.parse::<u128>().ok()?.checked_mul(u128::from(factor))?.checked_add(of_fraction)?;
    NonZeroU64::new(u64::try_from(bytes).ok()?)
}

/// In the largest unit of which it is a whole number: `64MiB`, `1000B`.
pub fn show_bytes(bytes: u64) -> String {
    let fits = |(_, unit_bytes): &&(char, u64)| bytes > 0 && bytes.is_multiple_of(*unit_bytes);
    match UNITS.iter().rev().find(fits) {
        Some((letter, unit_bytes)) => {
            format!("{}{}iB", bytes / unit_bytes, letter.to_ascii_uppercase())
        }
        None => format!("{bytes}B"),
    }
}

#[cfg(test)]
#[path = "amount_tests.rs"]
mod tests;
