//! How a segment's bytes lie in its shards.
//!
//! A segment of `data_bytes` is cut into stripes of `native_count * symbol_bytes`; within a stripe native symbol `j` holds
//! bytes `j * symbol_bytes ..`. The last stripe is cut smaller: its symbols are as short as the remaining bytes allow
//! (rounded up to the alignment), so small segments waste little; what is missing is zero padding. Shard `i`'s payload is
//! the concatenation of its cells (`alpha` symbols each), stripe after stripe.
//!
//! A merged segment has several *sources* of one length: source `p` lies in its own share of the native
//! symbols as a segment of its length would, so that its data shards are, byte for byte, those it had before.

use std::ops::Range;

/// Most data bytes in one segment: bounds what one encode, repair or compaction holds in memory.
pub const MAX_SEGMENT_BYTES: u64 = 64 << 20;

/// Most payload bytes in one shard. No code stores more in one shard than the data it codes, but for padding.
pub const MAX_PAYLOAD_BYTES: u64 = 2 * MAX_SEGMENT_BYTES;

/// A full cell, unless asked otherwise: long enough that the algebra runs at memory speed, short enough that a stripe of
/// a wide code still fits the caches, and 16 whole frames.
pub const CELL_BYTES_TARGET: u32 = 64 << 10;

/// Symbols of a full stripe begin on cache lines where the code's alignment allows it.
const CACHE_LINE_BYTES: u32 = 64;

/// Numbers that are no geometry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// Nothing to store, or more than one segment holds.
    #[error("a segment of {data_bytes} bytes: one holds 1 to {MAX_SEGMENT_BYTES}")]
    DataBytes {
        /// What was asked.
        data_bytes: u64,
    },
    /// A count or length that must not be zero is zero.
    #[error("the segment's {what} is 0: it must be at least 1")]
    Zero {
        /// Which one.
        what: &'static str,
    },
    /// Symbols are whole multiples of the alignment.
    #[error("symbols of {symbol_bytes} bytes are no multiple of the alignment of {alignment_bytes} bytes")]
    Unaligned {
        /// Length of a full stripe's symbols.
        symbol_bytes: u32,
        /// What it must be a multiple of.
        alignment_bytes: u32,
    },
    /// Parts are alike.
    #[error("{data_bytes} data bytes and {native_count} native symbols cannot be {source_count} equal parts")]
    Sources {
        /// Data bytes in the segment.
        data_bytes: u64,
        /// Native symbols per stripe.
        native_count: u32,
        /// How many sources there are to be.
        source_count: u32,
    },
    /// The cells would be absurdly long.
    #[error(
        "shards would be longer than {MAX_PAYLOAD_BYTES} bytes: choose a shorter segment or fewer symbols per shard"
    )]
    TooLong,
}

/// How one segment is cut; the same for all its shards. Check what comes from outside with [`Geometry::validate`] before
/// asking anything of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Data bytes in the segment.
    pub data_bytes: u64,
    /// Native (data) symbols per stripe.
    pub native_count: u32,
    /// Symbols per cell.
    pub alpha: u32,
    /// Bytes of a symbol of a full stripe.
    pub symbol_bytes: u32,
    /// Every symbol's length is a multiple of this.
    pub alignment_bytes: u32,
    /// Equal parts of the data, one after the other, each that of one source, with its own share of the native symbols; 1 but for segments that
    /// others were merged into.
    pub source_count: u32,
}

/// One coding unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stripe {
    /// Its number in the segment, from 0.
    pub index: u32,
    /// Which of the segment's data bytes it carries; of its first source, where it has several.
    pub data: Range<u64>,
    /// Length of each of its symbols.
    pub symbol_bytes: u32,
    /// Where its cell lies within each shard's payload.
    pub cell: Range<u64>,
}

/// A run of data bytes that lies within one native symbol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The stripe's index.
    pub stripe: u32,
    /// The native symbol.
    pub native: u32,
    /// Which of the symbol's bytes.
    pub within_symbol: Range<u32>,
    /// The segment's data byte that the piece begins with.
    pub data_offset: u64,
}

impl Geometry {
    /// Cuts `data_bytes` for a code of `native_count` native symbols and `alpha` symbols per cell, with full cells of
    /// about `cell_bytes_target` (at least one aligned symbol each).
    ///
    /// # Errors
    /// A size beyond the limits, or a zero.
    pub fn new(
        data_bytes: u64,
        native_count: u32,
        alpha: u32,
        alignment_bytes: u32,
        cell_bytes_target: u32,
    ) -> Result<Self, GeometryError> {
        let positive = |value: u32, what| if value == 0 { Err(GeometryError::Zero { what }) } else { Ok(value) };
        let alpha = positive(alpha, "number of symbols per cell")?;
        let alignment_bytes = positive(alignment_bytes, "alignment")?;
        let target = cell_bytes_target / alpha;
        let unit = if CACHE_LINE_BYTES.is_multiple_of(alignment_bytes) && target >= CACHE_LINE_BYTES {
            CACHE_LINE_BYTES
        } else {
            alignment_bytes
        };
        let symbol_bytes = (target / unit * unit).max(alignment_bytes);
        let geometry = Self { data_bytes, native_count, alpha, symbol_bytes, alignment_bytes, source_count: 1 };
        geometry.validate()?;
        Ok(geometry)
    }

