//! The work itself: attaching, and the calls. Everything here may wait for the device, but for [`get_cached`].
//!
//! A put: take free slots -> write the parts -> sync -> write their entries -> sync. A removal: clear the entries -> sync ->
//! free the slots. So a crash leaves a shard whole or not there, and no slot is used again while an entry may still claim it.
//!
//! Several processes of one machine may use a device at once (a mount and `weft repair`, say). Whoever changes it holds its
//! lock; counters and a ring of changed slots tell the others what to read again before they answer.

use super::device::{Device, Origin};
use super::index::{Index, Shard};
use super::layout::{
    self, BLOCK_BYTES, COUNTERS_BYTES, COUNTERS_OFFSET, ENTRY_BYTES, Entry, NoSuperblock, Part, RING_ENTRIES,
    Superblock,
};
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{NodeIdentity, Page, ShardStat, Space};
use crate::system;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, RwLock};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weft_format::ShardKey;

/// The table is read in pieces of this size.
const TABLE_READ_BYTES: u64 = 1 << 20;

/// A new device must begin with so many zeros: every known file system, partition table and volume manager leaves marks there.
const FRESH_BYTES: usize = 128 << 10;

/// So long changes may join those under way before the lock is given up for a moment, in case others wait for it, ...
const TURN_MAX: Duration = Duration::from_millis(20);
/// ... and so long is that moment.
const PAUSE: Duration = Duration::from_millis(1);

/// A node's device, by path; attached while it is there.
pub(super) struct Place {
    path: PathBuf,
    name: String,
    expected: NodeIdentity,
    root: RwLock<Option<Arc<Root>>>,
    /// Held while attaching, which may wait for the device's lock.
    attaching: Mutex<()>,
}

/// The device, open and known to be this node.
struct Root {
    device: Device,
    superblock: Superblock,
    state: Mutex<State>,
    turn: Mutex<Turn>,
    turn_ended: Condvar,
    /// Keys that are being put or removed.
    busy: Mutex<HashSet<ShardKey>>,
    busy_ended: Condvar,
}

struct State {
    index: Index,
    /// Changes that the index has seen.
    changes: u64,
}

/// Changes under way, which share one hold of the device's lock.
struct Turn {
    count: usize,
    since: Instant,
}

