//! The front door: data to shards and back, with nothing to know but a spec.

mod error;
mod repair;

use crate::code::{Code, Content, Offer, Offers, Plan, PlanError, Price, Shape, Wanted};
use crate::exec::{Compiled, executor};
use crate::spec;
use alloc::borrow::ToOwned;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
pub use error::CodecError;
use repair::pieces;
pub use repair::{RepairPlan, ShardRead};

/// Bytes of each symbol that [`Codec::verify`] compares at a time, so that its buffers stay in cache.
const VERIFY_BYTES: usize = 16 << 10;

/// No code needs symbols longer than this for their alignment alone.
const MOST_ALIGNMENT_BYTES: usize = 64 << 10;

/// Encodes data into shards, and computes lost shards and data from those that are left.
///
/// A codec treats its data as one stripe. It cuts the data into `native_count` symbols of equal length, in order, and pads
/// the last ones with zeros. A shard is its `alpha` symbols, one after the other; all shards have the same length
/// ([`Codec::shard_bytes`]). The length of the data is not stored: the caller keeps it for [`Codec::decode`].
///
/// A codec plans with equal prices and reads plain ranges. Callers with slow nodes, nodes that combine symbols before they
/// send them, or frames of their own use [`Code::plan`] and [`Executor`](crate::Executor), as the codec does.
///
/// ```
/// use weft_codes::Codec;
///
/// let codec = Codec::new("rs:4+2")?;
/// let data = b"any bytes, of any length";
/// let mut shards: Vec<Option<Vec<u8>>> = codec.encode(data).into_iter().map(Some).collect();
/// (shards[1], shards[4]) = (None, None);
/// codec.reconstruct(&mut shards)?;
/// assert_eq!(codec.decode(&shards, data.len())?, data);
/// # Ok::<(), weft_codes::CodecError>(())
/// ```
#[derive(Clone)]
pub struct Codec {
    code: Arc<dyn Code>,
    /// The code's shape, kept because it was checked.
    shape: Shape,
    encode: Compiled,
    homes: Vec<Vec<usize>>,
}

impl Codec {
    /// The codec of the code that this spec names, such as `rs:4+2`.
    ///
    /// # Errors
    /// [`CodecError::Spec`]: the spec names no code.
    pub fn new(spec: &str) -> Result<Codec, CodecError> {
        Codec::of(spec::parse(spec)?)
    }

    /// The codec of this code.
    ///
    /// # Errors
    /// [`CodecError::Inconsistent`] or [`CodecError::Program`]: the code contradicts itself. No code of this crate does.
    pub fn of(code: Arc<dyn Code>) -> Result<Codec, CodecError> {
        let shape = code.shape().clone();
        let encode = Compiled::new(code.encode().clone())?;
        let inconsistent = |detail| CodecError::Inconsistent { code: code.spec().to_owned(), detail };
        let is_native = |content: &Content| matches!(content, Content::Native(native) if *native < shape.native_count);
        if shape.n.checked_mul(shape.alpha) != Some(shape.contents.len()) || shape.contents.is_empty() {
            return Err(inconsistent("its shape has other than n * alpha symbols"));
        }
        if shape.native_count == 0 || !(1..=MOST_ALIGNMENT_BYTES).contains(&shape.symbol_alignment_bytes) {
            return Err(inconsistent("its shape has no native symbols, or an alignment of 0 or of more than 64 KiB"));
        }
        if !shape.contents.iter().all(|content| *content == Content::Coded || is_native(content)) {
            return Err(inconsistent("its shape stores a native symbol that does not exist"));
        }
        let counts = (encode.program().input_count, encode.program().output_count);
        if counts != (shape.native_count, shape.coded_symbols().len()) {
            return Err(inconsistent("its encode program has other inputs or outputs than its shape"));
        }
        let homes = shape.homes();
        Ok(Codec { code, shape, encode, homes })
    }

    /// The code: its spec, shape and plans.
    #[must_use]
    pub fn code(&self) -> &dyn Code {
        &*self.code
    }

    /// Length in bytes of each shard of `data_bytes` of data: the data divided by the native symbols, rounded up to the
    /// alignment of a symbol, times the symbols of a shard. No data gives empty shards; a length beyond memory gives
    /// `usize::MAX`.
    #[must_use]
    pub fn shard_bytes(&self, data_bytes: usize) -> usize {
        self.symbol_bytes(data_bytes).saturating_mul(self.shape.alpha)
    }

