//! Numbers and times as people read them, and saying them.

use std::io::Write;
use weft_format::records::Timestamp;

/// Writes to standard output. What cannot be written has no reader, and ends the command.
pub fn say(text: std::fmt::Arguments<'_>) {
    if let Err(error) = std::io::stdout().write_fmt(text) {
        let gone = error.kind() == std::io::ErrorKind::BrokenPipe;
        if !gone {
            eprintln!("weft: the output cannot be written: {error}");
        }
        std::process::exit(i32::from(!gone));
    }
}

/// An error in one line, without the numbers that the standard library adds to what the system says.
pub fn sentence(error: &anyhow::Error) -> String {
    let mut sentence = line(&format!("{error:#}"));
    while let Some(start) = sentence.find(" (os error ") {
        let Some(length) = sentence[start..].find(')') else { break };
        sentence.replace_range(start..=start + length, "");
    }
    sentence
}

/// A name in a line or a table: what would break the line or drive the terminal is escaped, as in `new\nline`.
pub fn line(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() || changes_direction(character) {
            text.extend(character.escape_default());
        } else {
            text.push(character);
        }
    }
    text
}

/// Characters of no width that have what follows shown elsewhere, so that a name looks like another.
fn changes_direction(character: char) -> bool {
    matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// `1.5 GiB`; below 1 KiB, whole bytes.
pub fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if count < 1024 {
        return format!("{count} B");
    }
    let mut value = count as f64 / 1024.0;
    let mut unit = 0;
    // 1023.95 would be shown as 1024.0.
    while value >= 1023.95 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `2026-11-20 12:57:03` in UTC.
pub fn time(time: Timestamp) -> String {
    let days = time.seconds.div_euclid(86_400);
    let second = time.seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

/// Days since 1970-01-01 as a date of the proleptic Gregorian calendar. Years begin in March, so that the leap day is the
/// last (Hinnant, `chrono`-Compatible Low-Level Date Algorithms, `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    const DAYS_PER_ERA: i64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day)
}

/// Columns of text: as wide as their widest cell, those named in `right` flush right.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    // What is named by others is in most of them.
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| line(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for row in &rows {
        let cell = |(column, cell): (usize, &String)| match right.contains(&column) {
            true => format!("{cell:>width$}", width = widths[column]),
            false => format!("{cell:<width$}", width = widths[column]),
        };
        let line = row.iter().enumerate().map(cell).collect::<Vec<_>>().join("  ");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
#[path = "render_tests.rs"]
mod tests;