    /// Checks numbers that come from outside. On a valid geometry nothing here overflows, and no length exceeds
    /// [`MAX_PAYLOAD_BYTES`].
    ///
    /// # Errors
    /// The first thing that does not hold.
    pub fn validate(&self) -> Result<(), GeometryError> {
        let Self { data_bytes, native_count, alpha, symbol_bytes, alignment_bytes, source_count } = *self;
        if data_bytes == 0 || data_bytes > MAX_SEGMENT_BYTES {
            return Err(GeometryError::DataBytes { data_bytes });
        }
        for (value, what) in [
            (native_count, "number of native symbols"),
            (alpha, "number of symbols per cell"),
            (symbol_bytes, "symbol length"),
            (alignment_bytes, "alignment"),
            (source_count, "number of sources"),
        ] {
            if value == 0 {
                return Err(GeometryError::Zero { what });
            }
        }
        if !data_bytes.is_multiple_of(source_count.into()) || !native_count.is_multiple_of(source_count) {
            return Err(GeometryError::Sources { data_bytes, native_count, source_count });
        }
        if symbol_bytes % alignment_bytes != 0 {
            return Err(GeometryError::Unaligned { symbol_bytes, alignment_bytes });
        }
        // Two u32 factors never overflow a u64; the third factor may.
        let full_cell = u64::from(symbol_bytes) * u64::from(alpha);
        let full_cells = full_cell.checked_mul(self.full_stripe_count());
        let last_cell = u64::from(self.last_symbol_bytes()) * u64::from(alpha);
        match full_cells.and_then(|bytes| bytes.checked_add(last_cell)) {
            Some(payload_bytes) if payload_bytes <= MAX_PAYLOAD_BYTES => Ok(()),
            _ => Err(GeometryError::TooLong),
        }
    }

    /// How one source lies in its shards, as a segment by itself.
    pub fn source(&self) -> Self {
        let source_count = self.source_count;
        let (data_bytes, native_count) = (self.data_bytes / u64::from(source_count), self.native_count / source_count);
        Self { data_bytes, native_count, source_count: 1, ..*self }
    }

    /// How `count` segments that lie so lie as one.
    pub fn merged(&self, count: u32) -> Self {
        Self {
            data_bytes: self.data_bytes * u64::from(count),
            native_count: self.native_count * count,
            source_count: self.source_count * count,
            ..*self
        }
    }

    /// Stripes in the segment.
    pub fn stripe_count(&self) -> u32 {
        let count = self.source_bytes().div_ceil(self.full_stripe_bytes());
        u32::try_from(count).expect("at most MAX_SEGMENT_BYTES stripes of at least one byte")
    }

    /// Stripe `index`; past the last one, an empty stripe at the end.
    pub fn stripe(&self, index: u32) -> Stripe {
        let full_data = self.full_stripe_bytes();
        let full_cell = u64::from(self.symbol_bytes) * u64::from(self.alpha);
        let full_count = self.full_stripe_count();
        let number = u64::from(index);
        if number < full_count {
            return Stripe {
                index,
                data: number * full_data..(number + 1) * full_data,
                symbol_bytes: self.symbol_bytes,
                cell: number * full_cell..(number + 1) * full_cell,
            };
        }
        let payload_bytes = self.payload_bytes();
        if index >= self.stripe_count() {
            let (data, cell) = (self.source_bytes()..self.source_bytes(), payload_bytes..payload_bytes);
            return Stripe { index, data, symbol_bytes: 0, cell };
        }
        Stripe {
            index,
            data: number * full_data..self.source_bytes(),
            symbol_bytes: self.last_symbol_bytes(),
            cell: number * full_cell..payload_bytes,
        }
    }

    /// All stripes, in order.
    pub fn stripes(&self) -> impl Iterator<Item = Stripe> + use<> {
        let geometry = *self;
        (0..geometry.stripe_count()).map(move |index| geometry.stripe(index))
    }

    /// The stripes that carry data bytes `range` (cut at the end) of a source, in order.
    fn stripes_of(&self, range: Range<u64>) -> impl Iterator<Item = Stripe> + use<> {
        let geometry = *self;
        let range = range.start.min(geometry.source_bytes())..range.end.min(geometry.source_bytes());
        let full_data = geometry.full_stripe_bytes();
        let last = if range.is_empty() { range.start / full_data } else { range.end.div_ceil(full_data) };
        (range.start / full_data..last).map(move |index| geometry.stripe(index as u32))
    }

