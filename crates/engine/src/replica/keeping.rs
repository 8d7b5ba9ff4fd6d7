//! One round of the replica's keeper: look at what nodes have, store what is missing, remove what is needless.

use super::chain::{self, Chain, Next, Pieces};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_format::records::{NodeState, Replica, ReplicaHeader, ReplicaKind, ReplicaSlot, replica_id};
use weft_format::{NodeId, SegmentId, ShardKey};
use weft_meta::kv::{Changes, History};
use weft_meta::{MetaError, Store, is_passing, without_secrets};
use weft_transfer::{FoundReplica, Transfer, WriteError};

/// Bytes of keys and values in a piece.
const PIECE_BYTES: usize = 2 << 20;
/// Keys in a change set; where more have changed all is stored.
const KEYS_MAX: usize = 50_000;
/// Nodes are listed again after this: some walk through all they hold for that.
const LIST_EVERY: Duration = Duration::from_secs(12 * 3600);
/// A copy that is not found for so long, at a node that is silent or has lost it, is made elsewhere.
const PATIENCE: Duration = Duration::from_secs(600);

/// Why the replica is behind.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaError {
    /// The metadata.
    #[error(transparent)]
    Meta(#[from] MetaError),
    /// The nodes.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Nobody to give it to.
    #[error("the volume has no node that takes it: add one with `weft node add`")]
    NoNodes,
    /// Something that was stored does not follow what was stored before.
    #[error("what nodes have is no whole replica yet: it is stored anew")]
    Behind,
    /// A piece that cannot be copied.
    #[error("a piece of the metadata's replica cannot be read: {0}")]
    Unreadable(String),
}

/// What is known of the replica.
pub(super) struct Keeping {
    store: Arc<Store>,
    transfer: Transfer,
    known: BTreeMap<SegmentId, FoundReplica>,
    chain: Option<Chain>,
    listed: Option<(Instant, BTreeSet<NodeId>)>,
    /// Pieces with too few copies, and since when.
    short_since: BTreeMap<SegmentId, Instant>,
    /// The store's last transaction when this began. What an earlier opening stored of a later one is of a past that the store has lost.
    began: Option<u64>,
}

impl Keeping {
    pub fn new(store: Arc<Store>, transfer: Transfer) -> Self {
        let (known, short_since) = (BTreeMap::new(), BTreeMap::new());
        Self { store, transfer, known, chain: None, listed: None, short_since, began: None }
    }

    /// Brings the replica up to the store's last transaction. Up to which it is.
    pub async fn round(&mut self, history: &dyn History) -> Result<u64, ReplicaError> {
        let lineage = history.lineage().map_err(MetaError::from)?;
        if self.began.is_none() {
            self.began = Some(history.last().map_err(MetaError::from)?);
        }
        self.look(lineage).await;
        let last = history.last().map_err(MetaError::from)?;
        let reach = self.chain.as_ref().map_or(0, Chain::upto);
        if self.chain.is_some() && reach >= last {
            return Ok(reach);
        }
        let changes = match chain::next(self.chain.as_ref(), last) {
            Next::Snapshot => None,
            Next::Changes(after) => {
                history.changes_after(after, KEYS_MAX).map_err(MetaError::from)?.map(|found| (after, found))
            }
        };
        match changes {
            None => self.snapshot(history, lineage).await?,
            // Nothing that counts.
            Some((_, changes)) if changes.slots.iter().all(|(key, _)| is_passing(key)) => return Ok(changes.upto),
            Some((after, changes)) => self.store_changes(lineage, after, changes).await?,
        }
        self.link(lineage);
        let reach = self.chain.as_ref().map_or(0, Chain::upto);
        if reach < last {
            return Err(ReplicaError::Behind);
        }
        self.remove_superseded().await?;
        Ok(reach)
    }

    /// Lineage, transaction and time up to which nodes have everything; `None`: they have nothing whole.
    pub fn reach(&self) -> Option<(u64, u64, u64)> {
        self.chain.as_ref().map(|chain| (chain.lineage, chain.upto(), chain.at_ms()))
    }

