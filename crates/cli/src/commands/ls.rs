//! `weft ls META [/PATH...]`: names in a volume.

use crate::arguments::{Meta, Output};
use crate::render;
use crate::tree;
use anyhow::Result;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use weft_engine::files::{Entry, Tree, require, volume_path};
use weft_engine::words::for_programs;
use weft_format::records::Kind;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft ls meta.db
  weft ls -l meta.db /photos")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Path in the volume
    #[arg(value_name = "/PATH", default_value = "/")]
    path: PathBuf,
    /// Show modes, owners, sizes and times (UTC)
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Line {
    name: String,
    /// The name's bytes in hexadecimal digits, where it is not UTF-8 and so not the one above.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
    kind: &'static str,
    mode: String,
    uid: u32,
    gid: u32,
    size: u64,
    modified_ns: i128,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let volume = tree::open_to_read(&arguments.meta, None)?;
    let entries = list(&*volume, arguments)?;
    let mut output = std::io::stdout().lock();
    if arguments.output.json {
        let lines: Vec<Line> = entries.iter().map(|(name, entry)| line(name, entry)).collect();
        writeln!(output, "{}", serde_json::to_string_pretty(&lines)?)?;
    } else if arguments.long {
        let rows: Vec<Vec<String>> = entries.iter().map(|(name, entry)| row(name, entry)).collect();
        write!(output, "{}", render::table(&rows, &[1, 2, 3, 4]))?;
    } else {
        let is_terminal = output.is_terminal();
        for (name, _) in entries {
            output.write_all(&shown(&name, is_terminal))?;
            output.write_all(b"\n")?;
        }
    }
    drop(output);
    // What closing has to say is no reason to say nothing before.
    Ok(volume.close()?)
}

fn list(volume: &dyn Tree, arguments: &Arguments) -> Result<Vec<(OsString, Entry)>> {
    let path = volume_path(&arguments.path)?;
    let entry = require(volume, &path)?;
    match entry.kind {
        Kind::Directory => Ok(volume.list(&path)?),
        _ => Ok(vec![(path.into_os_string(), entry)]),
    }
}

/// For programs the name as it is, for people one that does not drive the terminal.
fn shown(name: &OsStr, is_terminal: bool) -> Vec<u8> {
    if is_terminal { render::line(&name.to_string_lossy()).into_bytes() } else { name.as_bytes().to_vec() }
}

fn line(name: &OsStr, entry: &Entry) -> Line {
    let (name, name_hex) = for_programs(name.as_bytes());
    Line {
        name,
        name_hex,
        kind: kind_name(entry.kind),
        mode: format!("{:04o}", entry.mode),
        uid: entry.uid,
        gid: entry.gid,
        size: entry.size,
        modified_ns: i128::from(entry.modified.seconds) * 1_000_000_000 + i128::from(entry.modified.nanoseconds),
    }
}

fn row(name: &OsStr, entry: &Entry) -> Vec<String> {
    vec![
        mode_text(entry),
        entry.nlink.to_string(),
        entry.uid.to_string(),
        entry.gid.to_string(),
        entry.size.to_string(),
        render::time(entry.modified),
        render::line(&name.to_string_lossy()),
    ]
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::File => "file",
        Kind::Directory => "directory",
        Kind::Symlink => "symlink",
        Kind::Fifo => "fifo",
        Kind::Socket => "socket",
        Kind::CharDevice => "char-device",
        Kind::BlockDevice => "block-device",
    }
}

/// As ls(1): `drwxr-xr-x`.
fn mode_text(entry: &Entry) -> String {
    let kind = match entry.kind {
        Kind::File => '-',
        Kind::Directory => 'd',
        Kind::Symlink => 'l',
        Kind::Fifo => 'p',
        Kind::Socket => 's',
        Kind::CharDevice => 'c',
        Kind::BlockDevice => 'b',
    };
    let mut text = String::from(kind);
    // Of user, group and others: the bit that changes the execute letter, and that letter.
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = entry.mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, entry.mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
#[path = "ls_tests.rs"]
mod tests;