    /// The length of a shard is a multiple of this.
    #[must_use]
    pub fn shard_alignment_bytes(&self) -> usize {
        self.shape.symbol_alignment_bytes.saturating_mul(self.shape.alpha)
    }

    /// The `n` shards of this data, each of [`Codec::shard_bytes`].
    #[must_use]
    pub fn encode(&self, data: &[u8]) -> Vec<Vec<u8>> {
        let shard_bytes = self.shard_bytes(data.len());
        let mut shards: Vec<Vec<u8>> = (0..self.shape.n).map(|_| vec![0; shard_bytes]).collect();
        let mut buffers: Vec<&mut [u8]> = shards.iter_mut().map(Vec::as_mut_slice).collect();
        self.fill(data, &mut buffers);
        shards
    }

    /// Encodes into buffers of the caller, which may hold anything before. Data is copied once and coded symbols are computed
    /// in place.
    ///
    /// # Errors
    /// [`CodecError::ShardCount`] or [`CodecError::ShardLength`]: the buffers are not `n` of [`Codec::shard_bytes`]; nothing
    /// was written.
    pub fn encode_into(&self, data: &[u8], shards: &mut [&mut [u8]]) -> Result<(), CodecError> {
        self.check_count(shards.len())?;
        let expected = self.shard_bytes(data.len());
        for (shard, buffer) in shards.iter().enumerate() {
            self.check_length(shard, buffer.len(), expected)?;
        }
        self.fill(data, shards);
        Ok(())
    }

    /// Fills shards whose count and lengths fit the data.
    fn fill(&self, data: &[u8], shards: &mut [&mut [u8]]) {
        let symbol_bytes = self.symbol_bytes(data.len());
        if symbol_bytes == 0 {
            return;
        }
        // Whole symbols are read where they lie; the last, broken one and those beyond the data are padded here.
        let (whole, broken) = data.split_at(data.len() / symbol_bytes * symbol_bytes);
        let mut padded = vec![0; self.shape.native_count * symbol_bytes - whole.len()];
        padded[..broken.len()].copy_from_slice(broken);
        let mut coded: Vec<&mut [u8]> = Vec::new();
        for (shard, contents) in shards.iter_mut().zip(self.shape.contents.chunks(self.shape.alpha)) {
            if contents.iter().all(|content| *content == Content::Coded) {
                coded.push(shard);
                continue;
            }
            for (symbol, content) in shard.chunks_mut(symbol_bytes).zip(contents) {
                match content {
                    Content::Native(native) => {
                        let start = native * symbol_bytes;
                        let (from, start) =
                            if start < whole.len() { (whole, start) } else { (&padded[..], start - whole.len()) };
                        symbol.copy_from_slice(&from[start..start + symbol_bytes]);
                    }
                    Content::Coded => coded.push(symbol),
                }
            }
        }
        executor()
            .run_pieces(&self.encode, symbol_bytes, &[whole, &padded], &mut coded)
            .expect("pieces are the symbols of a shape that was checked");
    }

