//! Numbers as sentences have them.

/// `1 file`, `2 files`.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// A name or path in JSON, which holds text only: the text, and the bytes in hexadecimal digits where it is not UTF-8.
#[must_use]
pub fn for_programs(name: &[u8]) -> (String, Option<String>) {
    let hex = || name.iter().map(|byte| format!("{byte:02x}")).collect();
    (String::from_utf8_lossy(name).into_owned(), std::str::from_utf8(name).is_err().then(hex))
}