    /// Payload bytes of each shard.
    pub fn payload_bytes(&self) -> u64 {
        let full_symbols = self.full_stripe_count() * u64::from(self.symbol_bytes);
        (full_symbols + u64::from(self.last_symbol_bytes())) * u64::from(self.alpha)
    }

    /// The data bytes that native symbol `native` of `stripe` holds; shorter than the symbol where padding begins, empty
    /// where all of it is padding.
    pub fn native_range(&self, stripe: &Stripe, native: u32) -> Range<u64> {
        let (source, native) = (native / self.source_native_count(), native % self.source_native_count());
        let before = u64::from(source) * self.source_bytes();
        let start = stripe.data.start + u64::from(native) * u64::from(stripe.symbol_bytes);
        let end = start + u64::from(stripe.symbol_bytes);
        before + start.min(stripe.data.end)..before + end.min(stripe.data.end)
    }

    /// Where symbol `sub` (`0..alpha`) of `stripe` lies within a shard's payload.
    pub fn symbol_range(&self, stripe: &Stripe, sub: u32) -> Range<u64> {
        let start = stripe.cell.start + u64::from(sub) * u64::from(stripe.symbol_bytes);
        start..start + u64::from(stripe.symbol_bytes)
    }

    /// Data bytes `range` (cut at the segment's end) as runs within one native symbol each, in order.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        let (geometry, source_bytes) = (*self, self.source_bytes());
        let range = geometry.clip(range);
        (range.start / source_bytes..range.end.div_ceil(source_bytes)).flat_map(move |source| {
            let before = source * source_bytes;
            let within = range.start.max(before) - before..range.end.min(before + source_bytes).max(before) - before;
            let natives_before = source as u32 * geometry.source_native_count();
            geometry.pieces_of_source(within).map(move |piece| Piece {
                native: natives_before + piece.native,
                data_offset: before + piece.data_offset,
                ..piece
            })
        })
    }

    /// As [`Self::pieces`], of the first source.
    fn pieces_of_source(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        let geometry = *self;
        geometry.stripes_of(range.clone()).flat_map(move |stripe| {
            let symbol_bytes = u64::from(stripe.symbol_bytes);
            let start = range.start.max(stripe.data.start) - stripe.data.start;
            let end = range.end.min(stripe.data.end) - stripe.data.start;
            (start / symbol_bytes..end.div_ceil(symbol_bytes)).map(move |native| {
                let symbol = native * symbol_bytes..(native + 1) * symbol_bytes;
                let (from, to) = (start.max(symbol.start), end.min(symbol.end));
                Piece {
                    stripe: stripe.index,
                    native: native as u32,
                    within_symbol: (from - symbol.start) as u32..(to - symbol.start) as u32,
                    data_offset: stripe.data.start + from,
                }
            })
        })
    }

    /// Data bytes `range` (cut at the segment's end) and the rest of the stripes that carry them, of the sources that they lie in.
    pub fn whole_stripes(&self, range: Range<u64>) -> Range<u64> {
        let range = self.clip(range);
        let (source_bytes, stripe_bytes) = (self.source_bytes(), self.full_stripe_bytes());
        let start = range.start - range.start % source_bytes % stripe_bytes;
        let before = range.end.saturating_sub(1) / source_bytes * source_bytes;
        let end = before + (range.end - before).next_multiple_of(stripe_bytes).min(source_bytes);
        if range.is_empty() { range } else { start..end }
    }

    fn clip(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.min(self.data_bytes);
        range.start.min(end)..end
    }

    /// Data bytes of a source.
    pub fn source_bytes(&self) -> u64 {
        self.data_bytes / u64::from(self.source_count)
    }

    fn source_native_count(&self) -> u32 {
        self.native_count / self.source_count
    }

    /// Data bytes of a source in one of its full stripes.
    pub fn full_stripe_bytes(&self) -> u64 {
        u64::from(self.source_native_count()) * u64::from(self.symbol_bytes)
    }

    fn full_stripe_count(&self) -> u64 {
        self.source_bytes() / self.full_stripe_bytes()
    }

    /// Symbol length of the partial stripe at the end; 0 where there is none.
    fn last_symbol_bytes(&self) -> u32 {
        let rest = self.source_bytes() % self.full_stripe_bytes();
        let shortest = rest.div_ceil(u64::from(self.source_native_count()));
        // At most `symbol_bytes`, which is itself a multiple of the alignment.
        shortest.next_multiple_of(u64::from(self.alignment_bytes)) as u32
    }
}

#[cfg(test)]
#[path = "geometry_tests.rs"]
mod tests;
