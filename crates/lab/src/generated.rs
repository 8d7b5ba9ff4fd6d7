//! Volumes of many records, made through metadata alone: a mount would take hours for what this makes in minutes.
//!
//! A volume is a tree of two levels: directories, and in each the same number of files. Each file has no data, or a segment that only
//! metadata knows, or a segment whose shards are on the nodes.

use std::path::Path;
use std::sync::Arc;
use weft_codes::Shape;
use weft_env::{Env, TaskSet};
use weft_format::geometry::{CELL_BYTES_TARGET, Geometry};
use weft_format::records::{Kind, SegmentRecord, ShardLocation, Timestamp};
use weft_format::shard::Digest;
use weft_format::{Generation, Ino, NodeId, SegmentId};
use weft_meta::{Access, Extent, FileCommit, MetaError, MetaUrl, NewInode, Store};
use weft_nodes::{FolderNode, NodeIdentity};
use weft_transfer::{Fleet, Settings, Transfer, WriteRequest};

/// What the files of a tree have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data {
    /// Nothing.
    None,
    /// A full segment of 8 MiB each, of which no node has a shard.
    Records,
    /// A segment of a KiB each, with its shards on the nodes.
    Shards,
}

/// A tree to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Directories below the root.
    pub directories: usize,
    /// In each of them.
    pub files: usize,
    /// Of each file.
    pub data: Data,
}

/// The code of all segments.
pub const CODE: &str = "rs:4+2";
/// Nodes of a volume of that code.
pub const NODES: usize = 6;

const RECORD_BYTES: u64 = 8 << 20;
const SHARDS_BYTES: usize = 1 << 10;

/// Files whose data is committed together.
const TOGETHER: usize = 64;

/// Inodes between two flushes: it bounds what the engine holds in memory.
const FLUSH_EVERY: usize = 50_000;

/// A sentence of any error.
fn sentence(error: impl std::fmt::Display) -> String {
    format!("a volume cannot be made: {error}")
}

impl Tree {
    /// The path of a directory in the volume.
    #[must_use]
    pub fn directory(&self, number: usize) -> String {
        format!("d{number}")
    }

    /// The path of a file in the volume, of all files of the tree.
    #[must_use]
    pub fn file(&self, number: usize) -> String {
        format!("{}/{}", self.directory(number / self.files), file_name(number % self.files))
    }

    /// All files.
    #[must_use]
    pub fn file_count(&self) -> usize {
        self.directories * self.files
    }

    /// Makes the tree in the empty volume with the metadata at `meta`, whose nodes are folders.
    ///
    /// # Errors
    /// A sentence, where metadata or a node cannot be written.
    pub fn make(&self, meta: &Path) -> Result<(), String> {
        let env = Env::system();
        let url = MetaUrl::parse(meta.as_os_str()).map_err(sentence)?;
        let kv = url.open(Access::Owner, None, &env).map_err(sentence)?;
        let store = Store::open(kv, &env).map_err(sentence)?;
        let segments = Segments::new(&store, self.data)?;
        let mut made = 0;
        for directory in 0..self.directories {
            let parent = create(&store, Ino::ROOT, &self.directory(directory), Kind::Directory)?;
            let mut waiting = Vec::new();
            for file in 0..self.files {
                let ino = create(&store, parent, &file_name(file), Kind::File)?;
                made += 1;
                if self.data != Data::None {
                    waiting.push((ino, made as u32));
                }
                if waiting.len() == TOGETHER {
                    segments.add(&store, std::mem::take(&mut waiting))?;
                }
                if made % FLUSH_EVERY == 0 {
                    store.flush().map_err(sentence)?;
                }
            }
            segments.add(&store, waiting)?;
        }
        store.flush().and_then(|()| store.close()).map_err(sentence)
    }
}

fn file_name(number: usize) -> String {
    format!("f{number}")
}

