//! What lies where on the device: pure, and a persistent format (FORMAT.md, golden bytes in the tests).
//!
//! ```text
//! 0         superblock; a second copy in the last whole block of the device
//! 4 KiB     counters: changes made, and whether one is being made
//! 8 KiB     ring: the slots of the last changes
//! 24 KiB    table: an entry of 64 bytes for each slot
//! ...       slots, from a multiple of 1 MiB on
//! ```
//!
//! All numbers are little-endian.

use std::ops::RangeInclusive;
use weft_format::{Generation, NodeId, NodeIdentity, SegmentId, ShardIndex, ShardKey, VolumeId};

/// Superblock, counters, and rows of the table are read and written in blocks of this size.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Length of a table entry: none crosses a sector, so none is torn.
pub(super) const ENTRY_BYTES: usize = 64;

/// Where the counters are.
pub(super) const COUNTERS_OFFSET: u64 = 4096;
/// Changes made, then the flag.
pub(super) const COUNTERS_BYTES: usize = 16;

/// Changes that the ring remembers: whoever is further behind reads the whole table.
pub(super) const RING_ENTRIES: u64 = 4096;
const RING_OFFSET: u64 = 8192;
const TABLE_OFFSET: u64 = RING_OFFSET + RING_ENTRIES * 4;

/// Slots begin at a multiple of this, as partitions do.
const SLOTS_ALIGNMENT_BYTES: u64 = 1 << 20;

/// A slot holds at least four frames, so that packed segments waste little, ...
const LEAST_SLOT_BYTES: u64 = 16 << 10;
/// ... and at most what a full segment's shard needs: larger ones would only waste.
const MOST_SLOT_BYTES: u64 = 4 << 20;
/// A table of so many slots (64 MiB) is still read in a moment.
const SLOTS_AIMED_AT: u64 = 1 << 20;

/// Numbers of puts; the others say of a slot that it has none, and no device lives to see the last.
const PUTS: RangeInclusive<u64> = 1..=u64::MAX >> 1;

const MAGIC: [u8; 8] = *b"weftblk\0";
const VERSION: u32 = 1;

/// Who the device is and how it is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Superblock {
    pub(super) identity: NodeIdentity,
    pub(super) slot_bytes: u32,
    pub(super) slot_count: u32,
}

/// What is wrong with a superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoSuperblock {
    /// Another magic: nothing of ours.
    Foreign,
    /// Ours, of a version that this program does not know.
    UnknownVersion(u32),
    /// Ours once; its checksum is wrong.
    Damaged,
}

impl Superblock {
    /// Divides a device; `None` if it has no room for a single slot.
    pub(super) fn divide(identity: NodeIdentity, device_bytes: u64) -> Option<Self> {
        let slot_bytes = device_bytes.div_ceil(SLOTS_AIMED_AT).next_power_of_two();
        let slot_bytes = slot_bytes.clamp(LEAST_SLOT_BYTES, MOST_SLOT_BYTES);
        let of_count = |slot_count| Self { identity, slot_bytes: slot_bytes as u32, slot_count };
        // Grows with the count, so the largest that fits is where it changes.
        let fits = |count: u64| of_count(count as u32).end_offset() <= Self::copy_offset(device_bytes);
        let most = (device_bytes / slot_bytes).min(u64::from(u32::MAX) - 1);
        let (mut low, mut high) = (0, most + 1);
        while low + 1 < high {
            let middle = low.midpoint(high);
            if fits(middle) { low = middle } else { high = middle }
        }
        (low > 0).then(|| of_count(low as u32))
    }

    /// Could [`Self::divide`] have made it?
    fn is_possible(&self) -> bool {
        let slot_bytes = u64::from(self.slot_bytes);
        self.slot_count > 0
            && slot_bytes.is_power_of_two()
            && (LEAST_SLOT_BYTES..=MOST_SLOT_BYTES).contains(&slot_bytes)
    }