impl Place {
    pub(super) fn new(path: &Path, name: &str, expected: NodeIdentity) -> Self {
        Self {
            path: path.to_owned(),
            name: name.to_owned(),
            expected,
            root: RwLock::new(None),
            attaching: Mutex::new(()),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn error(&self, kind: NodeErrorKind, detail: impl Into<String>) -> NodeError {
        NodeError::new(kind, &self.name, detail)
    }

    fn failure(&self, errno: Errno, doing: &str) -> NodeError {
        match errno {
            Errno::NOENT | Errno::NOTDIR => {
                let detail = format!("{} is not there: attach the device", self.path.display());
                self.error(NodeErrorKind::Unavailable, detail)
            }
            Errno::NOTBLK | Errno::ISDIR => {
                let detail = format!("{} is neither a block device nor a file", self.path.display());
                self.error(NodeErrorKind::WrongNode, detail)
            }
            errno => system::failure(&self.name, &self.path, errno, doing),
        }
    }

    /// The device, made sure of just now.
    fn attached(&self) -> Result<Arc<Root>, NodeError> {
        let origin = Origin::of(&self.path).map_err(|errno| {
            *self.root.write() = None;
            self.failure(errno, "looking at it")
        })?;
        let known = || self.root.read().as_ref().filter(|root| root.device.origin() == origin).cloned();
        if let Some(root) = known() {
            return Ok(root);
        }
        let _attaching = self.attaching.lock();
        if let Some(root) = known() {
            return Ok(root);
        }
        let attached = self.attach().map(Arc::new);
        *self.root.write() = attached.as_ref().ok().cloned();
        attached
    }

    fn attach(&self) -> Result<Root, NodeError> {
        let failed = |errno| self.failure(errno, "opening it");
        let device = Device::open(&self.path).map_err(failed)?;
        let superblock = self.superblock(&device)?;
        if superblock.identity != self.expected {
            return Err(self.error(NodeErrorKind::WrongNode, self.not_this_node(superblock.identity)));
        }
        if superblock.end_offset() > device.bytes {
            let (path, needed) = (self.path.display(), superblock.end_offset());
            let detail =
                format!("{path} has {} bytes and had {needed}: it was cut short, replace the node", device.bytes);
            return Err(self.error(NodeErrorKind::Io, detail));
        }
        let root = Root {
            state: Mutex::new(State { index: Index::new(0), changes: 0 }),
            turn: Mutex::new(Turn { count: 0, since: Instant::now() }),
            turn_ended: Condvar::new(),
            busy: Mutex::default(),
            busy_ended: Condvar::new(),
            device,
            superblock,
        };
        root.device.lock().map_err(failed)?;
        let loaded = root.load(&mut root.state.lock());
        root.device.unlock().and(loaded).map_err(failed)?;
        Ok(root)
    }

    fn not_this_node(&self, found: NodeIdentity) -> String {
        let (path, expected) = (self.path.display(), self.expected);
        let mend = "attach the right device";
        if found.volume == expected.volume {
            format!("{path} is node {} of the same volume, not {}: {mend}", found.node, expected.node)
        } else {
            format!("{path} is a node of volume {}, not of {}: {mend}", found.volume, expected.volume)
        }
    }

    /// The superblock, or its copy where it is damaged.
    fn superblock(&self, device: &Device) -> Result<Superblock, NodeError> {
        let read = |offset| {
            let bytes = device.read(offset, BLOCK_BYTES).map_err(|errno| self.failure(errno, "reading who it is"))?;
            Ok(Superblock::decode(&bytes))
        };
        let path = self.path.display();
        let detail = match read(0)? {
            Ok(superblock) => return Ok(superblock),
            Err(NoSuperblock::UnknownVersion(version)) => {
                format!("{path} is laid out in version {version}, which this program does not know: use a newer one")
            }
            Err(why) => match read(Superblock::copy_offset(device.bytes))? {
                Ok(superblock) => return Ok(superblock),
                Err(_) if why == NoSuperblock::Damaged => {
                    format!("{path} no longer says who it is: both superblocks are damaged, replace the node")
                }
                Err(_) => format!("{path} is no node: attach the right device"),
            },
        };
        Err(self.error(NodeErrorKind::WrongNode, detail))
    }

    /// After a failed write or sync nothing is known of the device's pages: the next call reads everything afresh.
    fn detach(&self) {
        *self.root.write() = None;
    }
}

impl Root {
    /// Reads the whole table. The caller holds the device's lock, so what is incomplete was cut off.
    fn load(&self, state: &mut State) -> rustix::io::Result<()> {
        let (changes, changing) = self.counters()?;
        let mut index = Index::new(self.superblock.slot_count);
        let (table, end) = (Superblock::entry_offset(0), self.superblock.table_bytes());
        let mut at = 0;
        while at < end {
            let bytes = self.device.read(table + at, (end - at).min(TABLE_READ_BYTES) as usize)?;
            let (entries, rest) = bytes.as_chunks::<ENTRY_BYTES>();
            if entries.is_empty() || !rest.is_empty() {
                return Err(Errno::IO);
            }
            for (slot, entry) in ((at / ENTRY_BYTES as u64) as u32..).zip(entries) {
                index.apply(slot, self.superblock.entry(entry, slot));
            }
            at += bytes.len() as u64;
        }
        index.drop_incomplete();
        // Whoever was changing it is dead. That nobody's index is ahead of the counter must hold again.
        // Counters have no checksum and may be any number: after the greatest comes 0, and everybody reads the whole table.
        let changes = if changing { changes.wrapping_add(RING_ENTRIES + 1) } else { changes };
        if changing {
            self.device.write(COUNTERS_OFFSET, &layout::encode_counters(changes, false))?;
        }
        *state = State { index, changes };
        Ok(())
    }

    fn counters(&self) -> rustix::io::Result<(u64, bool)> {
        let mut cached = [0; COUNTERS_BYTES];
        if self.device.read_cached(COUNTERS_OFFSET, &mut cached).is_ok() {
            return Ok(layout::decode_counters(&cached));
        }
        Ok(layout::decode_counters(&self.device.read(COUNTERS_OFFSET, COUNTERS_BYTES)?))
    }

    /// Takes in what other processes changed. True if that is all; false if only a whole load tells.
    fn catch_up(&self, state: &mut State) -> rustix::io::Result<bool> {
        let (changes, _) = self.counters()?;
        if changes == state.changes {
            return Ok(true);
        }
        // Half of the ring at most: the other half may be written meanwhile.
        if changes < state.changes || changes - state.changes > RING_ENTRIES / 2 {
            return Ok(false);
        }
        for change in state.changes + 1..=changes {
            let slot = self.device.read(layout::ring_offset(change), 4)?;
            let Some(slot) = slot.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else { return Ok(false) };
            if slot >= self.superblock.slot_count {
                return Ok(false);
            }
            let entry = self.device.read(Superblock::entry_offset(slot), ENTRY_BYTES)?;
            let Some(entry) = entry.first_chunk() else { return Ok(false) };
            state.index.apply(slot, self.superblock.entry(entry, slot));
        }
        let (now, _) = self.counters()?;
        if now.wrapping_sub(state.changes) > RING_ENTRIES / 2 {
            return Ok(false);
        }
        state.changes = changes;
        Ok(true)
    }

    /// Does `work` with an index that knows all changes.
    fn informed<T>(&self, work: impl FnOnce(&mut State) -> T) -> rustix::io::Result<T> {
        {
            let mut state = self.state.lock();
            if self.catch_up(&mut state)? {
                return Ok(work(&mut state));
            }
        }
        // Too far behind: only with the lock is the table at rest.
        let _turn = self.enter()?;
        Ok(work(&mut self.state.lock()))
    }

    /// A change may be made until the returned value is dropped; the index knows all changes of others.
    fn enter(&self) -> rustix::io::Result<TurnGuard<'_>> {
        let mut turn = self.turn.lock();
        loop {
            if turn.count == 0 {
                self.device.lock()?;
                let mut state = self.state.lock();
                let known = self.counters().and_then(|(_, changing)| {
                    if changing || !self.catch_up(&mut state)? { self.load(&mut state) } else { Ok(()) }
                });
                if let Err(errno) = known {
                    // Nothing was changed, so that the lock goes is all that matters.
                    let _ = self.device.unlock();
                    return Err(errno);
                }
                turn.since = Instant::now();
            } else if turn.since.elapsed() > TURN_MAX {
                self.turn_ended.wait(&mut turn);
                continue;
            }
            turn.count += 1;
            return Ok(TurnGuard { root: self });
        }
    }

    /// Writes entries and tells others. The caller is in a turn. Slots that come free stay held: the caller gives them back
    /// when the change is durable, so that none is used again while the device may still say that it holds something.
    fn change(&self, entries: &[(u32, Entry)]) -> rustix::io::Result<()> {
        let mut state = self.state.lock();
        let changes = state.changes;
        self.device.write(COUNTERS_OFFSET, &layout::encode_counters(changes, true))?;
        for run in entries.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            let bytes: Vec<u8> = run.iter().flat_map(|(slot, entry)| entry.encode(*slot)).collect();
            self.device.write(Superblock::entry_offset(run[0].0), &bytes)?;
        }
        let mut change = changes;
        for (slot, _) in entries {
            change = change.wrapping_add(1);
            self.device.write(layout::ring_offset(change), &slot.to_le_bytes())?;
        }
        self.device.write(COUNTERS_OFFSET, &layout::encode_counters(change, false))?;
        for &(slot, entry) in entries {
            state.index.apply(slot, entry);
            if entry == Entry::Free {
                state.index.hold(slot);
            }
        }
        state.changes = change;
        Ok(())
    }