fn create(store: &Store, parent: Ino, name: &str, kind: Kind) -> Result<Ino, String> {
    let mode = if kind == Kind::Directory { 0o755 } else { 0o644 };
    let new = NewInode { kind, mode, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    let created: Result<_, MetaError> = store.create(parent, name.as_bytes(), &new, now(store));
    created.map(|attributes| attributes.ino).map_err(sentence)
}

fn now(store: &Store) -> Timestamp {
    let now_ms = store.env().clock.unix_ms();
    Timestamp { seconds: (now_ms / 1000) as i64, nanoseconds: (now_ms % 1000) as u32 * 1_000_000 }
}

/// Segments for files.
enum Segments {
    None,
    /// The nodes that records name.
    Records(Shape, Vec<NodeId>),
    Shards(Transfer, tokio::runtime::Runtime),
}

impl Segments {
    fn new(store: &Store, data: Data) -> Result<Segments, String> {
        let nodes = store.nodes().map_err(sentence)?;
        match data {
            Data::None => Ok(Segments::None),
            Data::Records => {
                let code = weft_codes::parse(CODE).map_err(sentence)?;
                Ok(Segments::Records(code.shape().clone(), nodes.into_iter().map(|(id, _)| id).collect()))
            }
            Data::Shards => {
                let volume = store.volume().volume;
                let mut members: Vec<(NodeId, _, Arc<dyn weft_nodes::Node>)> = Vec::new();
                for (id, record) in nodes {
                    let path = record.url.strip_prefix("file://").ok_or("a node of the volume is no folder")?;
                    let identity = NodeIdentity { volume, node: id };
                    let node = FolderNode::open(Path::new(path), &record.name, identity);
                    members.push((id, record, Arc::new(node)));
                }
                let rule = store.placement_rule().map_err(sentence)?;
                let fleet = Arc::new(Fleet::new(members, rule, store.env()));
                let runtime = tokio::runtime::Runtime::new().map_err(sentence)?;
                Ok(Segments::Shards(Transfer::new(volume, fleet, Settings::default(), runtime.handle()), runtime))
            }
        }
    }

    /// Gives each file a segment of this count of the volume.
    fn add(&self, store: &Store, files: Vec<(Ino, u32)>) -> Result<(), String> {
        if files.is_empty() {
            return Ok(());
        }
        let now_ms = store.env().clock.unix_ms();
        // No mount has had opening 0.
        let segment = |count: u32| SegmentId::of_opening(now_ms, 0, count, count as u16);
        let records: Vec<(SegmentId, SegmentRecord)> = match self {
            Segments::None => return Ok(()),
            Segments::Records(shape, nodes) => {
                let record = |count: u32| Ok((segment(count), record(shape, nodes, count as usize)?));
                files.iter().map(|(_, count)| record(*count)).collect::<Result<_, String>>()?
            }
            Segments::Shards(transfer, runtime) => {
                let mut writes = TaskSet::new(transfer.runtime());
                for (_, count) in &files {
                    let (transfer, segment, data) = (transfer.clone(), segment(*count), *count as u8);
                    let data = vec![bytes::Bytes::from(vec![data; SHARDS_BYTES])];
                    let request =
                        WriteRequest { segment, code: CODE.into(), write_margin: None, cell_bytes: None, data };
                    writes.spawn(async move { (segment, transfer.write(request).await) });
                }
                let mut written = runtime.block_on(writes.join_all());
                written.sort_by_key(|(segment, _)| *segment);
                let record = |(segment, written): (SegmentId, Result<weft_transfer::Receipt, _>)| {
                    written.map(|receipt| (segment, receipt.record)).map_err(sentence)
                };
                written.into_iter().map(record).collect::<Result<_, String>>()?
            }
        };
        let commit = |((ino, _), (segment, record)): (&(Ino, u32), &(SegmentId, SegmentRecord))| {
            let (length, now) = (record.geometry.data_bytes, now(store));
            FileCommit {
                ino: *ino,
                extents: vec![Extent { file_offset: 0, length, segment: *segment, segment_offset: 0 }],
                size: length,
                mtime: now,
                ctime: now,
                mode: None,
                journal: Vec::new(),
                journal_under: Vec::new(),
                known_mtime: None,
            }
        };
        let commits: Vec<FileCommit> = files.iter().zip(&records).map(commit).collect();
        store.commit_files(&records, &commits, now(store)).map_err(sentence)
    }
}

/// A segment whose shards lie on the nodes in turn. No node has any.
fn record(shape: &Shape, nodes: &[NodeId], first: usize) -> Result<SegmentRecord, String> {
    let numbers = (shape.native_count as u32, shape.alpha as u32, shape.symbol_alignment_bytes as u32);
    let geometry = Geometry::new(RECORD_BYTES, numbers.0, numbers.1, numbers.2, CELL_BYTES_TARGET).map_err(sentence)?;
    let location = |shard: usize| {
        let node = nodes.get((first + shard) % nodes.len().max(1)).copied();
        node.map(|node| ShardLocation {
            node,
            generation: Generation::FIRST,
            digest: Digest([shard as u8; 32]),
            origin: None,
        })
    };
    let shards = (0..shape.n).map(location).collect();
    Ok(SegmentRecord { code: CODE.to_owned(), geometry, generation: Generation::FIRST, shards })
}
