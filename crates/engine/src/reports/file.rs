//! The place of a file's bytes, and the losses that they survive.

use crate::error::EngineError;
use crate::keeper::Keeper;
use serde::Serialize;
use std::collections::BTreeSet;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use weft_care::state::{State, state};
use weft_care::{Margins, Roster, Standing, noted_standings};
use weft_format::records::{Attributes, Kind, SegmentRecord};
use weft_format::{Ino, SegmentId, ShardIndex};
use weft_meta::{Extent, MetaError, Store};
use weft_vfs::policy_text;

/// A file, directory or other inode, and the segments that it lies in.
#[derive(Clone, Debug, Serialize)]
pub struct FileReport {
    /// In the volume.
    pub path: String,
    /// The path's bytes in hexadecimal digits, where it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_hex: Option<String>,
    /// Its number.
    pub ino: u64,
    /// `file`, `directory`, `symlink` and so on.
    pub kind: String,
    /// Four octal digits.
    pub mode: String,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Names that it has.
    pub nlink: u32,
    /// Bytes from its beginning to its end.
    pub size: u64,
    /// Bytes of it that are in segments.
    pub allocated_bytes: u64,
    /// The policy for its new bytes.
    pub policy: String,
    /// Further losses of shards that every segment of the file survives; missing where it has none, or one cannot be read.
    pub survives_losses: Option<usize>,
    /// The same of nodes, ...
    pub survives_node_losses: Option<usize>,
    /// ... and of failure units, each with all its nodes.
    pub survives_unit_losses: Option<usize>,
    /// Which bytes are where.
    pub extents: Vec<ExtentReport>,
    /// Each once, in the order of the file.
    pub segments: Vec<SegmentReport>,
}

/// Bytes of a file that lie together in a segment.
#[derive(Clone, Debug, Serialize)]
pub struct ExtentReport {
    /// Where in the file they begin.
    pub file_offset: u64,
    /// How many they are.
    pub length: u64,
    /// Which segment they are in, ...
    pub segment: String,
    /// ... and from where on.
    pub segment_offset: u64,
}

/// A segment, and the losses that it survives.
#[derive(Clone, Debug, Serialize)]
pub struct SegmentReport {
    /// Its id.
    pub segment: String,
    /// Its code.
    pub code: String,
    /// Counts its conversions.
    pub generation: u32,
    /// Data bytes of it.
    pub data_bytes: u64,
    /// Those of them that files refer to.
    pub live_bytes: u64,
    /// Bytes of each shard.
    pub shard_bytes: u64,
    /// Bytes of a shard in a full stripe.
    pub cell_bytes: u64,
    /// Missing where it cannot be read now.
    pub survives_losses: Option<usize>,
    /// The same of nodes, ...
    pub survives_node_losses: Option<usize>,
    /// ... and of failure units.
    pub survives_unit_losses: Option<usize>,
    /// Data bytes of it that no shards give any more.
    pub lost_bytes: Vec<Range<u64>>,
    /// Bytes that a repair of one shard reads: the cheapest shard, the dearest. Missing where none can be rebuilt.
    pub repair_reads_bytes: Option<(u64, u64)>,
    /// All of them, by index.
    pub shards: Vec<ShardReport>,
}

/// A shard, and how it is.
#[derive(Clone, Debug, Serialize)]
pub struct ShardReport {
    /// Its place in the code.
    pub index: u16,
    /// Its node; missing: it is not written.
    pub node: Option<String>,
    /// The failure unit of that.
    pub unit: Option<String>,
    /// The shard's file, where it is one of this machine.
    pub file: Option<PathBuf>,
    /// Missing for a shard that is as it should be, as far as the record and its node tell.
    pub trouble: Option<String>,
}