    /// Waits until nobody else puts or removes `key`.
    fn claim(&self, key: ShardKey) -> Claim<'_> {
        let mut busy = self.busy.lock();
        while !busy.insert(key) {
            self.busy_ended.wait(&mut busy);
        }
        Claim { root: self, key }
    }

    fn write_parts(&self, slots: &[u32], parts: &[Bytes]) -> rustix::io::Result<()> {
        let slot_bytes = u64::from(self.superblock.slot_bytes);
        let mut at = 0;
        for part in parts {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let (slot, within) = (slots[(at / slot_bytes) as usize], at % slot_bytes);
                // Neighbouring slots are one stretch of the device.
                let mut room = slot_bytes - within;
                let mut next = (at / slot_bytes) as usize + 1;
                while room < rest.len() as u64 && slots.get(next) == Some(&(slots[next - 1] + 1)) {
                    room += slot_bytes;
                    next += 1;
                }
                let count = rest.len().min(room as usize);
                self.device.write(self.superblock.slot_offset(slot) + within, &rest[..count])?;
                at += count as u64;
                rest = &rest[count..];
            }
        }
        Ok(())
    }

    /// Bytes `range` of a shard, by `read(offset, bytes)`.
    fn read_range(
        &self,
        shard: &Shard,
        range: &Range<u64>,
        mut read: impl FnMut(u64, &mut [u8]) -> rustix::io::Result<()>,
    ) -> rustix::io::Result<Bytes> {
        let slot_bytes = u64::from(self.superblock.slot_bytes);
        let end = range.end.min(shard.bytes);
        let start = range.start.min(end);
        let mut bytes = vec![0; (end - start) as usize];
        let mut filled = 0;
        while filled < bytes.len() {
            let at = start + filled as u64;
            let (slot, within) = (shard.slots[(at / slot_bytes) as usize], at % slot_bytes);
            let count = ((slot_bytes - within) as usize).min(bytes.len() - filled);
            read(self.superblock.slot_offset(slot) + within, &mut bytes[filled..filled + count])?;
            filled += count;
        }
        Ok(Bytes::from(bytes))
    }

    fn read_device(&self, offset: u64, bytes: &mut [u8]) -> rustix::io::Result<()> {
        let read = self.device.read(offset, bytes.len())?;
        if read.len() < bytes.len() {
            return Err(Errno::IO);
        }
        bytes.copy_from_slice(&read);
        Ok(())
    }
}

