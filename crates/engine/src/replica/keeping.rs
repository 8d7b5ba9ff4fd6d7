//! One round of the replica's keeper: look at what nodes have, store what is missing, remove what is needless.

use super::chain::{self, Chain, Pieces, ReplicaSizes};
use super::note::Note;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_env::planted::{Planted, has_planted};
use weft_format::records::{NodeState, Reached, Replica, ReplicaHeader, ReplicaKind, ReplicaSlot, replica_id};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_meta::kv::{Changes, History, KvError};
use weft_meta::{MetaError, Store, is_passing, without_secrets};
use weft_transfer::{FoundReplica, Transfer, UnreadableReplica, WriteError};

/// Keys in a change set; where more have changed all is stored.
const KEYS_MAX: usize = 50_000;
/// Nodes are listed again after this: some walk through all they hold for that.
const LIST_EVERY: Duration = Duration::from_secs(12 * 3600);
/// A copy that is not found for so long, at a node that is silent or has lost it, is made elsewhere.
const GRACE: Duration = Duration::from_secs(600);

/// Why the replica is behind.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The metadata.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// Its engine.
    #[error(transparent)]
    Engine(#[from] KvError),
    /// The nodes.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Nobody to give it to.
    #[error("the volume has no node that takes it: add one with `weft node add`")]
    NoNodes,
    /// The metadata was set back to an earlier state.
    #[error("{0}")]
    SetBack(String),
    /// Something that was stored does not follow what was stored before.
    #[error("the nodes have no complete replica yet: a new one is stored")]
    Behind,
    /// A piece that cannot be copied.
    #[error("a piece of the metadata's replica cannot be read: {0}")]
    Unreadable(UnreadableReplica),
}

/// What is known of the replica.
pub(super) struct Keeping {
    store: Arc<Store>,
    transfer: Transfer,
    sizes: ReplicaSizes,
    known: BTreeMap<SegmentId, FoundReplica>,
    chain: Option<Chain>,
    listed: Option<(Instant, BTreeSet<NodeId>)>,
    /// Pieces with too few copies, and since when.
    short_since: BTreeMap<SegmentId, Instant>,
    /// Whose transactions are counted.
    lineage: u64,
    /// The opening of this process.
    opening: u32,
    /// After which transaction openings began. What an opening stored of a transaction after the next one's beginning is of a past that the
    /// store has lost.
    starts: BTreeMap<u32, u64>,
    /// How many copies each piece is to have, as of this round; 0: no node takes any.
    copies: usize,
    /// A snapshot that is not whole yet.
    under_way: Option<UnderWay>,
    /// Why its next part could not be stored.
    part_failure: Option<String>,
    /// Pieces stored so far.
    stored: Arc<AtomicU64>,
    /// What tells the next piece from others of its moment; another process may have given out the same.
    nonce: AtomicU64,
}

/// A snapshot of which each round stores a part.
struct UnderWay {
    /// The next part. Where it cannot be stored it is not read again: it could end at another key, and copies of either could be left.
    part: Replica,
    /// Where the part after it starts; `None`: it is the last.
    next: Option<Vec<u8>>,
}

impl Keeping {
    pub fn new(
        store: Arc<Store>,
        history: &dyn History,
        transfer: Transfer,
        sizes: ReplicaSizes,
    ) -> Result<Self, MetaError> {
        Ok(Self {
            transfer,
            sizes,
            known: BTreeMap::new(),
            chain: None,
            listed: None,
            short_since: BTreeMap::new(),
            lineage: history.lineage()?,
            opening: store.own_opening()?,
            starts: store.opening_starts()?,
            copies: 0,
            under_way: None,
            part_failure: None,
            stored: Arc::default(),
            nonce: AtomicU64::new(store.env().rng.next_u64()),
            store,
        })
    }

    /// Counts the pieces that are stored.
    pub fn stored(&self) -> Arc<AtomicU64> {
        self.stored.clone()
    }

