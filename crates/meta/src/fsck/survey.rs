//! Reads every table of one snapshot, in an order in which each can be held against those before it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weft_format::records::{
    Attributes, DamageRecord, Kind, NodeRecord, OpeningsRecord, PolicyRecord, RetainedRecord, SegmentRecord,
    SegmentSum, SumsRecord, VolumeRecord,
};
use weft_format::{Ino, NodeId, PolicyId, SegmentId, ShardKey};

use super::{Finding, Found, Report, Writes};
use crate::MetaError;
use crate::keys::{Counter, Key, Table, after, printable};
use crate::kv::Snapshot;
use crate::pages;
use crate::store::Store;
use crate::store::aliased;
use crate::store::values::{self, Dirent, PAGE_BYTES, Usage, damaged};

/// Pairs read at once.
const READ_PAIRS: usize = 4096;

struct Inode {
    stored: Attributes,
    /// Names that lead to it.
    names: u32,
    /// The directory of the last of them.
    parent: Ino,
    /// Names in it.
    children: u64,
    subdirectories: u32,
    /// Bytes of its extents.
    allocated_bytes: u64,
}

struct Segment {
    data_bytes: u64,
    nodes: BTreeSet<NodeId>,
    /// Bytes that extents refer to.
    live_bytes: u64,
}

struct Survey<'s> {
    snapshot: &'s (dyn Snapshot + 's),
    now_ms: u64,
    found: Vec<Found>,
    /// Inodes and segments whose records are there but cannot be read.
    unreadable_inodes: BTreeSet<Ino>,
    unreadable_segments: BTreeSet<SegmentId>,
    inodes: BTreeMap<Ino, Inode>,
    /// Inodes without a name that are kept for a while.
    kept: BTreeSet<Ino>,
    segments: BTreeMap<SegmentId, Segment>,
    sums: SumsRecord,
    /// Shards that bear another segment's name than that of the one whose record names them.
    aliased: BTreeSet<(ShardKey, SegmentId)>,
    policies: BTreeSet<PolicyId>,
    nodes: BTreeSet<NodeId>,
    last_cookie: u64,
}

/// Everything that does not fit, with its mends, and the counts of the report.
pub(super) fn survey(store: &Store, now_ms: u64) -> Result<(Vec<Found>, Report), MetaError> {
    let snapshot = store.kv().snapshot()?;
    pages::fix_moment(&*snapshot)?;
    let mut survey = Survey {
        snapshot: &*snapshot,
        now_ms,
        found: Vec::new(),
        unreadable_inodes: BTreeSet::new(),
        unreadable_segments: BTreeSet::new(),
        inodes: BTreeMap::new(),
        kept: BTreeSet::new(),
        segments: BTreeMap::new(),
        sums: SumsRecord::default(),
        aliased: BTreeSet::new(),
        policies: BTreeSet::new(),
        nodes: BTreeSet::new(),
        last_cookie: 0,
    };
    survey.unknown_tables()?;
    survey.volume()?;
    survey.each(Table::Openings, Survey::openings)?;
    survey.each(Table::Policy, Survey::policy)?;
    survey.each(Table::Node, Survey::node)?;
    survey.each(Table::Segment, Survey::segment)?;
    survey.each(Table::Inode, Survey::inode)?;
    survey.each(Table::Dirent, Survey::dirent)?;
    survey.each(Table::Entry, Survey::entry)?;
    survey.each(Table::Symlink, Survey::symlink)?;
    survey.each(Table::Xattr, Survey::xattr)?;
    survey.extents()?;
    survey.each(Table::Journal, Survey::journal)?;
    survey.each(Table::Locks, Survey::note_of_session)?;
    survey.each(Table::Held, Survey::note_of_session)?;
    survey.each(Table::Look, Survey::note_of_session)?;
    survey.each(Table::Unreferenced, Survey::unreferenced)?;
    survey.links()?;
    survey.reachability();
    survey.lives()?;
    survey.each(Table::Live, Survey::live)?;
    survey.each(Table::UsedBy, Survey::used_by)?;
    survey.each(Table::OnNode, Survey::on_node)?;
    survey.each(Table::Damaged, Survey::damaged)?;
    survey.each(Table::Alias, Survey::alias)?;
    survey.aliases()?;
    survey.totals()?;
    survey.sums()?;
    for found in &mut survey.found {
        for (key, _) in &found.writes {
            found.seen.push(snapshot.get(key)?);
        }
    }
    let report =
        Report { findings: Vec::new(), inodes: survey.inodes.len() as u64, segments: survey.segments.len() as u64 };
    Ok((survey.found, report))
}