    /// Computes each shard that is `None` from the others. All or none: on an error nothing has changed.
    ///
    /// It plans each time. For many stripes with the same loss, [`Codec::repair_plan`] plans once.
    ///
    /// # Errors
    /// [`CodecError::Plan`]: too many shards are lost. [`CodecError::ShardCount`], [`CodecError::ShardLength`],
    /// [`CodecError::ShardAlignment`]: the shards are not those of one stripe.
    pub fn reconstruct(&self, shards: &mut [Option<Vec<u8>>]) -> Result<(), CodecError> {
        let shard_bytes = self.common_length(shards)?;
        let lost: Vec<usize> = (0..shards.len()).filter(|&shard| shards[shard].is_none()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let plan = self.repair_plan(&lost, shard_bytes)?;
        let bytes: Vec<&[u8]> = plan.reads().iter().map(|read| read.of(shards)).collect();
        let repaired = plan.repair(&bytes)?;
        for (shard, bytes) in lost.into_iter().zip(repaired) {
            shards[shard] = Some(bytes);
        }
        Ok(())
    }

    /// The data of these shards, as many as suffice; `data_bytes` is the length that was encoded.
    ///
    /// # Errors
    /// [`CodecError::Plan`]: too many shards are lost. [`CodecError::ShardCount`] or [`CodecError::ShardLength`]: the shards
    /// are not those of so much data.
    pub fn decode<S: AsRef<[u8]>>(&self, shards: &[Option<S>], data_bytes: usize) -> Result<Vec<u8>, CodecError> {
        self.check_count(shards.len())?;
        let expected = self.shard_bytes(data_bytes);
        for (shard, bytes) in shards.iter().enumerate() {
            if let Some(bytes) = bytes {
                self.check_length(shard, bytes.as_ref().len(), expected)?;
            }
        }
        if data_bytes == 0 {
            return Ok(Vec::new());
        }
        let symbol_bytes = self.symbol_bytes(data_bytes);
        let wanted = Wanted::Natives((0..data_bytes.div_ceil(symbol_bytes)).collect());
        let have = offers(shards.iter().map(Option::is_some));
        if have.0.iter().all(Option::is_none) {
            return Err(PlanError::unrecoverable(self.code(), wanted, &have).into());
        }
        let (reads, program) = self.planned(&wanted, &have, symbol_bytes)?;
        let bytes: Vec<&[u8]> = reads.iter().map(|read| read.of(shards)).collect();
        let mut data = vec![0; program.program().output_count * symbol_bytes];
        executor().run_pieces(&program, symbol_bytes, &bytes, &mut [&mut data]).map_err(CodecError::Run)?;
        data.truncate(data_bytes);
        Ok(data)
    }

    /// Are all shards there and consistent with each other? `false` says that at least one byte of a shard is wrong, not which.
    ///
    /// A code finds any change of at most `tolerance` shards. To know which shard is damaged, keep a checksum of each.
    ///
    /// # Errors
    /// [`CodecError::ShardCount`], [`CodecError::ShardLength`], [`CodecError::ShardAlignment`]: the shards are not those of
    /// one stripe.
    pub fn verify<S: AsRef<[u8]>>(&self, shards: &[S]) -> Result<bool, CodecError> {
        let shards: Vec<Option<&[u8]>> = shards.iter().map(|shard| Some(shard.as_ref())).collect();
        let symbol_bytes = self.common_length(&shards)? / self.shape.alpha;
        let stored: Vec<&[u8]> = match symbol_bytes {
            0 => return Ok(true),
            _ => shards.iter().flatten().flat_map(|shard| shard.chunks(symbol_bytes)).collect(),
        };
        // Of a code that stores no plain data, the data has to be decoded first.
        let decoding = match self.homes.iter().all(|homes| !homes.is_empty()) {
            true => None,
            false => {
                let wanted = Wanted::Natives((0..self.shape.native_count).collect());
                Some(self.planned(&wanted, &offers(shards.iter().map(Option::is_some)), 1)?)
            }
        };
        let coded = self.shape.coded_symbols();
        for start in (0..symbol_bytes).step_by(VERIFY_BYTES) {
            let bytes = VERIFY_BYTES.min(symbol_bytes - start);
            let part = |symbol: usize| &stored[symbol][start..start + bytes];
            let mut decoded = Vec::new();
            let natives: Vec<&[u8]> = match &decoding {
                None => self.homes.iter().map(|homes| part(homes[0])).collect(),
                Some((reads, program)) => {
                    let inputs: Vec<&[u8]> =
                        reads.iter().flat_map(|read| read.symbols(self.shape.alpha)).map(part).collect();
                    decoded.resize(self.shape.native_count * bytes, 0);
                    let mut outputs: Vec<&mut [u8]> = decoded.chunks_mut(bytes).collect();
                    executor().run(program, &inputs, &mut outputs).map_err(CodecError::Run)?;
                    decoded.chunks(bytes).collect()
                }
            };
            let mut computed = vec![0; coded.len() * bytes];
            let mut outputs: Vec<&mut [u8]> = computed.chunks_mut(bytes).collect();
            executor().run(&self.encode, &natives, &mut outputs).map_err(CodecError::Run)?;
            let are_copies =
                self.homes.iter().zip(&natives).all(|(homes, native)| homes.iter().all(|&home| part(home) == *native));
            if !are_copies || !coded.iter().zip(computed.chunks(bytes)).all(|(&symbol, right)| part(symbol) == right) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says which ranges of which shards to read in order to compute the `lost` ones, for shards of `shard_bytes`. It reads
    /// none of the lost shards; to leave out a shard that is slow or away, name it as lost, too.
    ///
    /// The reads are the fewest bytes that the code's planner finds: of one lost shard often fewer than those of `k` shards.
    ///
    /// ```
    /// use weft_codes::Codec;
    ///
    /// let codec = Codec::new("clay:4+2")?;
    /// let shards = codec.encode(&[7; 4096]);
    /// let plan = codec.repair_plan(&[2], shards[0].len())?;
    /// let bytes: Vec<&[u8]> = plan.reads().iter().map(|read| &shards[read.shard][read.range.clone()]).collect();
    /// assert_eq!(plan.repair(&bytes)?, [shards[2].clone()]);
    /// assert!(plan.read_bytes() * 8 == 4096 * 5, "half of each of the five others, where k shards are four");
    /// # Ok::<(), weft_codes::CodecError>(())
    /// ```
    ///
    /// # Errors
    /// [`CodecError::Plan`]: a lost shard does not exist, or does not follow from the others.
    /// [`CodecError::ShardAlignment`]: shards of this code cannot have this length.
    pub fn repair_plan(&self, lost: &[usize], shard_bytes: usize) -> Result<RepairPlan, CodecError> {
        self.check_alignment(shard_bytes)?;
        let symbol_bytes = shard_bytes / self.shape.alpha;
        let have = offers((0..self.shape.n).map(|shard| !lost.contains(&shard)));
        let (reads, program) = self.planned(&Wanted::Shards(lost.to_vec()), &have, symbol_bytes)?;
        Ok(RepairPlan { reads, program, symbol_bytes, shard_bytes, lost_count: lost.len() })
    }

    /// Length of a symbol of `data_bytes` of data.
    fn symbol_bytes(&self, data_bytes: usize) -> usize {
        let even = data_bytes.div_ceil(self.shape.native_count);
        even.checked_next_multiple_of(self.shape.symbol_alignment_bytes).unwrap_or(usize::MAX)
    }

    /// The ranges to read, and the program to run over them.
    fn planned(
        &self,
        wanted: &Wanted,
        have: &Offers,
        symbol_bytes: usize,
    ) -> Result<(Vec<ShardRead>, Compiled), CodecError> {
        let Plan { reads, program, .. } = self.code.plan(wanted, have)?;
        let read_count = reads.len();
        let symbol_count = match wanted {
            Wanted::Natives(natives) => natives.len(),
            Wanted::Shards(shards) => shards.len() * self.shape.alpha,
        };
        let reads = pieces(&self.shape, have, &reads, symbol_bytes)
            .filter(|_| (program.input_count, program.output_count) == (read_count, symbol_count))
            .ok_or_else(|| CodecError::Inconsistent {
                code: self.code.spec().to_owned(),
                detail: "its plan reads what was not offered, or computes something else",
            })?;
        Ok((reads, Compiled::new(program)?))
    }

    /// The length that all shards that are there have; 0 if none is.
    fn common_length<S: AsRef<[u8]>>(&self, shards: &[Option<S>]) -> Result<usize, CodecError> {
        self.check_count(shards.len())?;
        let mut lengths =
            shards.iter().enumerate().filter_map(|(shard, bytes)| Some((shard, bytes.as_ref()?.as_ref().len())));
        let Some((_, expected)) = lengths.next() else { return Ok(0) };
        lengths.try_for_each(|(shard, given)| self.check_length(shard, given, expected))?;
        self.check_alignment(expected)?;
        Ok(expected)
    }

    fn check_count(&self, given: usize) -> Result<(), CodecError> {
        match given == self.shape.n {
            true => Ok(()),
            false => Err(CodecError::ShardCount { code: self.code.spec().to_owned(), n: self.shape.n, given }),
        }
    }

    fn check_length(&self, shard: usize, given: usize, expected: usize) -> Result<(), CodecError> {
        match given == expected {
            true => Ok(()),
            false => Err(CodecError::ShardLength { code: self.code.spec().to_owned(), shard, expected, given }),
        }
    }

    fn check_alignment(&self, shard_bytes: usize) -> Result<(), CodecError> {
        let multiple = self.shard_alignment_bytes();
        match shard_bytes.is_multiple_of(multiple) {
            true => Ok(()),
            false => Err(CodecError::ShardAlignment { code: self.code.spec().to_owned(), shard_bytes, multiple }),
        }
    }
}

impl fmt::Debug for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec({})", self.code.spec())
    }
}

/// Equal offers of the shards that are there: first the fewest bytes, then the fewest shards.
fn offers(is_there: impl ExactSizeIterator<Item = bool>) -> Offers {
    let symbol_price = 1 + is_there.len() as Price;
    let offer = Offer { combines: false, request_price: 1, symbol_price };
    Offers(is_there.map(|is_there| is_there.then_some(offer)).collect())
}