    /// Lists nodes, where that is due, and copies pieces again that have too few copies.
    async fn look(&mut self, lineage: u64) {
        let clock = self.store.env().clock.clone();
        let members: BTreeSet<NodeId> = self.transfer.fleet().view().members.keys().copied().collect();
        let is_fresh =
            self.listed.as_ref().is_some_and(|(at, listed)| clock.elapsed(*at) < LIST_EVERY && *listed == members);
        let is_short = self.short_since.values().any(|since| clock.elapsed(*since) >= PATIENCE);
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
        self.link(lineage);
        if let Err(error) = self.top_up(&found.listed).await {
            tracing::warn!("a piece of the metadata's replica is not copied again yet: {error}");
        }
    }

    fn headers(&self) -> Pieces {
        self.known.iter().map(|(id, found)| (*id, found.header)).collect()
    }

    fn link(&mut self, lineage: u64) {
        let opening = self.store.openings().map_or(0, |openings| openings.number());
        let began = self.began.unwrap_or(u64::MAX);
        let is_lost = |chain: &Chain| chain.opening() < opening && chain.upto() > began;
        self.chain = chain::newest(&self.headers(), Some(lineage)).filter(|chain| !is_lost(chain));
    }

    /// Stores a piece anew of which too few copies were found for long enough.
    async fn top_up(&mut self, listed: &BTreeSet<NodeId>) -> Result<(), ReplicaError> {
        let Some(chain) = &self.chain else { return Ok(()) };
        let clock = self.store.env().clock.clone();
        let copies = self.copies()?;
        let needed: Vec<SegmentId> = chain.pieces().collect();
        let count = |found: &FoundReplica| found.copies.iter().filter(|(node, _)| listed.contains(node)).count();
        let short: Vec<SegmentId> = needed.into_iter().filter(|id| count(&self.known[id]) < copies).collect();
        self.short_since.retain(|id, _| short.contains(id));
        for id in short {
            let since = *self.short_since.entry(id).or_insert_with(|| clock.now());
            if clock.elapsed(since) < PATIENCE {
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
            let (again, found) = self.write(replica).await?;
            let needless = if found.copies.len() < copies {
                found.copies
            } else {
                self.short_since.remove(&id);
                self.known.insert(again, found);
                self.known.remove(&id).map_or(Vec::new(), |before| before.copies)
            };
            self.transfer.remove_superseded(needless).await;
        }
        let lineage = self.chain.as_ref().map_or(0, |chain| chain.lineage);
        self.link(lineage);
        Ok(())
    }

    /// One more than the losses that any data survives, as far as there are failure domains.
    fn copies(&self) -> Result<usize, ReplicaError> {
        let tolerance = |code: &str| weft_codes::parse(code).map_or(1, |code| code.shape().tolerance);
        let losses = self.store.policies()?.iter().map(|(_, policy)| tolerance(&policy.code)).max().unwrap_or(1);
        let view = self.transfer.fleet().view();
        let taking = view.members.values().filter(|member| member.state == NodeState::Active);
        let domains: BTreeSet<&str> = taking.map(|member| member.domain.as_str()).collect();
        if domains.is_empty() { Err(ReplicaError::NoNodes) } else { Ok((losses + 1).min(domains.len())) }
    }

    async fn write(&self, replica: Replica) -> Result<(SegmentId, FoundReplica), ReplicaError> {
        let id = replica_id(replica.header.opening, self.store.env().rng.next_u64());
        Ok((id, self.transfer.write_replica(id, &replica, self.copies()?).await?))
    }

    fn header(&self, lineage: u64, kind: ReplicaKind, after: u64) -> Result<ReplicaHeader, ReplicaError> {
        let env = self.store.env();
        Ok(ReplicaHeader {
            lineage,
            opening: self.store.openings()?.number(),
            kind,
            set: env.rng.next_u64(),
            part: 0,
            is_last: false,
            after,
            upto: after,
            at_ms: env.clock.unix_ms(),
            bytes: 0,
        })
    }

    async fn snapshot(&mut self, history: &dyn History, lineage: u64) -> Result<(), ReplicaError> {
        let after = history.last().map_err(MetaError::from)?;
        let header = self.header(lineage, ReplicaKind::Snapshot, after)?;
        if let Err(error) = self.store_snapshot(history, lineage, header).await {
            // Nobody goes on with it, and it may be large.
            let parts: Vec<SegmentId> =
                self.known.iter().filter(|(_, found)| found.header.set == header.set).map(|(id, _)| *id).collect();
            let copies = parts.iter().filter_map(|id| self.known.remove(id)).flat_map(|found| found.copies);
            self.transfer.remove_superseded(copies.collect()).await;
            return Err(error);
        }
        self.link(lineage);
        if self.chain.as_ref().is_some_and(|chain| chain.snapshot.after == after) {
            // A later change set may begin where the snapshot does.
            history.forget(after).map_err(MetaError::from)?;
        }
        Ok(())
    }

    async fn store_snapshot(
        &mut self,
        history: &dyn History,
        lineage: u64,
        mut header: ReplicaHeader,
    ) -> Result<(), ReplicaError> {
        let after = header.after;
        let mut start = Some(Vec::new());
        while let Some(from) = start {
            let page = history.page(&from, PIECE_BYTES).map_err(MetaError::from)?;
            let slots = page.pairs.into_iter().map(|(key, value)| (key, Some(value))).collect();
            (header.upto, header.is_last) = (page.upto, page.next.is_none());
            self.store_piece(header, slots).await?;
            header.part += 1;
            start = page.next;
        }
        // However many: without them it is of no one moment.
        let changes = history.changes_after(after, usize::MAX).map_err(MetaError::from)?;
        let changes = changes.ok_or(ReplicaError::Behind)?;
        if changes.upto > after { self.store_changes(lineage, after, changes).await } else { Ok(()) }
    }

    async fn store_changes(&mut self, lineage: u64, after: u64, changes: Changes) -> Result<(), ReplicaError> {
        let mut header = self.header(lineage, ReplicaKind::Changes, after)?;
        header.upto = changes.upto;
        let mut slots = changes.slots.into_iter().peekable();
        while !header.is_last {
            let (mut part, mut bytes) = (Vec::new(), 0);
            while let Some((key, value)) = slots.next_if(|_| bytes < PIECE_BYTES) {
                bytes += key.len() + value.as_ref().map_or(0, Vec::len);
                part.push((key, value));
            }
            header.is_last = slots.peek().is_none();
            self.store_piece(header, part).await?;
            header.part += 1;
        }
        Ok(())
    }

    async fn store_piece(&mut self, mut header: ReplicaHeader, slots: Vec<ReplicaSlot>) -> Result<(), ReplicaError> {
        let slots: Vec<ReplicaSlot> = slots.into_iter().map(without_secrets).collect();
        header.bytes = slots.iter().map(|(key, value)| (key.len() + value.as_ref().map_or(0, Vec::len)) as u64).sum();
        let (id, found) = self.write(Replica { header, slots }).await?;
        if found.copies.len() < self.copies()? {
            self.short_since.insert(id, self.store.env().clock.now());
        }
        self.known.insert(id, found);
        Ok(())
    }

    /// What the chain does not need goes when each piece of the chain is as safe as it should be.
    async fn remove_superseded(&mut self) -> Result<(), ReplicaError> {
        let Some(chain) = &self.chain else { return Ok(()) };
        let copies = self.copies()?;
        if !chain.pieces().all(|id| self.known.get(&id).is_some_and(|found| found.copies.len() >= copies)) {
            return Ok(());
        }
        let needless: Vec<SegmentId> = chain::superseded(chain, &self.headers()).collect();
        let copies = needless.iter().filter_map(|id| self.known.remove(id)).flat_map(|found| found.copies);
        self.transfer.remove_superseded(copies.collect()).await;
        Ok(())
    }
}

#[cfg(test)]
#[path = "keeping_tests.rs"]
mod tests;