    /// Where the second copy is.
    pub(super) fn copy_offset(device_bytes: u64) -> u64 {
        let block = BLOCK_BYTES as u64;
        (device_bytes / block).saturating_sub(1) * block
    }

    pub(super) fn entry_offset(slot: u32) -> u64 {
        TABLE_OFFSET + u64::from(slot) * ENTRY_BYTES as u64
    }

    pub(super) fn table_bytes(&self) -> u64 {
        u64::from(self.slot_count) * ENTRY_BYTES as u64
    }

    pub(super) fn slot_offset(&self, slot: u32) -> u64 {
        let slots = (TABLE_OFFSET + self.table_bytes()).next_multiple_of(SLOTS_ALIGNMENT_BYTES);
        slots + u64::from(slot) * u64::from(self.slot_bytes)
    }

    /// Behind the last slot.
    pub(super) fn end_offset(&self) -> u64 {
        self.slot_offset(self.slot_count)
    }

    /// Slots that a shard object of so many bytes takes; an empty one takes one, too.
    pub(super) fn slots_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(u64::from(self.slot_bytes)).max(1)
    }

    /// What the table says of a slot. An entry of parts that cannot be there is damaged, though its checksum fits: a shard that is
    /// read by it would have no slots for its bytes.
    pub(super) fn entry(&self, bytes: &[u8; ENTRY_BYTES], slot: u32) -> Entry {
        match Entry::decode(bytes, slot) {
            Entry::Part(part) if !self.has(&part) => Entry::Damaged,
            entry => entry,
        }
    }

    fn has(&self, part: &Part) -> bool {
        let is_whole = u64::from(part.parts) == self.slots_of(part.bytes) && part.part < part.parts;
        is_whole && PUTS.contains(&part.put)
    }

    pub(super) fn encode(&self) -> [u8; BLOCK_BYTES] {
        let mut out = [0; BLOCK_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.slot_bytes.to_le_bytes());
        out[16..20].copy_from_slice(&self.slot_count.to_le_bytes());
        out[32..48].copy_from_slice(&self.identity.volume.to_bytes());
        out[48..64].copy_from_slice(&self.identity.node.to_bytes());
        let check = crc64(&out[..BLOCK_BYTES - 8]);
        out[BLOCK_BYTES - 8..].copy_from_slice(&check.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, NoSuperblock> {
        let Some(bytes) = bytes.first_chunk::<BLOCK_BYTES>() else { return Err(NoSuperblock::Foreign) };
        if bytes[..8] != MAGIC {
            return Err(NoSuperblock::Foreign);
        }
        if crc64(&bytes[..BLOCK_BYTES - 8]) != u64::from_le_bytes(field(bytes, BLOCK_BYTES - 8)) {
            return Err(NoSuperblock::Damaged);
        }
        let version = u32::from_le_bytes(field(bytes, 8));
        if version != VERSION {
            return Err(NoSuperblock::UnknownVersion(version));
        }
        let superblock = Self {
            identity: NodeIdentity {
                volume: VolumeId::from_bytes(field(bytes, 32)),
                node: NodeId::from_bytes(field(bytes, 48)),
            },
            slot_bytes: u32::from_le_bytes(field(bytes, 12)),
            slot_count: u32::from_le_bytes(field(bytes, 16)),
        };
        // A right checksum is no proof that the numbers make sense.
        if superblock.is_possible() { Ok(superblock) } else { Err(NoSuperblock::Damaged) }
    }
}

/// Where the ring keeps the slot of change number `change` (the first is 1).
pub(super) fn ring_offset(change: u64) -> u64 {
    RING_OFFSET + (change % RING_ENTRIES) * 4
}

/// The counters: changes made, and whether one is being made.
pub(super) fn encode_counters(changes: u64, changing: bool) -> [u8; COUNTERS_BYTES] {
    let mut out = [0; COUNTERS_BYTES];
    out[..8].copy_from_slice(&changes.to_le_bytes());
    out[8] = u8::from(changing);
    out
}

/// The inverse of [`encode_counters`]; what is missing counts as zeros.
pub(super) fn decode_counters(bytes: &[u8]) -> (u64, bool) {
    match bytes.first_chunk::<COUNTERS_BYTES>() {
        Some(bytes) => (u64::from_le_bytes(field(bytes, 0)), bytes[8] != 0),
        None => (0, false),
    }
}

/// What the table says of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It holds nothing.
    Free,
    /// It holds part of a shard.
    Part(Part),
    /// The entry is neither: nothing is known of the slot, so it is left alone.
    Damaged,
}