    /// Is another round due at once?
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some() && self.part_failure.is_none()
    }

    /// Brings the replica up to the store's last transaction by a change set, and stores a part of a new snapshot where one is due: what waits
    /// for the changes does not wait for the snapshot. False: nodes have not everything before the snapshot under way is whole.
    pub async fn round(&mut self, history: &dyn History) -> Result<bool, ReplicaError> {
        self.copies = self.count_copies()?;
        self.look().await;
        self.look_back()?;
        let last = history.last()?;
        if self.under_way.is_none() && chain::is_snapshot_due(self.chain.as_ref(), last, self.sizes) {
            self.begin_snapshot(history, last)?;
        }
        let mut changes = self.changes(history, last)?;
        if changes.is_none() && self.under_way.is_none() {
            self.begin_snapshot(history, last)?;
            // Without those that the snapshot replaces they may be few enough.
            changes = self.changes(history, last)?;
        }
        let continues = changes.is_some();
        // What is renewed while nothing happens comes with the next change.
        if let Some((after, changes)) =
            changes.filter(|(_, changes)| !changes.slots.iter().all(|(key, _)| is_passing(key)))
        {
            self.store_changes(after, changes).await?;
            self.link();
            if self.chain.as_ref().is_none_or(|chain| chain.upto() < last) {
                return Err(ReplicaError::Behind);
            }
        }
        let stored = self.store_part(history).await;
        let is_whole = continues || self.chain.as_ref().is_some_and(|chain| chain.upto() >= last);
        match stored {
            Err(error) if !is_whole => return Err(error),
            stored => self.note_part(stored.err().map(|error| error.to_string())),
        }
        if is_whole {
            self.remove_superseded().await;
        }
        Ok(is_whole)
    }

    /// What continues the chain, and after which transaction; `None`: there is no chain, or more has changed than a change set has.
    fn changes(&self, history: &dyn History, last: u64) -> Result<Option<(u64, Changes)>, KvError> {
        let Some(chain) = &self.chain else { return Ok(None) };
        if chain.upto() >= last {
            return Ok(Some((last, Changes { upto: last, slots: Vec::new() })));
        }
        let after = chain::changes_from(chain, self.under_way.as_ref().map(|snapshot| snapshot.part.header.after));
        Ok(history.changes_after(after, KEYS_MAX)?.map(|changes| (after, changes)))
    }

    fn note_part(&mut self, failure: Option<String>) {
        if let Some(why) = failure.as_ref().filter(|why| self.part_failure.as_ref() != Some(*why)) {
            tracing::warn!("a new snapshot of the metadata's replica is not whole yet: {why}");
        }
        self.part_failure = failure;
    }

    /// Up to where nodes have everything, for people.
    pub fn note(&self, failure: Option<String>) -> Note {
        let (upto, at_ms) = self.chain.as_ref().map_or((0, 0), |chain| (chain.upto(), chain.at_ms()));
        let pieces = self.chain.iter().flat_map(Chain::pieces).filter_map(|id| self.known.get(&id));
        let nodes = pieces.flat_map(|found| &found.copies).map(|(node, _)| node.to_string()).collect();
        Note { lineage: self.lineage, upto, at_ms, failure, nodes }
    }

    /// Lists nodes, where that is due, and copies pieces again that have too few copies.
    async fn look(&mut self) {
        let clock = self.store.env().clock.clone();
        let members: BTreeSet<NodeId> = self.transfer.fleet().view().members.keys().copied().collect();
        let is_fresh =
            self.listed.as_ref().is_some_and(|(at, listed)| clock.elapsed(*at) < LIST_EVERY && *listed == members);
        let is_short = self.short_since.values().any(|since| clock.elapsed(*since) >= GRACE);
        if is_fresh && !is_short {
            return;
        }
        let headers = self.known.iter().map(|(id, found)| (*id, found.header)).collect();
        let found = self.transfer.find_replicas(&headers).await;
        for (node, why) in &found.silent {
            tracing::debug!(
                node = self.transfer.fleet().name(*node),
                why,
                "does not list its pieces of the metadata's replica"
            );
        }
        // What a silent node had it may have still.
        let mut known = found.pieces;
        for (id, before) in std::mem::take(&mut self.known) {
            let silent =
                before.copies.iter().filter(|(node, _)| found.silent.contains_key(node) && members.contains(node));
            let silent: Vec<(NodeId, ShardKey)> = silent.copied().collect();
            if !silent.is_empty() {
                let piece =
                    known.entry(id).or_insert_with(|| FoundReplica { header: before.header, copies: Vec::new() });
                piece.copies.extend(silent);
            }
        }
        self.known = known;
        self.listed = Some((clock.now(), members));
        self.link();
        if let Err(error) = self.top_up(&found.listed).await {
            tracing::warn!("a piece of the metadata's replica is not copied again yet: {error}");
        }
    }

    fn headers(&self) -> Pieces {
        self.known.iter().map(|(id, found)| (*id, found.header)).collect()
    }

    fn link(&mut self) {
        let newest = chain::newest(&self.headers(), Some(self.lineage));
        // Of openings of which nothing is known any more all may be of a lost past.
        let is_known = |chain: &Chain| chain.opening() == self.opening || self.starts.contains_key(&chain.opening());
        self.chain = newest.filter(is_known);
    }

    /// Was the metadata set back, by a moment of which nodes told nothing when it was opened?
    fn look_back(&self) -> Result<(), ReplicaError> {
        let reached_by = |opening: u32| {
            let mut from = self.starts.range(opening..);
            let next = from.next().filter(|(number, _)| **number == opening).and(from.next());
            next.map(|(_, last)| Reached { lineage: self.lineage, opening, last: *last, later: None })
        };
        let later = self.known.values().map(|found| found.header).filter_map(|header| {
            let reached = reached_by(header.opening)?;
            reached.is_before(&header).then_some((reached, header))
        });
        let Some((reached, latest)) = later.max_by_key(|(_, header)| header.upto) else { return Ok(()) };
        let why = reached.refusal(latest.upto);
        self.store.note_set_back(latest.upto)?;
        self.store.halt(&why);
        self.transfer.halt(&why);
        Err(ReplicaError::SetBack(why))
    }

    /// Stores pieces again of which too few copies were found for long enough.
    async fn top_up(&mut self, listed: &BTreeSet<NodeId>) -> Result<(), ReplicaError> {
        let Some(chain) = &self.chain else { return Ok(()) };
        let clock = self.store.env().clock.clone();
        let needed: Vec<SegmentId> = chain.pieces().collect();
        // What is on a node that is to be taken away goes with it.
        let view = self.transfer.fleet().view();
        let stays = |node: &NodeId| view.members.get(node).is_some_and(|member| !member.state.is_leaving());
        let counts = |node: &NodeId| listed.contains(node) && stays(node);
        let count = |found: &FoundReplica| found.copies.iter().filter(|(node, _)| counts(node)).count();
        let short: Vec<SegmentId> = needed.into_iter().filter(|id| count(&self.known[id]) < self.copies).collect();
        self.short_since.retain(|id, _| short.contains(id));
        for id in short {
            let since = *self.short_since.entry(id).or_insert_with(|| clock.now());
            if clock.elapsed(since) < GRACE {
                continue;
            }
            // If it does not succeed now it is tried again after that time.
            self.short_since.insert(id, clock.now());
            let replica = match self.transfer.read_replica(&self.known[&id]).await {
                Ok(replica) => replica,
                // The others are copied all the same.
                Err(why) => {
                    tracing::warn!("{}", ReplicaError::Unreadable(why));
                    continue;
                }
            };
            let (again, found) = self.write(&replica).await?;
            let needless = if found.copies.len() < self.copies {
                found.copies
            } else {
                self.short_since.remove(&id);
                self.known.insert(again, found);
                self.known.remove(&id).map_or(Vec::new(), |before| before.copies)
            };
            self.transfer.remove_superseded(needless).await;
        }
        self.link();
        Ok(())
    }

    /// One more than the losses that any data survives, as far as there are failure domains.
    fn count_copies(&self) -> Result<usize, MetaError> {
        let tolerance = |code: &str| weft_codes::parse(code).map_or(1, |code| code.shape().tolerance);
        let losses = self.store.policies()?.iter().map(|(_, policy)| tolerance(&policy.code)).max().unwrap_or(1);
        let view = self.transfer.fleet().view();
        let taking = view.members.values().filter(|member| member.state == NodeState::Active);
        let domains: BTreeSet<&str> = taking.map(|member| member.domain.as_str()).collect();
        Ok((losses + 1).min(domains.len()))
    }

    async fn write(&self, replica: &Replica) -> Result<(SegmentId, FoundReplica), ReplicaError> {
        if self.copies == 0 {
            return Err(ReplicaError::NoNodes);
        }
        let id = replica_id(self.opening, replica.header.upto, self.nonce.fetch_add(1, Ordering::Relaxed));
        Ok((id, self.transfer.write_replica(id, replica, self.copies).await?))
    }

    fn header(&self, kind: ReplicaKind, after: u64) -> ReplicaHeader {
        let env = self.store.env();
        ReplicaHeader {
            lineage: self.lineage,
            opening: self.opening,
            kind,
            set: env.rng.next_u64(),
            part: 0,
            is_last: false,
            after,
            upto: after,
            at_ms: env.clock.unix_ms(),
            bytes: 0,
        }
    }

    fn begin_snapshot(&mut self, history: &dyn History, last: u64) -> Result<(), ReplicaError> {
        let header = self.header(ReplicaKind::Snapshot, last);
        self.under_way = Some(self.read_part(history, header, &[])?);
        Ok(())
    }

    fn read_part(
        &self,
        history: &dyn History,
        mut header: ReplicaHeader,
        start: &[u8],
    ) -> Result<UnderWay, ReplicaError> {
        let page = history.page(start, self.sizes.piece_bytes)?;
        let slots = page.pairs.into_iter().map(|(key, value)| (key, Some(value))).collect();
        (header.upto, header.is_last) = (page.upto, page.next.is_none());
        if has_planted(Planted::SnapshotDropsChanges) {
            header.after = page.upto;
        }
        Ok(UnderWay { part: piece(header, slots), next: page.next })
    }

    /// Stores the next part of the snapshot under way, if one is.
    async fn store_part(&mut self, history: &dyn History) -> Result<(), ReplicaError> {
        let Some(UnderWay { part, next }) = self.under_way.take() else { return Ok(()) };
        let stored = match (self.store_piece(&part).await, &next) {
            (Ok(()), None) => self.finish_snapshot(history, part.header.after).await,
            (stored, _) => stored,
        };
        match (&stored, next) {
            (Ok(()), Some(start)) => {
                let at_ms = self.store.env().clock.unix_ms();
                let header = ReplicaHeader { part: part.header.part + 1, at_ms, ..part.header };
                self.under_way = Some(self.read_part(history, header, &start)?);
            }
            // Changes since its beginning are forgotten: another is begun.
            (Ok(()) | Err(ReplicaError::Behind), _) => {}
            (Err(_), next) => self.under_way = Some(UnderWay { part, next }),
        }
        stored
    }

    /// Stores what changed while the parts were read, as far as no change set has it: without that they are of no one moment.
    async fn finish_snapshot(&mut self, history: &dyn History, after: u64) -> Result<(), ReplicaError> {
        self.link();
        let from = self.chain.as_ref().map_or(after, |chain| chain.upto().max(after));
        // However many.
        let changes = history.changes_after(from, usize::MAX)?.ok_or(ReplicaError::Behind)?;
        if changes.upto > from {
            self.store_changes(from, changes).await?;
        }
        self.link();
        if self.chain.as_ref().is_some_and(|chain| chain.snapshot.after == after) {
            // A later change set may begin where the snapshot does.
            history.forget(after)?;
        }
        Ok(())
    }

    async fn store_changes(&mut self, after: u64, changes: Changes) -> Result<(), ReplicaError> {
        let mut header = self.header(ReplicaKind::Changes, after);
        header.upto = changes.upto;
        let mut slots = changes.slots.into_iter().peekable();
        while !header.is_last {
            let (mut part, mut bytes) = (Vec::new(), 0);
            while let Some(slot) = slots.next_if(|_| bytes < self.sizes.piece_bytes) {
                bytes += slot_bytes(&slot);
                part.push(slot);
            }
            header.is_last = slots.peek().is_none();
            self.store_piece(&piece(header, part)).await?;
            header.part += 1;
        }
        Ok(())
    }

    async fn store_piece(&mut self, piece: &Replica) -> Result<(), ReplicaError> {
        let (id, found) = self.write(piece).await?;
        self.stored.fetch_add(1, Ordering::Relaxed);
        if found.copies.len() < self.copies {
            self.short_since.insert(id, self.store.env().clock.now());
        }
        self.known.insert(id, found);
        Ok(())
    }

    /// What the chain does not need goes when each piece of the chain is as safe as it should be.
    async fn remove_superseded(&mut self) {
        let Some(chain) = &self.chain else { return };
        let is_safe = |id| self.known.get(&id).is_some_and(|found| found.copies.len() >= self.copies.max(1));
        if !chain.pieces().all(is_safe) {
            return;
        }
        let under_way = self.under_way.as_ref().map(|snapshot| snapshot.part.header.set);
        let is_under_way = |id: &SegmentId| self.known.get(id).is_some_and(|found| Some(found.header.set) == under_way);
        let headers = self.headers();
        let needless: Vec<SegmentId> = chain::superseded(chain, &headers).filter(|id| !is_under_way(id)).collect();
        let copies = needless.iter().filter_map(|id| self.known.remove(id)).flat_map(|found| found.copies);
        self.transfer.remove_superseded(copies.collect()).await;
    }
}

fn piece(mut header: ReplicaHeader, slots: Vec<ReplicaSlot>) -> Replica {
    let slots: Vec<ReplicaSlot> = slots.into_iter().map(without_secrets).collect();
    header.bytes = slots.iter().map(slot_bytes).sum::<usize>() as u64;
    Replica { header, slots }
}

fn slot_bytes((key, value): &ReplicaSlot) -> usize {
    key.len() + value.as_ref().map_or(0, Vec::len)
}

#[cfg(test)]
#[path = "keeping_tests.rs"]
pub(super) mod tests;
