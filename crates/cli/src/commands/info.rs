//! `weft info META /PATH`: where a file's bytes are, and what they can lose.

use crate::arguments::{Meta, Output};
use crate::care::{self, count};
use crate::render;
use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use weft_engine::Keeper;
use weft_engine::MetaUrl;
use weft_engine::files::volume_path;
use weft_engine::reports::{ExtentReport, FileReport, SegmentReport, ShardReport};
use weft_gateways::fuse::mounts;

/// A mount that syncs longer than this is not waited for.
const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

/// Show where a file's shards are, which losses it survives, and what a repair would read
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft info meta.db /photos/cat.jpg")]
pub struct Arguments {
    #[command(flatten)]
    meta: Meta,
    /// Path in the volume
    #[arg(value_name = "/PATH")]
    path: PathBuf,
    #[command(flatten)]
    output: Output,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = volume_path(&arguments.path)?;
    let synced = sync_mounted(&arguments.meta, &path)?;
    let keeper = Keeper::open(&arguments.meta, &weft_engine::Env::system())?;
    // The nodes are asked while the mount syncs.
    let roster = keeper.look()?;
    synced.wait();
    let info = keeper.file_report(&roster, &path)?;
    let info = info.with_context(|| format!("{}: no such file or directory", path.display()))?;
    if arguments.output.json {
        println!("{}", serde_json::to_string_pretty(&info)?);
    } else {
        print!("{}", text(&info));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the volume is mounted here, makes the file durable first, since only that can be seen from beside the mount. A mount
/// that does not answer in time, or lets this user not in, is left alone.
fn sync_mounted(meta: &MetaUrl, path: &Path) -> Result<Syncing> {
    let began = Instant::now();
    let Some(mount) = mounts::of_volume(meta)?.into_iter().find(|mount| !mount.is_dead()) else {
        return Ok(Syncing { began, ended: None });
    };
    let file = mount.mountpoint.join(path.strip_prefix("/").unwrap_or(path));
    let (done, ended) = channel();
    std::thread::spawn(move || {
        // Links and pipes have nothing to be synced, and opening one would go elsewhere or wait.
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let synced = rustix::fs::open(&file, flags, Mode::empty()).and_then(rustix::fs::fsync);
        // Whoever waited may have given up.
        let _ = done.send(synced);
    });
    Ok(Syncing { began, ended: Some(ended) })
}

/// A mount that is asked to make a file durable.
struct Syncing {
    began: Instant,
    ended: Option<Receiver<rustix::io::Result<()>>>,
}

impl Syncing {
    /// Waits for it, but no longer than [`SYNC_TIMEOUT`] from the beginning on.
    fn wait(self) {
        let Some(ended) = self.ended else { return };
        match ended.recv_timeout(SYNC_TIMEOUT.saturating_sub(self.began.elapsed())) {
            Ok(Ok(())) => {}
            failed => tracing::debug!(?failed, "the last writes may not be seen"),
        }
    }
}

fn text(info: &FileReport) -> String {
    let mut text = format!("{}: {} {}, inode {}\n", render::line(&info.path), info.kind, info.mode, info.ino);
    let (size, stored) = (render::bytes(info.size), render::bytes(info.allocated_bytes));
    text += &format!(
        "size {size}, {stored} in segments, owner {}:{}, {}",
        info.uid,
        info.gid,
        count(u64::from(info.nlink), "link")
    );
    text += &format!(", policy {}\n", info.policy);
    if info.segments.is_empty() {
        text += match info.kind.as_str() {
            "file" => "it has no data in segments: it is empty, a hole, or was just written\n",
            _ => "",
        };
        return text;
    }
    text += &match info.survives_losses {
        Some(losses) => {
            let units = of_units(losses, info.survives_unit_losses);
            format!("survives the loss of any {}{units}\n", count(losses as u64, "more shard"))
        }
        None => "CANNOT be read completely now\n".to_owned(),
    };
    let mut runs: BTreeMap<&str, Vec<&ExtentReport>> = BTreeMap::new();
    for run in &info.extents {
        runs.entry(&run.segment).or_default().push(run);
    }
    for segment in &info.segments {
        text += &segment_text(segment, runs.get(segment.segment.as_str()).map_or(&[], Vec::as_slice));
    }
    text
}

/// Said where units hold several shards.
fn of_units(shards: usize, units: Option<usize>) -> String {
    let units = units.filter(|units| *units != shards);
    units.map_or(String::new(), |units| format!(", or of any {}", count(units as u64, "failure unit")))
}

fn segment_text(segment: &SegmentReport, runs: &[&ExtentReport]) -> String {
    const RUNS_SHOWN: usize = 8;
    let mut text = format!(
        "\nsegment {}: {}, generation {}, {} of data, {} in use, {} a shard, cells of {}\n",
        segment.segment,
        segment.code,
        segment.generation,
        render::bytes(segment.data_bytes),
        render::bytes(segment.live_bytes),
        render::bytes(segment.shard_bytes),
        render::bytes(segment.cell_bytes),
    );
    for run in runs.iter().take(RUNS_SHOWN) {
        let end = run.file_offset + run.length;
        text += &format!("  bytes {}..{end} of the file at {}\n", run.file_offset, run.segment_offset);
    }
    if runs.len() > RUNS_SHOWN {
        text += &format!("  ... and {} more runs\n", runs.len() - RUNS_SHOWN);
    }
    text += &match segment.survives_losses {
        Some(losses) => {
            let units = of_units(losses, segment.survives_unit_losses);
            format!("  survives the loss of any {}{units}", count(losses as u64, "more shard"))
        }
        None if segment.lost_bytes.is_empty() => "  CANNOT be read now".to_owned(),
        None => format!("  LOST of it: {}", care::byte_ranges(&segment.lost_bytes)),
    };
    text += &match segment.repair_reads_bytes {
        Some((least, most)) if least == most => format!("; a repair of one reads {}\n", render::bytes(least)),
        Some((least, most)) => {
            format!("; a repair of one reads {} to {}\n", render::bytes(least), render::bytes(most))
        }
        None => "\n".to_owned(),
    };
    let row = |shard: &ShardReport| {
        let place = shard.file.as_ref().map_or(String::new(), |file| file.display().to_string());
        let node = shard.node.clone().unwrap_or_else(|| "-".into());
        vec![format!("  {}", shard.index), node, shard.trouble.clone().unwrap_or_else(|| "ok".into()), place]
    };
    text += &render::table(&segment.shards.iter().map(row).collect::<Vec<_>>(), &[]);
    text
}