/// Ends a turn when dropped.
struct TurnGuard<'a> {
    root: &'a Root,
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        let mut turn = self.root.turn.lock();
        turn.count -= 1;
        if turn.count == 0 {
            // It cannot fail on an open file; closing the file would unlock it, too.
            let _ = self.root.device.unlock();
            if turn.since.elapsed() > TURN_MAX {
                std::thread::sleep(PAUSE);
            }
            self.root.turn_ended.notify_all();
        }
    }
}

/// Gives a key back when dropped.
struct Claim<'a> {
    root: &'a Root,
    key: ShardKey,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.root.busy.lock().remove(&self.key);
        self.root.busy_ended.notify_all();
    }
}

pub(super) fn put(place: &Place, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
    let root = place.attached()?;
    let failed = |errno| {
        place.detach();
        place.failure(errno, &format!("storing shard {key}"))
    };
    let _claim = root.claim(key);
    let _turn = root.enter().map_err(failed)?;
    let bytes = parts.iter().map(|part| part.len() as u64).sum::<u64>();
    let taken = {
        let mut state = root.state.lock();
        match state.index.find(key) {
            Some(shard) => Err(shard),
            None => Ok(state.index.take(root.superblock.slots_of(bytes))),
        }
    };
    let slots = match taken {
        Ok(Some(slots)) => slots,
        Ok(None) => {
            let path = place.path.display();
            let detail = format!("{path} has no room for the {bytes} bytes of shard {key}: remove some, or add nodes");
            return Err(place.error(NodeErrorKind::Full, detail));
        }
        Err(shard) => {
            if !holds(&root, &shard, parts).map_err(failed)? {
                let detail = format!("shard {key} exists with other bytes; names are never used twice");
                return Err(place.error(NodeErrorKind::Exists, detail));
            }
            // Whoever stored it may not have come to make it durable.
            return root.device.sync().map_err(failed);
        }
    };
    let written = root.write_parts(&slots, parts).and_then(|()| root.device.sync());
    if let Err(errno) = written {
        root.state.lock().index.give_back(&slots);
        return Err(failed(errno));
    }
    let part = Part {
        key,
        part: 0,
        parts: slots.len() as u32,
        bytes,
        modified_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64),
        put: root.state.lock().index.next_put(),
    };
    let entries: Vec<_> =
        (0..).zip(&slots).map(|(number, &slot)| (slot, Entry::Part(Part { part: number, ..part }))).collect();
    root.change(&entries).and_then(|()| root.device.sync()).map_err(|errno| {
        // Not durable, so not stored; if this fails too, an unreferenced shard stays for the collector.
        let cleared: Vec<_> = slots.iter().map(|&slot| (slot, Entry::Free)).collect();
        let _ = root.change(&cleared).and_then(|()| root.device.sync());
        failed(errno)
    })
}

