//! Lengths of time as people write them: `30s`, `10m`, `2h`, `1d`, `250ms`; a bare number is seconds.

/// Units, the longest first.
const UNITS: [(&str, u64); 5] = [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("ms", 1), ("s", 1000)];

/// So many milliseconds; `None`: it is no length of time, or longer than can be counted.
pub fn parse_ms(text: &str) -> Option<u64> {
    let with_unit = UNITS.iter().find_map(|(unit, unit_ms)| Some((text.strip_suffix(unit)?, *unit_ms)));
    let (number, unit_ms) = with_unit.unwrap_or((text, 1000));
    // `+5` is a number to Rust, and no spelling of ours.
    let is_plain = number.bytes().all(|byte| byte.is_ascii_digit());
    number.parse::<u64>().ok().filter(|_| is_plain)?.checked_mul(unit_ms)
}

/// In the largest unit of which it is a whole number.
pub fn show_ms(ms: u64) -> String {
    let fits = |(_, unit_ms): &&(&str, u64)| ms > 0 && ms.is_multiple_of(*unit_ms);
    let largest = UNITS.iter().filter(fits).max_by_key(|(_, unit_ms)| *unit_ms);
    largest.map_or_else(|| format!("{ms}ms"), |(unit, unit_ms)| format!("{}{unit}", ms / unit_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_read_again() {
        for (text, ms) in [("30d", 2_592_000_000), ("2h", 7_200_000), ("10m", 600_000), ("45s", 45_000), ("250ms", 250)]
        {
            assert_eq!((parse_ms(text), show_ms(ms).as_str()), (Some(ms), text));
        }
        assert_eq!((show_ms(0).as_str(), parse_ms("0ms")), ("0ms", Some(0)));
        assert_eq!((parse_ms("90"), parse_ms("36h")), (Some(90_000), Some(129_600_000)));
        for text in ["", "d", "x", "1w", "-1s", "+1s", "1.5h", "1 d", "18446744073709551615d"] {
            assert_eq!(parse_ms(text), None, "{text}");
        }
    }
}
