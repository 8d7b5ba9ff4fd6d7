//! Metadata as text, and in another engine.
//!
//! A dump has a first line, a line for each record in the order of keys, and a last line:
//!
//! ```text
//! weft metadata 3
//! KEY VALUE # the key for people
//! end RECORDS DIGEST
//! ```
//!
//! Keys and values are hexadecimal, `-` if empty; FORMAT.md has their meaning. The digest is the BLAKE3 of all lines before, with their line
//! feeds.

use crate::copies::{self, RestoreReport};
use crate::error::EngineError;
use std::io::{BufRead, Write};
use weft_env::Env;
use weft_meta::keys::Key;
use weft_meta::kv::{Kv, Pair, Slot, Snapshot};
use weft_meta::pages::Pages;
use weft_meta::unfinished::is_mark;
use weft_meta::{Access, MetaError, MetaUrl};

const FIRST_LINE: &str = "weft metadata 3\n";
/// Records that are loaded at once.
const PAGE: usize = 1000;
/// The longest record is 64 KiB, twice as long in hexadecimal; more is no dump of ours.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// What was copied.
#[derive(Clone, Debug)]
pub struct CopyReport {
    /// Records.
    pub record_count: u64,
    /// How the volume continues.
    pub restored: RestoreReport,
}

/// Writes the metadata as of one moment as text; how many records. It has the keys of nodes.
///
/// # Errors
/// Metadata cannot be read, or the output not written.
pub fn dump(meta: &MetaUrl, output: &mut dyn Write) -> Result<u64, EngineError> {
    let kv = meta.open(Access::Shared, None, &Env::system())?;
    let snapshot = kv.snapshot().map_err(MetaError::from)?;
    let mut hasher = blake3::Hasher::new();
    let mut write = |line: &str| {
        hasher.update(line.as_bytes());
        output
            .write_all(line.as_bytes())
            .map_err(|error| EngineError::Place(format!("the dump cannot be written: {error}")))
    };
    write(FIRST_LINE)?;
    let mut count = 0;
    for page in Pages::of(&*snapshot) {
        for (key, value) in page.map_err(MetaError::from)? {
            let name = Key::parse(&key).map_or_else(|| "unknown".into(), |key| key.to_string());
            write(&format!("{} {} # {name}\n", hex(&key), hex(&value)))?;
            count += 1;
        }
    }
    let last = format!("end {count} {}\n", hasher.finalize().to_hex());
    output
        .write_all(last.as_bytes())
        .map_err(|error| EngineError::Place(format!("the dump cannot be written: {error}")))?;
    Ok(count)
}

/// Makes `meta`, which must not exist, the volume's metadata from now on, from a dump.
///
/// # Errors
/// The dump is cut or was changed; `meta` exists; nodes know that another process continued from a copy meanwhile. Nothing is made then.
pub fn load(input: &mut dyn BufRead, meta: &MetaUrl) -> Result<CopyReport, EngineError> {
    copies::make_way(meta)?;
    let mut lines = Lines { input, hasher: blake3::Hasher::new(), record_count: 0, is_over: false };
    meta.load(&mut || lines.page())?;
    let record_count = lines.record_count;
    Ok(CopyReport { record_count, restored: copies::take_over(meta)? })
}

/// Copies the metadata to `to`, which must not exist and may be of another engine, compares both, and makes `to` the volume's metadata from
/// now on. No process may have the volume open for writing. `progress` gets the number of records copied so far.
///
/// # Errors
/// The volume is in use; `to` exists; the copy differs from what was read. Nothing is made then.
pub fn copy(from: &MetaUrl, to: &MetaUrl, progress: &mut dyn FnMut(u64)) -> Result<CopyReport, EngineError> {
    // Nothing changes until the copy is the volume's metadata.
    let kv = from.open(Access::Owner, None, &Env::system())?;
    let snapshot = kv.snapshot().map_err(MetaError::from)?;
    copies::make_way(to)?;
    let (mut pages, mut record_count) = (Pages::of(&*snapshot), 0);
    to.load(&mut || {
        let page = pages.next().transpose().map_err(|error| error.to_string())?;
        record_count += page.as_ref().map_or(0, Vec::len) as u64;
        progress(record_count);
        Ok(page.map(|pairs| pairs.into_iter().map(|(key, value)| (key, Some(value))).collect()))
    })?;
    if !is_same(&*kv, to)? {
        // It is no volume's metadata.
        let _ = to.remove();
        return Err(EngineError::Place(format!(
            "{to} does not hold what was written to it; see to its disk or server"
        )));
    }
    drop(snapshot);
    Ok(CopyReport { record_count, restored: copies::take_over(to)? })
}