fn lossy(name: &[u8]) -> String {
    name.escape_ascii().to_string()
}

fn put(key: Key<'_>, value: Vec<u8>) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.encode(), Some(value))
}

fn remove(key: Key<'_>) -> (Vec<u8>, Option<Vec<u8>>) {
    (key.encode(), None)
}

impl Survey<'_> {
    fn report(&mut self, finding: Finding, writes: Writes) {
        self.found.push(Found { finding, writes, seen: Vec::new() });
    }

    fn stray(&mut self, key: Key<'_>) {
        self.report(Finding::Stray { key: key.to_string() }, vec![remove(key)]);
    }

    fn missing(&mut self, key: Key<'_>, value: Vec<u8>) {
        self.report(Finding::Missing { key: key.to_string() }, vec![put(key, value)]);
    }

    fn get(&self, key: Key<'_>) -> Result<Option<Vec<u8>>, MetaError> {
        Ok(self.snapshot.get(&key.encode())?)
    }

    /// Damage becomes a finding; anything else ends the check.
    fn note<T>(&mut self, answer: Result<T, MetaError>) -> Result<Option<T>, MetaError> {
        match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(MetaError::Damaged { key, detail }) => {
                self.report(Finding::Unreadable { key, detail }, Writes::new());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Calls `look` with every record of a table.
    fn each(
        &mut self,
        table: Table,
        mut look: impl FnMut(&mut Self, Key<'_>, &[u8]) -> Result<(), MetaError>,
    ) -> Result<(), MetaError> {
        let mut range = table.range();
        loop {
            let pairs = self.snapshot.scan(&range.start, &range.end, READ_PAIRS)?;
            for (key, value) in &pairs {
                match Key::parse(key) {
                    Some(key) => {
                        let answer = look(self, key, value);
                        self.note(answer)?;
                    }
                    None => self.report(Finding::UnknownKey { key: printable(key) }, Writes::new()),
                }
            }
            match pairs.last().filter(|_| pairs.len() == READ_PAIRS) {
                Some((last, _)) => range = next(range, last),
                None => return Ok(()),
            }
        }
    }

    fn unknown_tables(&mut self) -> Result<(), MetaError> {
        let mut start = Vec::new();
        for range in Table::ALL.map(Table::range) {
            self.unknown_keys(start..range.start)?;
            start = range.end;
        }
        // Above every key that begins with a byte.
        self.unknown_keys(start..vec![u8::MAX; 64])
    }

    fn unknown_keys(&mut self, range: Range<Vec<u8>>) -> Result<(), MetaError> {
        // One is enough to say so.
        for (key, _) in self.snapshot.scan(&range.start, &range.end, 1)? {
            self.report(Finding::UnknownKey { key: printable(&key) }, Writes::new());
        }
        Ok(())
    }

    fn volume(&mut self) -> Result<(), MetaError> {
        let key = Key::Volume;
        let record = self.get(key)?.ok_or_else(|| damaged(&key, "it is missing"));
        let record = record.and_then(|bytes| VolumeRecord::decode(&bytes).map_err(|error| damaged(&key, error)));
        self.note(record)?;
        Ok(())
    }

    fn openings(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        OpeningsRecord::decode(value).map_err(|error| damaged(&key, error))?;
        Ok(())
    }

    /// Locks, and what of files without a name processes have open.
    fn note_of_session(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let ino = match key {
            Key::Locks(ino) => {
                values::decode_locks(&key, value)?;
                ino
            }
            Key::Held(ino, _) => ino,
            _ => return values::decode_number(&key, value).map(drop),
        };
        if !self.inodes.contains_key(&ino) && !self.unreadable_inodes.contains(&ino) {
            self.stray(key);
        }
        Ok(())
    }

    fn policy(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        if let Key::Policy(policy) = key {
            self.policies.insert(policy);
        }
        PolicyRecord::decode(value).map_err(|error| damaged(&key, error))?;
        Ok(())
    }

    fn node(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        if let Key::Node(node) = key {
            self.nodes.insert(node);
        }
        NodeRecord::decode(value).map_err(|error| damaged(&key, error))?;
        Ok(())
    }

    fn segment(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::Segment(segment) = key else { return Ok(()) };
        let record = SegmentRecord::decode(value).map_err(|error| {
            self.unreadable_segments.insert(segment);
            damaged(&key, error)
        })?;
        let nodes: BTreeSet<_> = record.shards.iter().flatten().map(|location| location.node).collect();
        // Nothing is mended of a dead one, and nobody needs its shards.
        let is_dead = self.get(Key::UnreferencedSegment(segment))?.is_some();
        for node in &nodes {
            if !is_dead && !self.nodes.contains(node) {
                self.report(Finding::UnknownNode { segment, node: *node }, Writes::new());
            }
            let index = Key::OnNode(*node, segment);
            if self.get(index)?.is_none() {
                self.missing(index, values::mark());
            }
        }
        if !is_dead && record.shards.iter().any(Option::is_none) && self.get(Key::Damaged(segment))?.is_none() {
            self.missing(Key::Damaged(segment), DamageRecord::suspicion().encode());
        }
        self.aliased.extend(aliased(segment, &record).map(|shard| (shard, segment)));
        self.sums.add(&record);
        let data_bytes = record.geometry.data_bytes;
        self.segments.insert(segment, Segment { data_bytes, nodes, live_bytes: 0 });
        Ok(())
    }

    fn inode(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::Inode(ino) = key else { return Ok(()) };
        let stored = Attributes::decode(value).map_err(|error| {
            self.unreadable_inodes.insert(ino);
            damaged(&key, error)
        })?;
        if stored.ino != ino {
            let mend = vec![put(key, Attributes { ino, ..stored }.encode().to_vec())];
            self.report(Finding::WrongNumber { ino, stored: stored.ino }, mend);
        }
        if !self.policies.contains(&stored.policy) {
            self.report(Finding::UnknownPolicy { ino, policy: stored.policy }, Writes::new());
        }
        if stored.kind == Kind::Symlink && self.get(Key::Symlink(ino))?.is_none() {
            self.report(Finding::Missing { key: Key::Symlink(ino).to_string() }, Writes::new());
        }
        let (names, children, subdirectories, allocated_bytes) = (0, 0, 0, 0);
        self.inodes.insert(ino, Inode { stored, names, parent: ino, children, subdirectories, allocated_bytes });
        Ok(())
    }

    fn dirent(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::Dirent(parent, name) = key else { return Ok(()) };
        let dirent = Dirent::decode(&key, value)?;
        self.last_cookie = self.last_cookie.max(dirent.cookie);
        self.check_listing(parent, name, &dirent)?;
        let kind = self.inodes.get(&dirent.ino).map(|inode| inode.stored.kind);
        match self.inodes.get_mut(&parent) {
            Some(directory) if directory.stored.kind == Kind::Directory => {
                directory.children += 1;
                directory.subdirectories += u32::from(kind == Some(Kind::Directory));
            }
            _ if self.unreadable_inodes.contains(&parent) => {}
            _ => self.report(Finding::NameOutsideDirectory { parent, name: lossy(name) }, Writes::new()),
        }
        let (ino, name) = (dirent.ino, lossy(name));
        match self.inodes.get_mut(&ino) {
            Some(inode) => {
                inode.names += 1;
                inode.parent = parent;
                let kind = inode.stored.kind;
                if kind != dirent.kind {
                    let mend = vec![put(key, Dirent { kind, ..dirent }.encode())];
                    self.report(Finding::WrongKind { parent, name, ino }, mend);
                }
            }
            None if self.unreadable_inodes.contains(&ino) => {}
            None => {
                let mend = vec![remove(key), remove(Key::Entry(parent, dirent.cookie))];
                self.report(Finding::DanglingName { parent, name, ino }, mend);
            }
        }
        Ok(())
    }

    /// The listing must have the name where its record says.
    fn check_listing(&mut self, parent: Ino, name: &[u8], dirent: &Dirent) -> Result<(), MetaError> {
        let key = Key::Entry(parent, dirent.cookie);
        let Some(bytes) = self.get(key)? else {
            self.missing(key, values::entry(dirent.ino, name));
            return Ok(());
        };
        let (ino, listed) = values::decode_entry(&key, &bytes)?;
        if listed != name {
            // Another name is there. If it is in the wrong place it goes, and this one can come in the next round.
            self.report(Finding::WrongListing { parent, name: lossy(name) }, Writes::new());
        } else if ino != dirent.ino {
            let mend = vec![put(key, values::entry(dirent.ino, name))];
            self.report(Finding::WrongListing { parent, name: lossy(name) }, mend);
        }
        Ok(())
    }

    fn entry(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::Entry(parent, cookie) = key else { return Ok(()) };
        self.last_cookie = self.last_cookie.max(cookie);
        let (_, name) = values::decode_entry(&key, value)?;
        let name_key = Key::Dirent(parent, name);
        let dirent = self.get(name_key)?.map(|bytes| Dirent::decode(&name_key, &bytes)).transpose()?;
        if dirent.is_none_or(|dirent| dirent.cookie != cookie) {
            self.stray(key);
        }
        Ok(())
    }

    fn exists(&self, ino: Ino) -> bool {
        self.inodes.contains_key(&ino) || self.unreadable_inodes.contains(&ino)
    }

    fn symlink(&mut self, key: Key<'_>, _: &[u8]) -> Result<(), MetaError> {
        let Key::Symlink(ino) = key else { return Ok(()) };
        let is_symlink = self.inodes.get(&ino).is_some_and(|inode| inode.stored.kind == Kind::Symlink);
        if !is_symlink && !self.unreadable_inodes.contains(&ino) {
            self.stray(key);
        }
        Ok(())
    }

    fn xattr(&mut self, key: Key<'_>, _: &[u8]) -> Result<(), MetaError> {
        if let Key::Xattr(ino, _) = key
            && !self.exists(ino)
        {
            self.stray(key);
        }
        Ok(())
    }

    fn extents(&mut self) -> Result<(), MetaError> {
        let (mut file, mut free_from) = (Ino(0), 0);
        let mut users = BTreeSet::new();
        self.each(Table::Extent, |survey, key, value| {
            let Key::Extent(ino, end) = key else { return Ok(()) };
            let extent = values::decode_extent(&key, value)?;
            if file != ino {
                (file, free_from) = (ino, 0);
                users.clear();
            }
            let start = extent.file_offset;
            let segment = extent.segment;
            let Some(inode) = survey.inodes.get_mut(&ino) else {
                if !survey.unreadable_inodes.contains(&ino) {
                    survey.stray(key);
                }
                return Ok(());
            };
            inode.allocated_bytes += extent.length;
            let (kind, size) = (inode.stored.kind, inode.stored.size);
            if kind != Kind::File {
                survey.report(Finding::DataOfNoFile { ino }, Writes::new());
            } else if end > size {
                survey.report(Finding::DataBeyondEnd { ino, size, end }, Writes::new());
            }
            if start < free_from {
                survey.report(Finding::Overlap { ino, end: free_from }, Writes::new());
            }
            free_from = end;
            match survey.segments.get_mut(&segment) {
                Some(record) => {
                    record.live_bytes += extent.length;
                    if extent.segment_offset.saturating_add(extent.length) > record.data_bytes {
                        survey.report(Finding::BeyondSegment { ino, start, end, segment }, Writes::new());
                    }
                    let user = Key::UsedBy(segment, ino);
                    if users.insert(segment) && survey.get(user)?.is_none() {
                        survey.missing(user, values::mark());
                    }
                }
                None if survey.unreadable_segments.contains(&segment) => {}
                None => survey.report(Finding::LostSegment { ino, start, end, segment }, Writes::new()),
            }
            Ok(())
        })
    }

    fn journal(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::Journal(ino, _) = key else { return Ok(()) };
        let page = values::decode_journal_page(&key, value)?;
        let Some(inode) = self.inodes.get(&ino) else {
            if !self.unreadable_inodes.contains(&ino) {
                self.stray(key);
            }
            return Ok(());
        };
        let size = inode.stored.size;
        let end = page.ranges.last().map_or(0, |(start, bytes)| {
            page.page.saturating_mul(PAGE_BYTES).saturating_add(u64::from(*start) + bytes.len() as u64)
        });
        if inode.stored.kind != Kind::File {
            self.report(Finding::DataOfNoFile { ino }, Writes::new());
        } else if end > size {
            self.report(Finding::DataBeyondEnd { ino, size, end }, Writes::new());
        }
        Ok(())
    }

    fn unreferenced(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        match key {
            Key::UnreferencedFile(..) => self.deleted(key, value),
            Key::UnreferencedInode(_) => self.orphan(key, value),
            Key::UnreferencedSegment(_) => self.dead(key, value),
            _ => self.retained(key, value),
        }
    }

    fn orphan(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::UnreferencedInode(ino) = key else { return Ok(()) };
        values::decode_mark(&key, value)?;
        let has_names = self.inodes.get(&ino).is_some_and(|inode| inode.names > 0 || inode.children > 0);
        if has_names || !self.exists(ino) || self.kept.contains(&ino) {
            self.stray(key);
        }
        Ok(())
    }

    /// What is kept has no name, and is kept once.
    fn deleted(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::UnreferencedFile(_, ino) = key else { return Ok(()) };
        values::decode_entry(&key, value)?;
        let has_names = self.inodes.get(&ino).is_some_and(|inode| inode.names > 0 || inode.children > 0);
        if has_names || !self.exists(ino) || !self.kept.insert(ino) {
            self.stray(key);
        }
        Ok(())
    }

    /// Link counts, parents, orphans and allocated bytes. All mends of an inode are one record, written whole.
    fn links(&mut self) -> Result<(), MetaError> {
        let mut findings = Vec::new();
        let mut orphans = Vec::new();
        for (ino, inode) in &self.inodes {
            let (ino, stored) = (*ino, inode.stored);
            let mut mended = Attributes { ino, ..stored };
            let mut of_inode = Vec::new();
            let is_directory = stored.kind == Kind::Directory;
            if is_directory && ino != Ino::ROOT && inode.names > 0 {
                if inode.names > 1 {
                    findings.push((Finding::ManyNames { ino, names: inode.names }, Writes::new()));
                } else if stored.parent != inode.parent {
                    mended.parent = inode.parent;
                    of_inode.push(Finding::WrongParent { ino, stored: stored.parent, parent: inode.parent });
                }
            }
            let is_linked = ino == Ino::ROOT || inode.names > 0;
            let counted = match (is_directory, is_linked) {
                (true, true) => 2 + inode.subdirectories,
                (true, false) => 0,
                (false, _) => inode.names,
            };
            if !is_linked && (stored.nlink > 0 || inode.children > 0) {
                // To make it an orphan would have it deleted.
                findings.push((Finding::NoName { ino, stored: stored.nlink }, Writes::new()));
            } else if counted != stored.nlink {
                mended.nlink = counted;
                of_inode.push(Finding::WrongLinkCount { ino, stored: stored.nlink, counted });
            } else if counted == 0 && !self.kept.contains(&ino) {
                orphans.push(ino);
            }
            if inode.allocated_bytes != stored.allocated_bytes {
                let counted = inode.allocated_bytes;
                mended.allocated_bytes = counted;
                of_inode.push(Finding::WrongAllocatedBytes { ino, stored: stored.allocated_bytes, counted });
            }
            let mend = || vec![put(Key::Inode(ino), mended.encode().to_vec())];
            findings.extend(of_inode.into_iter().map(|finding| (finding, mend())));
        }
        for (finding, writes) in findings {
            self.report(finding, writes);
        }
        for ino in orphans {
            if self.get(Key::UnreferencedInode(ino))?.is_none() {
                self.missing(Key::UnreferencedInode(ino), values::mark());
            }
        }
        if !self.exists(Ino::ROOT) {
            self.report(Finding::Missing { key: Key::Inode(Ino::ROOT).to_string() }, Writes::new());
        }
        Ok(())
    }

    /// Every directory with a name must lead up to the root, or to one without a name, which is a finding or an orphan.
    fn reachability(&mut self) {
        let mut known: BTreeMap<Ino, bool> = BTreeMap::from([(Ino::ROOT, true)]);
        let mut unreachable = Vec::new();
        for (ino, inode) in &self.inodes {
            if inode.stored.kind != Kind::Directory {
                continue;
            }
            let mut way = Vec::new();
            let mut at = *ino;
            let reached = loop {
                if let Some(reached) = known.get(&at) {
                    break *reached;
                }
                // Until the end of the way is known: meeting it again is a loop.
                known.insert(at, false);
                way.push(at);
                match self.inodes.get(&at) {
                    Some(directory) if directory.names > 0 => at = directory.parent,
                    _ => break true,
                }
            };
            for ino in way {
                known.insert(ino, reached);
            }
            if !reached {
                unreachable.push(*ino);
            }
        }
        for ino in unreachable {
            self.report(Finding::Unreachable { ino }, Writes::new());
        }
    }

    /// Every segment is either referred to and alive, with the right count, or dead and in the trash.
    fn lives(&mut self) -> Result<(), MetaError> {
        let counts: Vec<_> = self.segments.iter().map(|(segment, record)| (*segment, record.live_bytes)).collect();
        for (segment, counted) in counts {
            let (live_key, dead_key) = (Key::Live(segment), Key::UnreferencedSegment(segment));
            let number = |key: &Key<'_>, bytes: Option<Vec<u8>>| {
                bytes.map(|bytes| values::decode_number(key, &bytes)).transpose()
            };
            // Unreadable ones are found when their tables are read.
            let Ok(live) = number(&live_key, self.get(live_key)?) else { continue };
            let Ok(died_ms) = number(&dead_key, self.get(dead_key)?) else { continue };
            match (counted, died_ms) {
                (1.., Some(_)) => {
                    let mend = vec![put(live_key, values::number(counted)), remove(dead_key)];
                    self.report(Finding::LiveInTrash { segment, counted }, mend);
                }
                (1.., None) if live != Some(counted) => {
                    let mend = vec![put(live_key, values::number(counted))];
                    self.report(Finding::WrongLiveBytes { segment, stored: live.unwrap_or(0), counted }, mend);
                }
                (1.., None) => {}
                (0, died) => {
                    if live.is_some() || died.is_none() {
                        let died_ms = died.unwrap_or(self.now_ms);
                        let mend = vec![remove(live_key), put(dead_key, values::number(died_ms))];
                        self.report(Finding::DeadOutsideTrash { segment }, mend);
                    }
                }
            }
        }
        Ok(())
    }

    fn has_segment(&self, segment: SegmentId) -> bool {
        self.segments.contains_key(&segment) || self.unreadable_segments.contains(&segment)
    }

    fn live(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        values::decode_number(&key, value)?;
        if let Key::Live(segment) = key
            && !self.has_segment(segment)
        {
            self.stray(key);
        }
        Ok(())
    }

    fn used_by(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        values::decode_mark(&key, value)?;
        if let Key::UsedBy(segment, _) = key {
            // Of a living segment it may name files that do not use it any more.
            let is_dead = self.segments.get(&segment).is_some_and(|record| record.live_bytes == 0);
            if is_dead || !self.has_segment(segment) {
                self.stray(key);
            }
        }
        Ok(())
    }

    fn on_node(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        values::decode_mark(&key, value)?;
        if let Key::OnNode(node, segment) = key {
            let is_there = self.segments.get(&segment).is_some_and(|record| record.nodes.contains(&node));
            if !is_there && !self.unreadable_segments.contains(&segment) {
                self.stray(key);
            }
        }
        Ok(())
    }

    fn damaged(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        DamageRecord::decode(value).map_err(|error| values::damaged(&key, error))?;
        if let Key::Damaged(segment) = key
            && !self.has_segment(segment)
        {
            self.stray(key);
        }
        Ok(())
    }

    fn dead(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        values::decode_number(&key, value)?;
        if let Key::UnreferencedSegment(segment) = key
            && !self.has_segment(segment)
        {
            self.stray(key);
        }
        Ok(())
    }

    /// It outlives its segment: what is in it is removed in its own time.
    fn retained(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let retained = RetainedRecord::decode(value).map_err(|error| damaged(&key, error))?;
        if let Key::UnreferencedGeneration(segment, _) = key {
            self.aliased.extend(aliased(segment, &retained.record).map(|shard| (shard, segment)));
        }
        Ok(())
    }

    /// Kept as long as its owner names the shard, and no longer.
    fn alias(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let owner = values::decode_segment(&key, value)?;
        let Key::Alias(shard) = key else { return Ok(()) };
        if !self.aliased.contains(&(shard, owner)) && !self.unreadable_segments.contains(&owner) {
            self.stray(key);
        }
        Ok(())
    }

    /// What a living segment names under another's name, is its own.
    fn aliases(&mut self) -> Result<(), MetaError> {
        for (shard, owner) in std::mem::take(&mut self.aliased) {
            let is_living = self.segments.get(&owner).is_some_and(|segment| segment.live_bytes > 0);
            let alias = values::segment(owner);
            if is_living && self.get(Key::Alias(shard))?.as_ref() != Some(&alias) {
                self.missing(Key::Alias(shard), alias);
            }
        }
        Ok(())
    }

    /// What is counted of segments, by code. The owner's record takes all of it, and nothing has changed since.
    fn sums(&mut self) -> Result<(), MetaError> {
        let mut stored = Some(SumsRecord::default());
        for key in [Key::Sums, Key::SumChanges] {
            let Some(bytes) = self.get(key)? else {
                self.missing(key, SumsRecord::default().encode());
                return Ok(());
            };
            let some = SumsRecord::decode(&bytes).map_err(|error| damaged(&key, error));
            let Some(some) = self.note(some)? else { return Ok(()) };
            stored = stored.and_then(|sums| sums.plus(&some));
        }
        // Where one cannot be read, nobody knows what it counts.
        if stored.as_ref() == Some(&self.sums) || !self.unreadable_segments.is_empty() {
            return Ok(());
        }
        let counted: BTreeMap<String, SegmentSum> = by_code(&self.sums);
        let said = by_code(&stored.unwrap_or_default());
        let mend = vec![put(Key::Sums, self.sums.encode()), put(Key::SumChanges, SumsRecord::default().encode())];
        let codes: BTreeSet<&String> = counted.keys().chain(said.keys()).collect();
        for code in codes.into_iter().filter(|code| counted.get(*code) != said.get(*code)) {
            let SegmentSum { segment_count, data_bytes, .. } = counted.get(code).copied().unwrap_or_default();
            self.report(Finding::WrongSums { code: code.clone(), segment_count, data_bytes }, mend.clone());
        }
        Ok(())
    }

    fn totals(&mut self) -> Result<(), MetaError> {
        let roster = self.get(Key::Roster)?.map(|bytes| values::decode_number(&Key::Roster, &bytes)).transpose();
        self.note(roster)?;
        let inodes = (self.inodes.len() + self.unreadable_inodes.len()) as u64;
        let live_bytes = self.segments.values().map(|segment| segment.live_bytes).sum();
        let counted = Usage { inodes, live_bytes };
        let stored = self.get(Key::Usage)?.map(|bytes| Usage::decode(&bytes)).transpose();
        if let Some(stored) = self.note(stored)?
            && stored != Some(counted)
        {
            self.report(Finding::WrongUsage { inodes, live_bytes }, vec![put(Key::Usage, counted.encode())]);
        }
        let last_ino = self.inodes.keys().chain(&self.unreadable_inodes).max().map_or(1, |ino| ino.0);
        for (counter, used) in [(Counter::Ino, last_ino), (Counter::Cookie, self.last_cookie.max(15))] {
            let key = Key::Counter(counter);
            let stored = self.get(key)?.map(|bytes| values::decode_number(&key, &bytes)).transpose();
            if let Some(stored) = self.note(stored)? {
                let next = stored.unwrap_or(0);
                if next <= used {
                    let mend = vec![put(key, values::number(used.saturating_add(1)))];
                    self.report(Finding::CounterBehind { key: key.to_string(), next, used }, mend);
                }
            }
        }
        Ok(())
    }
}

fn by_code(sums: &SumsRecord) -> BTreeMap<String, SegmentSum> {
    sums.by_code().map(|(code, sum)| (code.to_owned(), sum)).collect()
}

/// The range after a key that was read, whatever its form.
fn next(range: Range<Vec<u8>>, last: &[u8]) -> Range<Vec<u8>> {
    match Key::parse(last) {
        Some(key) => after(range, Some(key)),
        None => {
            let mut start = last.to_vec();
            start.push(0);
            start..range.end
        }
    }
}
