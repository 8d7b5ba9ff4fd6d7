//! `weft info META /PATH`: where a file's bytes are, and what they can lose.

use crate::care::{self, count};
use crate::render;
use crate::tree;
use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use weft_care::state::{State, state};
use weft_care::{Margins, Roster, Standing, noted_standings};
use weft_engine::Keeper;
use weft_format::records::{Attributes, Kind, SegmentRecord};
use weft_format::{Ino, SegmentId, ShardIndex};
use weft_gateways::fuse::mounts;
use weft_meta::{Extent, MetaError, Store};
use weft_nodes::NodeUrl;
use weft_vfs::policy_text;

/// A mount that syncs longer than this is not waited for.
const SYNC_PATIENCE: Duration = Duration::from_secs(5);

/// Where the bytes of a file are, what they can still lose, and what a repair would read
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Metadata file of the volume
    meta: PathBuf,
    /// Path in the volume
    #[arg(value_name = "/PATH")]
    path: PathBuf,
    /// For programs
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Info {
    path: String,
    ino: u64,
    kind: String,
    mode: String,
    uid: u32,
    gid: u32,
    nlink: u32,
    size: u64,
    allocated_bytes: u64,
    policy: String,
    /// Further losses of shards that every segment of the file survives; missing where it has none, or one cannot be read.
    survives_losses: Option<usize>,
    extents: Vec<Run>,
    segments: Vec<Segment>,
}

#[derive(Serialize)]
struct Run {
    file_offset: u64,
    length: u64,
    segment: String,
    segment_offset: u64,
}

#[derive(Serialize)]
struct Segment {
    segment: String,
    code: String,
    generation: u32,
    data_bytes: u64,
    live_bytes: u64,
    shard_bytes: u64,
    /// Bytes of a shard in a full stripe.
    cell_bytes: u64,
    /// Missing where it cannot be read now.
    survives_losses: Option<usize>,
    /// Data bytes of it that no shards give any more.
    lost_bytes: Vec<Range<u64>>,
    /// Bytes that a repair of one shard reads: the cheapest shard, the dearest. Missing where none can be rebuilt.
    repair_reads_bytes: Option<(u64, u64)>,
    shards: Vec<Shard>,
}

