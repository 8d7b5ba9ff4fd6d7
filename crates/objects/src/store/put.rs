//! Storing an object: the shards of all segments, then the record at each member that holds some.

use super::find::FIND_DEADLINE;
use super::{Code, ObjectStore};
use crate::closest::{Closest, closest};
use crate::error::ObjectError;
use crate::versions::places;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{
    Alternate, Contents, OBJECT_SEGMENTS_MAX, ObjectRecord, ObjectSegment, ObjectState, Stamp, check_object_name,
    data_segment, name_hash, record_key,
};
use weft_format::{NodeId, ShardIndex};
use weft_transfer::{Receipt, WriteRequest};

/// Data bytes of a segment: long enough that its fixed costs vanish, and short enough to be held.
pub(super) const SEGMENT_BYTES: usize = 16 << 20;

/// Segments that are stored at one time.
const SEGMENTS_AT_ONCE: usize = 2;

/// What is to be stored.
#[derive(Clone, Debug)]
pub struct PutRequest {
    /// The object's name.
    pub name: String,
    /// Spec of the code, e.g. `ldpc:cube-8-6`.
    pub code: String,
    /// May there be an object of this name?
    pub replace: bool,
}

/// An object that was stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Which version.
    pub version: Stamp,
    /// Length.
    pub bytes: u64,
    /// Shards in all.
    pub shard_count: usize,
    /// Shards that were stored at other members than the placement wanted.
    pub at_alternates: usize,
    /// Shards that were stored nowhere, and that keepers make.
    pub missing: usize,
    /// Members that took the record.
    pub record_copies: usize,
}

impl ObjectStore {
    /// Stores what `source` gives as the newest version of an object.
    ///
    /// # Errors
    /// [`ObjectError`]. Nothing of it is visible, but after [`ObjectError::NotCommitted`].
    pub async fn put(&self, request: &PutRequest, source: &mut (dyn Read + Send)) -> Result<Stored, ObjectError> {
        let PutRequest { name, code: spec, replace } = request;
        check_object_name(name)?;
        let (code, hash) = (Code::parse(spec)?, name_hash(name));
        let records = code.records();
        let (found, findings) = self.look(name, code.n, (!replace).then_some(records)).await?;
        if let Some(newest) = found.first().filter(|_| !replace) {
            let is_removed = self.record(name, newest).await?.contents().is_none();
            if !is_removed {
                return Err(ObjectError::Exists { name: name.clone(), version: newest.stamp.to_string() });
            }
        }
        if found.is_empty() && !replace && self.may_hide(hash, &findings, records) {
            let (name, silent, why) = (name.clone(), findings.silent.len(), findings.why_silent());
            return Err(ObjectError::MayExist { name, silent, why });
        }
        drop(findings);
        let places = closest(&self.view, hash, code.n);
        if places.nodes.len() < code.least() {
            let (name, needed, there) = (name.clone(), code.least(), places.nodes.len());
            let code = code.spec;
            return Err(ObjectError::TooFewMembers { name, code, needed, there });
        }
        let newest = found.first().map(|version| version.stamp);
        let stamp = self.version_after(newest);
        let written = Writing { store: self, name, hash, stamp, code: &code, places: &places }.run(source).await?;
        let record = ObjectRecord {
            name: name.clone(),
            stamp,
            width: code.n as u16,
            state: ObjectState::Stored(Contents {
                code: code.spec.clone(),
                bytes: written.bytes,
                digest: written.digest,
                segments: written.segments,
                alternates: written.alternates,
            }),
        };
        let holders: BTreeSet<NodeId> = written
            .held
            .iter()
            .flatten()
            .copied()
            .chain(match written.held.is_empty() {
                true => places.nodes.clone(),
                false => Vec::new(),
            })
            .collect();
        let (accepted, why) = self.put_record(&record, hash, holders).await;
        let kept = match has_planted(Planted::MembersCounted) {
            true => accepted.len(),
            false => self.kept_at(&accepted, hash, &record, records).await.unwrap_or(accepted.len()),
        };
        let is_told_early = has_planted(Planted::PutToldEarly) && !accepted.is_empty();
        if kept < records && !is_told_early {
            let (name, version) = (name.clone(), stamp.to_string());
            let was_taken = accepted.len() >= records;
            let why = if was_taken { "others have lost what they stored, or do not say".into() } else { why };
            return Err(ObjectError::NotCommitted { name, version, kept, needed: records, why });
        }
        let contents = record.contents().map_or(&[][..], |contents| &contents.alternates);
        let missing = contents.iter().filter(|alternate| alternate.node.is_none()).count();
        Ok(Stored {
            version: stamp,
            bytes: written.bytes,
            shard_count: written.held.len() * code.n,
            at_alternates: contents.len() - missing,
            missing,
            record_copies: accepted.len(),
        })
    }