/// A part of a shard: bytes `part * slot_bytes ..` of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) key: ShardKey,
    /// Which part of the shard, ...
    pub(super) part: u32,
    /// ... of how many. A shard is there when all its parts are.
    pub(super) parts: u32,
    /// Length of the whole shard.
    pub(super) bytes: u64,
    /// When it was stored, milliseconds since the Unix epoch.
    pub(super) modified_ms: u64,
    /// Number of the put that stored it, the same for all its parts, never used twice.
    pub(super) put: u64,
}

impl Entry {
    /// The entry as it lies in the table at `slot`, which its checksum covers, too.
    pub(super) fn encode(&self, slot: u32) -> [u8; ENTRY_BYTES] {
        let mut out = [0; ENTRY_BYTES];
        // A damaged entry is never written.
        let Entry::Part(part) = self else { return out };
        out[..16].copy_from_slice(&part.key.segment.to_bytes());
        out[16..20].copy_from_slice(&part.key.generation.0.to_le_bytes());
        out[20..22].copy_from_slice(&part.key.index.0.to_le_bytes());
        out[24..28].copy_from_slice(&part.part.to_le_bytes());
        out[28..32].copy_from_slice(&part.parts.to_le_bytes());
        out[32..40].copy_from_slice(&part.bytes.to_le_bytes());
        out[40..48].copy_from_slice(&part.modified_ms.to_le_bytes());
        out[48..56].copy_from_slice(&part.put.to_le_bytes());
        let check = entry_check(&out, slot);
        out[56..].copy_from_slice(&check.to_le_bytes());
        out
    }

    /// The inverse of [`Self::encode`]; whether there can be such a part, [`Superblock::entry`] says.
    pub(super) fn decode(bytes: &[u8; ENTRY_BYTES], slot: u32) -> Self {
        if bytes.iter().all(|&byte| byte == 0) {
            return Entry::Free;
        }
        if entry_check(bytes, slot) != u64::from_le_bytes(field(bytes, 56)) {
            return Entry::Damaged;
        }
        let key = ShardKey {
            segment: SegmentId::from_bytes(field(bytes, 0)),
            generation: Generation(u32::from_le_bytes(field(bytes, 16))),
            index: ShardIndex(u16::from_le_bytes(field(bytes, 20))),
        };
        Entry::Part(Part {
            key,
            part: u32::from_le_bytes(field(bytes, 24)),
            parts: u32::from_le_bytes(field(bytes, 28)),
            bytes: u64::from_le_bytes(field(bytes, 32)),
            modified_ms: u64::from_le_bytes(field(bytes, 40)),
            put: u64::from_le_bytes(field(bytes, 48)),
        })
    }
}

pub(super) fn entry_check(entry: &[u8; ENTRY_BYTES], slot: u32) -> u64 {
    let mut checked = [0; 60];
    checked[..56].copy_from_slice(&entry[..56]);
    checked[56..].copy_from_slice(&slot.to_le_bytes());
    crc64(&checked)
}

pub(super) fn crc64(bytes: &[u8]) -> u64 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, bytes)
}

fn field<const SIZE: usize>(bytes: &[u8], offset: usize) -> [u8; SIZE] {
    let mut out = [0; SIZE];
    out.copy_from_slice(&bytes[offset..offset + SIZE]);
    out
}

#[cfg(test)]
#[path = "layout_tests.rs"]
mod tests;