fn is_same(kv: &dyn Kv, to: &MetaUrl) -> Result<bool, EngineError> {
    let copy = to.open(Access::Shared, None, &Env::system())?;
    let (before, after) = (kv.snapshot().map_err(MetaError::from)?, copy.snapshot().map_err(MetaError::from)?);
    let (mut before, mut after) = (records(&*before), records(&*after));
    loop {
        let record = before.next().transpose()?;
        if record != after.next().transpose()? {
            return Ok(false);
        }
        if record.is_none() {
            return Ok(true);
        }
    }
}

/// All of them, but the mark of a copy.
fn records(snapshot: &dyn Snapshot) -> impl Iterator<Item = Result<Pair, MetaError>> {
    let pages = Pages::of(snapshot).flat_map(|page| match page {
        Ok(pairs) => pairs.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(MetaError::from(error))],
    });
    pages.filter(|record| !record.as_ref().is_ok_and(is_mark))
}

/// A dump that is being read.
struct Lines<'i> {
    input: &'i mut dyn BufRead,
    hasher: blake3::Hasher,
    record_count: u64,
    is_over: bool,
}

impl Lines<'_> {
    fn page(&mut self) -> Result<Option<Vec<Slot>>, String> {
        if self.is_over {
            return Ok(None);
        }
        if self.record_count == 0 {
            let first = self.line()?;
            if first != FIRST_LINE {
                return Err(match first.strip_prefix("weft metadata ") {
                    Some(version) => {
                        format!("the dump has format {}; load it with the weft that made it", version.trim_end())
                    }
                    None => "it is no dump of `weft meta dump`; name one".into(),
                });
            }
        }
        let mut slots = Vec::new();
        while slots.len() < PAGE {
            let digest = self.hasher.finalize().to_hex();
            let line = self.line()?;
            let damaged =
                || format!("record {} of the dump is damaged; dump the metadata again", self.record_count + 1);
            if line == format!("end {} {digest}\n", self.record_count) {
                self.is_over = true;
                return Ok(Some(slots));
            }
            let (record, _) = line.split_once(" # ").ok_or_else(damaged)?;
            let (key, value) = record.split_once(' ').ok_or_else(damaged)?;
            slots.push((unhex(key).ok_or_else(damaged)?, Some(unhex(value).ok_or_else(damaged)?)));
            self.record_count += 1;
        }
        Ok(Some(slots))
    }

    fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let mut input = std::io::Read::take(&mut *self.input, LINE_BYTES_MAX);
        input.read_line(&mut line).map_err(|error| format!("the dump cannot be read: {error}"))?;
        if !line.ends_with('\n') {
            return Err("the dump is cut; dump the metadata again".into());
        }
        self.hasher.update(line.as_bytes());
        Ok(line)
    }
}

fn hex(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "-".into();
    }
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    if text == "-" {
        return Some(Vec::new());
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let byte = |pair: &[u8]| u8::try_from(digit(&pair[0])? << 4 | digit(pair.get(1)?)?).ok();
    text.as_bytes().chunks(2).map(byte).collect()
}

/// A dump that ends after these lines; with the right last line where the first byte is odd.
#[cfg(feature = "fuzzing")]
pub(crate) fn check(bytes: &[u8]) {
    let Some((flags, text)) = bytes.split_first() else { return };
    let mut text = text.to_vec();
    if flags % 2 == 1 {
        let count = text.iter().filter(|byte| **byte == b'\n').count().saturating_sub(1);
        let digest = blake3::hash(&text).to_hex();
        text.extend_from_slice(format!("end {count} {digest}\n").as_bytes());
    }
    let mut input = &text[..];
    let mut lines = Lines { input: &mut input, hasher: blake3::Hasher::new(), record_count: 0, is_over: false };
    let (mut record_count, mut page) = (0, lines.page());
    while let Ok(Some(slots)) = page {
        for (key, value) in &slots {
            assert_eq!(unhex(&hex(key)).as_ref(), Some(key));
            assert!(value.as_ref().is_some_and(|value| unhex(&hex(value)).as_ref() == Some(value)));
        }
        record_count += slots.len() as u64;
        page = lines.page();
    }
    assert!(page.is_err() || lines.is_over && record_count == lines.record_count, "a dump ends with its last line");
}

/// Two records, and none.
#[cfg(feature = "fuzzing")]
pub(crate) fn check_seeds() -> Vec<Vec<u8>> {
    let records = format!("{} {} # a name\n{} - # unknown\n", hex(b"\x01key"), hex(b"value"), hex(&[255; 9]));
    vec![format!("\x01{FIRST_LINE}{records}").into_bytes(), format!("\x01{FIRST_LINE}").into_bytes()]
}

#[cfg(test)]
#[path = "dump_tests.rs"]
mod tests;