#[derive(Serialize)]
struct Shard {
    index: u16,
    node: Option<String>,
    /// The shard's file, where it is one of this machine.
    file: Option<PathBuf>,
    /// Missing for a shard that is as it should be, as far as the record and its node tell.
    trouble: Option<String>,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let path = tree::volume_path(&arguments.path)?;
    let synced = sync_mounted(&arguments.meta, &path)?;
    let keeper = Keeper::open(&arguments.meta)?;
    let store = &*keeper.store;
    // The nodes are asked while the mount syncs.
    let roster = keeper.runtime.block_on(Roster::look(&*keeper.catalogue, &keeper.transfer))?;
    synced.wait();
    let attributes = find(store, &path)?;
    let extents = match attributes.kind {
        Kind::File => store.extents(attributes.ino, 0..u64::MAX)?,
        _ => Vec::new(),
    };
    let segments = segments(store, &roster, &extents)?;
    let survives: Option<Vec<usize>> = segments.iter().map(|segment| segment.survives_losses).collect();
    let info = Info {
        path: path.display().to_string(),
        ino: attributes.ino.0,
        kind: format!("{:?}", attributes.kind).to_lowercase(),
        mode: format!("{:04o}", attributes.mode),
        uid: attributes.uid,
        gid: attributes.gid,
        nlink: attributes.nlink,
        size: attributes.size,
        allocated_bytes: attributes.allocated_bytes,
        policy: policy_text(&store.policy(attributes.policy)?),
        survives_losses: survives.and_then(|margins| margins.into_iter().min()),
        extents: extents.iter().map(run_of).collect(),
        segments,
    };
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&info)?);
    } else {
        print!("{}", text(&info));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the volume is mounted here, makes the file durable first, since only that can be seen from beside the mount. A mount
/// that does not answer in time, or lets this user not in, is left alone.
fn sync_mounted(meta: &Path, path: &Path) -> Result<Syncing> {
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
    /// Waits for it, but no longer than [`SYNC_PATIENCE`] from the beginning on.
    fn wait(self) {
        let Some(ended) = self.ended else { return };
        match ended.recv_timeout(SYNC_PATIENCE.saturating_sub(self.began.elapsed())) {
            Ok(Ok(())) => {}
            failed => tracing::debug!(?failed, "what was just written may not be seen"),
        }
    }
}

fn find(store: &Store, path: &Path) -> Result<Attributes> {
    let not_there = || format!("{}: no such file or directory", path.display());
    let mut attributes = store.attributes(Ino::ROOT)?;
    for name in path.iter().skip(1) {
        attributes = match store.lookup(attributes.ino, name.as_bytes()) {
            Err(MetaError::NotFound) => return Err(anyhow::anyhow!(not_there())),
            found => found.with_context(not_there)?,
        };
    }
    Ok(attributes)
}

fn run_of(extent: &Extent) -> Run {
    Run {
        file_offset: extent.file_offset,
        length: extent.length,
        segment: extent.segment.to_string(),
        segment_offset: extent.segment_offset,
    }
}

/// The segments that the extents lie in, each once, in the order of the file.
fn segments(store: &Store, roster: &Roster, extents: &[Extent]) -> Result<Vec<Segment>> {
    let mut margins = Margins::default();
    let mut seen = BTreeSet::new();
    let mut segments = Vec::new();
    for id in extents.iter().map(|extent| extent.segment).filter(|id| seen.insert(*id)) {
        let record = store.segment(id)?.with_context(|| {
            format!("segment {id} does not exist although the file is partly in it: run `weft fsck`")
        })?;
        segments.push(segment(store, roster, &mut margins, id, &record)?);
    }
    Ok(segments)
}

fn segment(
    store: &Store,
    roster: &Roster,
    margins: &mut Margins,
    id: SegmentId,
    record: &SegmentRecord,
) -> Result<Segment> {
    let verdicts = noted_standings(id, record, roster, &store.damage(id)?.unwrap_or_default());
    let state = state(record, &verdicts, margins);
    let there: Vec<bool> = verdicts.iter().map(Standing::is_there).collect();
    let mut reads = Vec::new();
    for index in 0..there.len() {
        let others: Vec<bool> = (0..there.len()).map(|other| other != index && there[other]).collect();
        reads.extend(margins.repair_bytes(record, &others, &[index]));
    }
    let shard = |(index, verdict): (usize, &Standing)| Shard {
        index: index as u16,
        node: record.shards[index].as_ref().map(|location| roster.name(location.node)),
        file: file(roster, id, record, ShardIndex(index as u16)),
        trouble: verdict.complaint(),
    };
    Ok(Segment {
        segment: id.to_string(),
        code: record.code.clone(),
        generation: record.generation.0,
        data_bytes: record.geometry.data_bytes,
        live_bytes: store.live_bytes(id)?,
        shard_bytes: record.shard_bytes(),
        cell_bytes: u64::from(record.geometry.symbol_bytes) * u64::from(record.geometry.alpha),
        survives_losses: state.survives().map(|survives| survives.shards),
        lost_bytes: match state {
            State::Lost { data, .. } => data,
            State::Readable(_) | State::OutOfReach => Vec::new(),
        },
        repair_reads_bytes: reads.iter().min().copied().zip(reads.iter().max().copied()),
        shards: verdicts.iter().enumerate().map(shard).collect(),
    })
}

/// Where a folder node keeps a shard, as `nodes/src/folder.rs` lays it out; only if it is there.
fn file(roster: &Roster, segment: SegmentId, record: &SegmentRecord, index: ShardIndex) -> Option<PathBuf> {
    let key = record.shard_key(segment, index)?;
    let node = record.shards.get(index.as_usize())?.as_ref()?.node;
    let NodeUrl::Folder(folder) = roster.nodes.get(&node)?.record.url.parse().ok()? else { return None };
    let path = folder.join(format!("{:02x}", segment.0 as u8)).join(key.to_string());
    path.is_file().then_some(path)
}

fn text(info: &Info) -> String {
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
            "file" => "nothing of it is in segments: it is empty, a hole, or was written a moment ago\n",
            _ => "",
        };
        return text;
    }
    text += &match info.survives_losses {
        Some(losses) => format!("survives the loss of any {}\n", count(losses as u64, "more shard")),
        None => "CANNOT be read whole now\n".to_owned(),
    };
    let mut runs: BTreeMap<&str, Vec<&Run>> = BTreeMap::new();
    for run in &info.extents {
        runs.entry(&run.segment).or_default().push(run);
    }
    for segment in &info.segments {
        text += &segment_text(segment, runs.get(segment.segment.as_str()).map_or(&[], Vec::as_slice));
    }
    text
}

fn segment_text(segment: &Segment, runs: &[&Run]) -> String {
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
        Some(losses) => format!("  survives the loss of any {}", count(losses as u64, "more shard")),
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
    let row = |shard: &Shard| {
        let place = shard.file.as_ref().map_or(String::new(), |file| file.display().to_string());
        let node = shard.node.clone().unwrap_or_else(|| "-".into());
        vec![format!("  {}", shard.index), node, shard.trouble.clone().unwrap_or_else(|| "ok".into()), place]
    };
    text += &render::table(&segment.shards.iter().map(row).collect::<Vec<_>>(), &[]);
    text
}