fn holds(root: &Root, shard: &Shard, parts: &[Bytes]) -> rustix::io::Result<bool> {
    if shard.bytes != parts.iter().map(|part| part.len() as u64).sum::<u64>() {
        return Ok(false);
    }
    let mut at = 0;
    for part in parts {
        let range = at..at + part.len() as u64;
        at = range.end;
        if root.read_range(shard, &range, |offset, bytes| root.read_device(offset, bytes))? != *part {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(super) fn get(place: &Place, key: ShardKey, range: &Range<u64>) -> Result<Bytes, NodeError> {
    let root = place.attached()?;
    let failed = |errno| place.failure(errno, &format!("reading shard {key}"));
    let find = || root.informed(|state| state.index.find(key)).map_err(failed);
    let shard = find()?.ok_or_else(|| not_found(place, key))?;
    let bytes = root.read_range(&shard, range, |offset, bytes| root.read_device(offset, bytes)).map_err(failed)?;
    // Removed meanwhile, its slots may have held something else already.
    match find()? {
        Some(now) if now.put == shard.put => Ok(bytes),
        _ => Err(not_found(place, key)),
    }
}

/// The same, if it can be had without waiting for the device or for others; `None` if there is any doubt.
pub(super) fn get_cached(place: &Place, key: ShardKey, range: &Range<u64>) -> Option<Bytes> {
    let root = Arc::clone(place.root.read().as_ref()?);
    if Origin::of(&place.path).ok()? != root.device.origin() {
        return None;
    }
    let find = || {
        let state = root.state.try_lock()?;
        let mut counters = [0; COUNTERS_BYTES];
        root.device.read_cached(COUNTERS_OFFSET, &mut counters).ok()?;
        if layout::decode_counters(&counters).0 != state.changes {
            return None;
        }
        state.index.find(key)
    };
    let shard = find()?;
    let bytes = root.read_range(&shard, range, |offset, bytes| root.device.read_cached(offset, bytes)).ok()?;
    (find()?.put == shard.put).then_some(bytes)
}

fn not_found(place: &Place, key: ShardKey) -> NodeError {
    place.error(NodeErrorKind::NotFound, format!("there is no shard {key}"))
}

pub(super) fn stat(place: &Place, key: ShardKey) -> Result<ShardStat, NodeError> {
    let root = place.attached()?;
    let found = root.informed(|state| state.index.find(key));
    let shard = found.map_err(|errno| place.failure(errno, &format!("looking at shard {key}")))?;
    let shard = shard.ok_or_else(|| not_found(place, key))?;
    Ok(ShardStat { bytes: shard.bytes, modified_ms: shard.modified_ms })
}

pub(super) fn list(place: &Place, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
    let root = place.attached()?;
    let listed = root.informed(|state| {
        let (keys, more) = state.index.keys_after(after, limit);
        // Once, like a folder's foreign files.
        let damaged: Vec<u32> = if after.is_none() { state.index.damaged().collect() } else { Vec::new() };
        (keys, more, damaged)
    });
    let (keys, more, damaged) = listed.map_err(|errno| place.failure(errno, "listing it"))?;
    let foreign = damaged.iter().map(|slot| format!("slot {slot} (its entry is damaged)")).collect();
    Ok(Page { keys, foreign, more })
}

pub(super) fn remove(place: &Place, key: ShardKey) -> Result<(), NodeError> {
    let root = place.attached()?;
    let failed = |errno| {
        place.detach();
        place.failure(errno, &format!("removing shard {key}"))
    };
    let _claim = root.claim(key);
    let _turn = root.enter().map_err(failed)?;
    let shard = root.state.lock().index.find(key).ok_or_else(|| not_found(place, key))?;
    let cleared: Vec<_> = shard.slots.iter().map(|&slot| (slot, Entry::Free)).collect();
    root.change(&cleared).and_then(|()| root.device.sync()).map_err(failed)?;
    root.state.lock().index.give_back(&shard.slots);
    Ok(())
}

pub(super) fn space(place: &Place) -> Result<Space, NodeError> {
    // Reads real bytes of the device, not only memory.
    identity(place)?;
    let root = place.attached()?;
    let free = root.informed(|state| state.index.free_count());
    let free = free.map_err(|errno| place.failure(errno, "asking for its space"))?;
    let slot_bytes = u64::from(root.superblock.slot_bytes);
    Ok(Space {
        total_bytes: u64::from(root.superblock.slot_count) * slot_bytes,
        free_bytes: free as u64 * slot_bytes,
        disk: None,
    })
}

/// Who the device says it is, read afresh.
pub(super) fn identity(place: &Place) -> Result<NodeIdentity, NodeError> {
    let root = place.attached()?;
    Ok(place.superblock(&root.device)?.identity)
}

/// Which node is on the device; `None` if it begins blank.
pub(super) fn probe(path: &Path) -> Result<Option<NodeIdentity>, NodeError> {
    // Whoever it is: what is expected is not looked at.
    let nobody = NodeIdentity { volume: weft_format::VolumeId(0), node: weft_format::NodeId(0) };
    let place = Place::new(path, &path.to_string_lossy(), nobody);
    let failed = |errno| place.failure(errno, "opening it");
    let device = Device::open(path).map_err(failed)?;
    let begin = device.read(0, FRESH_BYTES).map_err(failed)?;
    if begin.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    Ok(Some(place.superblock(&device)?.identity))
}

/// Makes the device into the node, if it is blank.
pub(super) fn create(place: &Place) -> Result<(), NodeError> {
    let path = place.path.display();
    let device = Device::open(&place.path).map_err(|errno| match errno {
        Errno::NOENT => {
            let detail =
                format!("{path} does not exist: attach the device, or make an image file (truncate -s 100G {path})");
            place.error(NodeErrorKind::Unavailable, detail)
        }
        errno => place.failure(errno, "opening it"),
    })?;
    let failed = |errno| place.failure(errno, "laying it out");
    device.lock().map_err(failed)?;
    let begin = device.read(0, FRESH_BYTES).map_err(failed)?;
    if let Ok(found) = Superblock::decode(&begin) {
        return Err(already_a_node(place, found.identity));
    }
    if begin.iter().any(|&byte| byte != 0) {
        let detail = format!(
            "{path} holds something: give a blank device (dd if=/dev/zero of={path} bs=1M count=1 conv=notrunc makes it one)"
        );
        return Err(place.error(NodeErrorKind::Exists, detail));
    }
    let Some(superblock) = Superblock::divide(place.expected, device.bytes) else {
        let detail = format!("{path} has only {} bytes: give it 2 MiB or more", device.bytes);
        return Err(place.error(NodeErrorKind::Full, detail));
    };
    // Counters, ring and table: what an earlier use may have left behind the blank beginning.
    let zeros = vec![0; TABLE_READ_BYTES as usize];
    let (mut at, end) = (COUNTERS_OFFSET, Superblock::entry_offset(0) + superblock.table_bytes());
    while at < end {
        let count = (end - at).min(TABLE_READ_BYTES);
        device.write(at, &zeros[..count as usize]).map_err(failed)?;
        at += count;
    }
    device.sync().map_err(failed)?;
    // Only now is it a node.
    device.write(Superblock::copy_offset(device.bytes), &superblock.encode()).map_err(failed)?;
    device.write(0, &superblock.encode()).map_err(failed)?;
    device.sync().map_err(failed)
}

fn already_a_node(place: &Place, found: NodeIdentity) -> NodeError {
    let path = place.path.display();
    if found.volume == place.expected.volume {
        let detail = format!("{path} is node {} of this volume already: give another device", found.node);
        place.error(NodeErrorKind::Exists, detail)
    } else {
        let detail = format!("{path} is a node of volume {}: give another device", found.volume);
        place.error(NodeErrorKind::WrongNode, detail)
    }
}

#[cfg(test)]
#[path = "store_tests.rs"]
mod tests;