impl Keeper {
    /// The kind of `path`, the place of its bytes, and the losses that they survive with the nodes of `roster`. `None`: there is no such path.
    ///
    /// # Errors
    /// Metadata cannot be read, or is damaged.
    pub fn file_report(&self, roster: &Roster, path: &Path) -> Result<Option<FileReport>, EngineError> {
        let store = &*self.store;
        let Some(attributes) = find(store, path)? else { return Ok(None) };
        let extents = match attributes.kind {
            Kind::File => store.extents(attributes.ino, 0..u64::MAX)?,
            _ => Vec::new(),
        };
        let segments = segments(store, roster, &extents)?;
        let (shown, path_hex) = crate::words::for_programs(path.as_os_str().as_bytes());
        let least = |of: fn(&SegmentReport) -> Option<usize>| -> Option<usize> {
            let all: Option<Vec<usize>> = segments.iter().map(of).collect();
            all?.into_iter().min()
        };
        Ok(Some(FileReport {
            path: shown,
            path_hex,
            ino: attributes.ino.0,
            kind: format!("{:?}", attributes.kind).to_lowercase(),
            mode: format!("{:04o}", attributes.mode),
            uid: attributes.uid,
            gid: attributes.gid,
            nlink: attributes.nlink,
            size: attributes.size,
            allocated_bytes: attributes.allocated_bytes,
            policy: policy_text(&store.policy(attributes.policy)?),
            survives_losses: least(|segment| segment.survives_losses),
            survives_node_losses: least(|segment| segment.survives_node_losses),
            survives_unit_losses: least(|segment| segment.survives_unit_losses),
            extents: extents.iter().map(extent_report).collect(),
            segments,
        }))
    }
}

fn find(store: &Store, path: &Path) -> Result<Option<Attributes>, MetaError> {
    let mut attributes = store.attributes(Ino::ROOT)?;
    for name in path.iter().skip(1) {
        attributes = match store.lookup(attributes.ino, name.as_bytes()) {
            Err(MetaError::NotFound) => return Ok(None),
            found => found?,
        };
    }
    Ok(Some(attributes))
}

fn extent_report(extent: &Extent) -> ExtentReport {
    ExtentReport {
        file_offset: extent.file_offset,
        length: extent.length,
        segment: extent.segment.to_string(),
        segment_offset: extent.segment_offset,
    }
}

/// The segments that the extents lie in.
fn segments(store: &Store, roster: &Roster, extents: &[Extent]) -> Result<Vec<SegmentReport>, EngineError> {
    let mut margins = Margins::default();
    let mut seen = BTreeSet::new();
    let mut segments = Vec::new();
    for id in extents.iter().map(|extent| extent.segment).filter(|id| seen.insert(*id)) {
        let record = store.segment(id)?.ok_or(EngineError::NoSegment(id))?;
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
) -> Result<SegmentReport, EngineError> {
    let standings = noted_standings(id, record, roster, &store.damage(id)?.unwrap_or_default());
    let state = state(record, &standings, roster, margins);
    let there: Vec<bool> = standings.iter().map(Standing::is_there).collect();
    let mut reads = Vec::new();
    for index in 0..there.len() {
        let others: Vec<bool> = (0..there.len()).map(|other| other != index && there[other]).collect();
        reads.extend(margins.repair_bytes(record, &others, &[index], false));
    }
    let shard = |(index, standing): (usize, &Standing)| ShardReport {
        index: index as u16,
        node: record.shards[index].as_ref().map(|location| roster.name(location.node)),
        unit: record.shards[index].as_ref().and_then(|location| roster.unit(location.node)).map(str::to_owned),
        file: file(roster, id, record, ShardIndex(index as u16)),
        trouble: standing.complaint(),
    };
    Ok(SegmentReport {
        segment: id.to_string(),
        code: record.code.clone(),
        generation: record.generation.0,
        data_bytes: record.geometry.data_bytes,
        live_bytes: store.live_bytes(id)?,
        shard_bytes: record.shard_bytes(),
        cell_bytes: u64::from(record.geometry.symbol_bytes) * u64::from(record.geometry.alpha),
        survives_losses: state.survives().map(|survives| survives.shards),
        survives_node_losses: state.survives().map(|survives| survives.nodes),
        survives_unit_losses: state.survives().map(|survives| survives.units),
        lost_bytes: match state {
            State::Lost { data, .. } => data,
            State::Readable(_) | State::OutOfReach => Vec::new(),
        },
        repair_reads_bytes: reads.iter().min().copied().zip(reads.iter().max().copied()),
        shards: standings.iter().enumerate().map(shard).collect(),
    })
}

/// Where a folder node keeps a shard, as `nodes/src/folder.rs` lays it out; only if it is there.
fn file(roster: &Roster, segment: SegmentId, record: &SegmentRecord, index: ShardIndex) -> Option<PathBuf> {
    let key = record.shard_key(segment, index)?;
    let node = record.shards.get(index.as_usize())?.as_ref()?.node;
    let url = crate::kinds().parse(&roster.nodes.get(&node)?.record.url).ok()?;
    let path = url.files()?.join(format!("{:02x}", segment.0 as u8)).join(key.to_string());
    path.is_file().then_some(path)
}