    /// How many shards of each segment are known to stay: it ends when enough are. `None`: there are no segments.
    ///
    /// A member that has a version's record keeps its shards, if it has them still. It is asked after it took the record: meanwhile its disk
    /// may have been replaced, and of what others had they may have given up more than such a loss leaves.
    async fn kept_at(
        &self,
        members: &BTreeSet<NodeId>,
        hash: u64,
        record: &ObjectRecord,
        enough: usize,
    ) -> Option<usize> {
        let count = record.contents().map_or(0, |contents| contents.segments.len());
        let mut findings = self.find_at(hash, members.iter().copied().collect(), FIND_DEADLINE).await;
        for round in 0.. {
            let found = |number: u32| places(hash, record.stamp, number, &findings).len();
            let kept = (0..count as u32).map(found).min()?;
            if kept >= enough || !self.find_late(hash, round, &mut findings).await {
                return Some(kept);
            }
        }
        None
    }

    /// Stores a record at members; those that took it, and why another did not.
    pub(crate) async fn put_record(
        &self,
        record: &ObjectRecord,
        hash: u64,
        nodes: BTreeSet<NodeId>,
    ) -> (BTreeSet<NodeId>, String) {
        let key = record_key(hash, record.stamp);
        let sealed = match record.seal(self.volume, key) {
            Ok(sealed) => sealed,
            Err(error) => return (BTreeSet::new(), error.to_string()),
        };
        let put = |node: NodeId| {
            let sealed = sealed.clone();
            async move { (node, self.transfer.put_at(node, key, sealed).await) }
        };
        let mut puts: FuturesUnordered<_> = nodes.into_iter().map(put).collect();
        let (mut accepted, mut why) = (BTreeSet::new(), "none of the others was asked".to_owned());
        while let Some((node, outcome)) = puts.next().await {
            match outcome {
                Ok(()) => drop(accepted.insert(node)),
                Err(error) => why = error.to_string(),
            }
        }
        (accepted, why)
    }
}

/// A put under way.
struct Writing<'a> {
    store: &'a ObjectStore,
    name: &'a str,
    hash: u64,
    stamp: Stamp,
    code: &'a Code,
    places: &'a Closest,
}

/// What was stored.
#[derive(Default)]
struct Written {
    bytes: u64,
    digest: [u8; 32],
    segments: Vec<ObjectSegment>,
    /// Of each segment the members that hold its shards.
    held: Vec<Vec<NodeId>>,
    alternates: Vec<Alternate>,
}

impl Writing<'_> {
    async fn run(&self, source: &mut (dyn Read + Send)) -> Result<Written, ObjectError> {
        let mut digest = blake3::Hasher::new();
        let mut done: BTreeMap<u32, ([u8; 32], Receipt)> = BTreeMap::new();
        let mut under_way = FuturesUnordered::new();
        let mut bytes = 0;
        for number in 0.. {
            let data = next_segment(source, self.store.segment_bytes).map_err(ObjectError::Source)?;
            if data.is_empty() {
                break;
            }
            if number >= OBJECT_SEGMENTS_MAX {
                return Err(ObjectError::TooLong { name: self.name.to_owned() });
            }
            bytes += data.len() as u64;
            digest.update(&data);
            under_way.push(self.segment(number, data));
            while under_way.len() >= SEGMENTS_AT_ONCE {
                if let Some(stored) = under_way.next().await {
                    let (number, digest, receipt) = stored?;
                    done.insert(number, (digest, receipt));
                }
            }
        }
        while let Some(stored) = under_way.next().await {
            let (number, digest, receipt) = stored?;
            done.insert(number, (digest, receipt));
        }
        let mut written = Written { bytes, digest: *digest.finalize().as_bytes(), ..Written::default() };
        for (number, (digest, receipt)) in done {
            let wanted = self.places.places(number, self.code.n);
            let shards = receipt.record.shards.iter().map(|location| location.as_ref().map(|location| location.node));
            for (index, (node, wanted)) in shards.zip(wanted).enumerate() {
                if node != wanted || node.is_none() {
                    written.alternates.push(Alternate { segment: number, index: ShardIndex(index as u16), node });
                }
            }
            written.held.push(receipt.record.nodes().collect());
            written.segments.push(ObjectSegment { geometry: receipt.record.geometry, digest, shards: receipt.digests });
        }
        Ok(written)
    }

    async fn segment(&self, number: u32, data: Bytes) -> Result<(u32, [u8; 32], Receipt), ObjectError> {
        let digest = *blake3::hash(&data).as_bytes();
        let request = WriteRequest {
            segment: data_segment(self.hash, self.stamp, number),
            code: self.code.spec.clone(),
            write_margin: Some(1),
            cell_bytes: None,
            data: vec![data],
        };
        let nodes = self.places.places(number, self.code.n);
        let receipt = self.store.transfer.write_at(request, nodes, self.places.alternates.clone()).await;
        let receipt =
            receipt.map_err(|error| ObjectError::Write { name: self.name.to_owned(), error: Box::new(error) })?;
        Ok((number, digest, receipt))
    }
}

/// The next bytes, as many as a segment has or as there are.
fn next_segment(source: &mut (dyn Read + Send), segment_bytes: usize) -> io::Result<Bytes> {
    let mut data = Vec::new();
    source.take(segment_bytes as u64).read_to_end(&mut data)?;
    Ok(data.into())
}
