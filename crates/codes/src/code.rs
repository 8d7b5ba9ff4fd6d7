//! The contract of a code: shape, offers, plan.

use crate::program::Program;
use alloc::borrow::ToOwned;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

/// What a stored symbol holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A plain copy of this native symbol.
    Native(usize),
    /// A combination of several native symbols; computed by [`Code::encode`].
    Coded,
}

/// A set of shards within which some losses can be repaired without the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Shard indices of the group.
    pub shards: Vec<usize>,
    /// How many losses within the group the group repairs alone.
    pub repairs: usize,
}

/// The shape of a code. All counts are in symbols or shards, none in bytes except the alignment.
///
/// A stripe has `native_count` native symbols, which are its data, and `n * alpha` stored symbols. Shard `i` stores symbols
/// `i * alpha .. (i + 1) * alpha`, which together are its cell. All symbols of a stripe have the same length in bytes, a
/// multiple of `symbol_alignment_bytes`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Shards per segment (and cells per stripe).
    pub n: usize,
    /// Shards' worth of data; `n - k` is the redundancy where the code is MDS.
    pub k: usize,
    /// Symbols per cell (sub-packetisation).
    pub alpha: usize,
    /// Native symbols per stripe; `k * alpha` for MDS codes, fewer for MBR codes.
    pub native_count: usize,
    /// A symbol's length in bytes is a multiple of this.
    pub symbol_alignment_bytes: usize,
    /// Any this many shards can be lost and everything is still decoded.
    pub tolerance: usize,
    /// `n * alpha` entries: what stored symbol `shard * alpha + sub` holds.
    pub contents: Vec<Content>,
    /// Locality groups; empty where there are none.
    pub groups: Vec<Group>,
}

impl Shape {
    /// The stored symbols that are computed, in the order of [`Code::encode`]'s outputs.
    #[must_use]
    pub fn coded_symbols(&self) -> Vec<usize> {
        (0..self.contents.len()).filter(|&symbol| self.contents[symbol] == Content::Coded).collect()
    }

    /// By native symbol: the stored symbols that are plain copies of it. Contents that name other natives are left out.
    #[must_use]
    pub fn homes(&self) -> Vec<Vec<usize>> {
        let mut homes = vec![Vec::new(); self.native_count];
        for (symbol, content) in self.contents.iter().enumerate() {
            if let Content::Native(native) = *content
                && native < self.native_count
            {
                homes[native].push(symbol);
            }
        }
        homes
    }
}

/// A price in abstract units; only comparisons and sums matter.
pub type Price = u64;

/// What one shard's node offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Can the node compute a linear combination of its own symbols before sending?
    pub combines: bool,
    /// Price of one request to this node, whatever its size.
    pub request_price: Price,
    /// Price of one symbol sent by this node.
    pub symbol_price: Price,
}

/// Offers by shard index; `None` is a shard that cannot be read (lost, silent or not asked).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offers(pub Vec<Option<Offer>>);

impl Offers {
    /// The price of these reads: each symbol, and one request to each shard that is read. Shards that are not offered
    /// cost nothing, because no plan reads them.
    #[must_use]
    pub fn price(&self, reads: &[Read]) -> Price {
        let mut price: Price = 0;
        let mut is_asked = vec![false; self.0.len()];
        for read in reads {
            if let Some(Some(offer)) = self.0.get(read.shard) {
                let is_first = !core::mem::replace(&mut is_asked[read.shard], true);
                let request_price = if is_first { offer.request_price } else { 0 };
                price = price.saturating_add(request_price).saturating_add(offer.symbol_price);
            }
        }
        price
    }
}

/// What a plan computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// These native symbols, in this order (a read).
    Natives(Vec<usize>),
    /// All symbols of these shards, in this order (a repair).
    Shards(Vec<usize>),
}

/// `native symbols [0, 3]` or `shards [5]`.
impl fmt::Display for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wanted::Natives(natives) => write!(f, "native symbols {natives:?}"),
            Wanted::Shards(shards) => write!(f, "shards {shards:?}"),
        }
    }
}

/// One symbol to be transferred: a linear combination of symbols of one shard, most often a single symbol times 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// Shard index.
    pub shard: usize,
    /// (sub-symbol within the shard `0..alpha`, coefficient in GF(2^8)). More than one term, or a coefficient other
    /// than 1, needs a node that combines.
    pub terms: Vec<(usize, u8)>,
}

/// What to read and what to compute from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Input `i` of the program is read `i`.
    pub reads: Vec<Read>,
    /// Outputs are the wanted symbols, in the order of [`Wanted`]; for shards, all `alpha` symbols of one after those
    /// of the other.
    pub program: Program,
    /// Sum of what the reads cost.
    pub price: Price,
}

/// An erasure code.
pub trait Code: Send + Sync {
    /// The canonical spec string, e.g. `rs:4+2`.
    fn spec(&self) -> &str;
    /// The code's shape.
    fn shape(&self) -> &Shape;
    /// Inputs: all native symbols in order. Outputs: the stored symbols whose content is [`Content::Coded`], in order.
    fn encode(&self) -> &Program;
    /// The cheapest sufficient reads for `wanted`, and the program that follows.
    ///
    /// # Errors
    /// [`PlanError`]: the offers do not suffice, or the wanted symbols do not exist.
    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError>;
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The offers have fewer or more entries than the code has shards.
    #[error(
        "{code} has {n} shards but {given} offers were given; give one entry per shard, None where it cannot be read"
    )]
    OfferCount {
        /// Spec of the code.
        code: String,
        /// Shards of the code.
        n: usize,
        /// Entries given.
        given: usize,
    },
    /// A wanted native symbol does not exist.
    #[error("{code} has native symbols 0 to {last}, not {native}; ask for one of those", last = .native_count - 1)]
    NoSuchNative {
        /// Spec of the code.
        code: String,
        /// The native symbol asked for.
        native: usize,
        /// Native symbols of the code.
        native_count: usize,
    },
    /// A wanted shard does not exist.
    #[error("{code} has shards 0 to {last}, not {shard}; ask for one of those", last = .n - 1)]
    NoSuchShard {
        /// Spec of the code.
        code: String,
        /// The shard asked for.
        shard: usize,
        /// Shards of the code.
        n: usize,
    },
    /// The readable shards do not determine what is wanted.
    #[error("{code}: {lost} cannot be recovered from shards {readable:?}; bring back one of shards {missing:?}")]
    Unrecoverable {
        /// Spec of the code.
        code: String,
        /// The part of what is wanted that cannot be recovered.
        lost: Wanted,
        /// Shards that were offered.
        readable: Vec<usize>,
        /// Shards that were not.
        missing: Vec<usize>,
    },
}

impl PlanError {
    /// The error for `lost`, a part of what was wanted, which does not follow from the offered shards.
    #[must_use]
    pub fn unrecoverable(code: &dyn Code, lost: Wanted, have: &Offers) -> PlanError {
        let (readable, missing) = (0..have.0.len()).partition(|&shard| have.0[shard].is_some());
        PlanError::Unrecoverable { code: code.spec().to_owned(), lost, readable, missing }
    }
}
