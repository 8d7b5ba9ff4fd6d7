//! Clay: MDS codes that repair a lost shard from the fewest bytes that theory allows, by coupling layers of an ordinary
//! code.
//!
//! Construction (Vajha et al., FAST 2018), for `q = m`, `t = ceil(n / q)`: arrange `q t` nodes in `t` columns of `q`;
//! node `(x, y)` is row `x` of column `y`. Data shards fill the columns first, the `m` parities are the last column,
//! and the `q t - n` nodes between them hold zeros and are not stored (shortening). Each node has `alpha = q^t`
//! symbols, one for each plane `z = (z_0, ..., z_(t-1))`; `z_0` is the most significant digit of the sub-symbol's
//! number. Symbol `C(x, y; z)` and its partner `C(z_y, y; z with x for z_y)` are coupled:
//!
//! ```text
//! U  = C + g C*          U* = g C + C*         g = 2;  U = C where x = z_y
//! ```
//!
//! In every plane the uncoupled symbols `U` are a codeword of one `[q t, q t - q]` MDS code, that of the normalised
//! Cauchy matrix of `rs`. Any two of `C`, `C*`, `U`, `U*` determine the others.
//!
//! Decoding (`draft` below) chooses `q` nodes whose `U` are unknown, including all nodes that cannot be read. A node is
//! at home in a plane if `x = z_y`. Planes in which fewer of the unknown nodes are at home come first. There the `U` of
//! all other nodes follow from the reads and from earlier planes, the missing `U` from the MDS code, and the missing
//! `C` from both. The same steps in reverse, from the wanted symbols to those they need, find the reads: to repair node
//! `(x, y)` take its column as the unknown nodes, and only planes with `z_y = x` are needed.
//!
//! Cost: `n / k` stored, as for every MDS code. A repair reads `1 / q` of each of the `n - 1` others, plain symbols in
//! runs of `q^(t-1-y)`. No helper computes anything. `h < q` lost shards are repaired together: from `h / q` of each other
//! if they lie in one column, which is the least possible, and from a little more elsewhere (`joint` below); from `k` shards
//! where that is less. With few symbols every set is tried, so no plan is cheaper at any prices; and
//! small codes ask nodes that can to combine, where that is cheaper. Encoding multiplies 1.5 to 2 times as often as
//! `rs` does.
//!
//! ```
//! use weft_codes::{Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("clay:4+2")?;
//! assert_eq!(code.shape().alpha, 8);
//! let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
//! let have = Offers((0..6).map(|shard| (shard != 1).then_some(offer)).collect());
//! let plan = code.plan(&Wanted::Shards(vec![1]), &have)?;
//! assert_eq!(plan.reads.len(), 5 * 8 / 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod draft;
mod joint;

use super::parameters::{Problem, data_and_parity, require};
use super::{Family, rs};
use crate::code::{Code, Content, Offer, Offers, Plan, PlanError, Price, Shape, Wanted};
use crate::exec::OnceLock;
use crate::linear::{self, LazyGenerator};
use crate::matrix::Matrix;
use crate::program::Program;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use draft::{Draft, Sources};
use joint::Joint;

pub(super) const FAMILY: Family = Family {
    name: "clay",
    syntax: "clay:data+parity",
    example: "clay:4+2",
    description: "coupled layers: any `parity` shards may be lost, repair of one reads 1/parity of each other",
    source: "Vajha et al.: Clay codes: moulding MDS codes to yield an MSR code (FAST 2018)",
    build,
};

/// The most symbols of a cell. With more, cells of usual size have tiny symbols.
const MOST_SYMBOLS_PER_CELL: usize = 1024;

/// The code of a plane is one over GF(2^8).
const MOST_NODES: usize = 256;

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let (k, m) = data_and_parity(parameters)?;
    rs::check_counts(k, m)?;
    require(m >= 2, || format!("with 1 parity nothing is gained over raid5:{}", k + 1))?;
    let t = (k + m).div_ceil(m);
    let alpha = u32::try_from(t).ok().and_then(|t| m.checked_pow(t)).filter(|&alpha| alpha <= MOST_SYMBOLS_PER_CELL);
    let alpha = alpha.ok_or_else(|| {
        let reason = format!("{m}^{t} symbols per cell are needed, more than {MOST_SYMBOLS_PER_CELL}");
        Problem::Impossible(reason)
    })?;
    require(m * t <= MOST_NODES, || format!("GF(2^8) allows {MOST_NODES} nodes, not {m} * {t}"))?;
    Ok(Arc::new(Clay::new(k, m, t, alpha)))
}

pub(super) struct Clay {
    spec: String,
    shape: Shape,
    /// Nodes per column; as many as there are parities.
    q: usize,
    /// Columns.
    t: usize,
    /// The checks of the code of a plane: a row per check, a column per node.
    parity_check: Matrix,
    encode: OnceLock<Program>,
    generator: LazyGenerator,
}

/// A symbol: shard and plane.
type Place = (usize, usize);

impl Clay {
    fn new(k: usize, m: usize, t: usize, alpha: usize) -> Clay {
        let native_count = k * alpha;
        let content = |symbol| if symbol < native_count { Content::Native(symbol) } else { Content::Coded };
        let shape = Shape {
            n: k + m,
            k,
            alpha,
            native_count,
            symbol_alignment_bytes: 1,
            tolerance: m,
            contents: (0..(k + m) * alpha).map(content).collect(),
            groups: Vec::new(),
        };
        let parity_check = rs::normalised_cauchy(m * (t - 1), m).beside(&Matrix::identity(m));
        let (encode, generator) = (OnceLock::new(), LazyGenerator::new());
        Clay { spec: format!("clay:{k}+{m}"), shape, q: m, t, parity_check, encode, generator }
    }

    fn node_count(&self) -> usize {
        self.q * self.t
    }

    /// The node of a shard. No shard has a node between data and parities.
    fn node(&self, shard: usize) -> usize {
        if shard < self.shape.k { shard } else { shard + self.node_count() - self.shape.n }
    }

    /// The shard of a node; `None` if the node holds zeros.
    fn shard(&self, node: usize) -> Option<usize> {
        let first_parity = self.node_count() - self.q;
        match node {
            _ if node < self.shape.k => Some(node),
            _ if node < first_parity => None,
            _ => Some(node - first_parity + self.shape.k),
        }
    }

    /// Is the node at home in the plane, `x = z_y`?
    fn is_at_home(&self, node: usize, plane: usize) -> bool {
        self.partner(node, plane).is_none()
    }

    /// Node and plane of the partner; `None` for a symbol that is not coupled.
    fn partner(&self, node: usize, plane: usize) -> Option<(usize, usize)> {
        let (x, y) = (node % self.q, node / self.q);
        let digit = self.digit(plane, y);
        (digit != x).then(|| (y * self.q + digit, self.with_digit(plane, y, x)))
    }

    /// `z_y` of a plane.
    fn digit(&self, plane: usize, y: usize) -> usize {
        plane / self.weight(y) % self.q
    }

    /// The plane with this digit for `z_y`.
    fn with_digit(&self, plane: usize, y: usize, digit: usize) -> usize {
        plane - self.digit(plane, y) * self.weight(y) + digit * self.weight(y)
    }

    fn weight(&self, y: usize) -> usize {
        self.q.pow((self.t - 1 - y) as u32)
    }

    /// The wanted symbols, one per output.
    fn places(&self, wanted: &Wanted) -> Vec<Place> {
        let alpha = self.shape.alpha;
        match wanted {
            Wanted::Natives(natives) => natives.iter().map(|native| (native / alpha, native % alpha)).collect(),
            Wanted::Shards(shards) => {
                shards.iter().flat_map(|&shard| (0..alpha).map(move |plane| (shard, plane))).collect()
            }
        }
    }

    /// The cheapest draft that reads nothing of the shards left out; `None` if fewer than `k` shards remain.
    fn cheapest(&self, wanted: &[Place], have: &Offers, left_out: &[usize]) -> Option<Draft<'_>> {
        let is_offered = |shard: usize| have.0[shard].is_some() && !left_out.contains(&shard);
        let offered: Vec<usize> = (0..self.shape.n).filter(|&shard| is_offered(shard)).collect();
        let lost: Vec<Place> = wanted.iter().copied().filter(|&(shard, _)| !is_offered(shard)).collect();
        if lost.is_empty() {
            return Some(Draft::new(self, Sources::plain(self, &offered), wanted));
        }
        if offered.len() < self.shape.k {
            return None;
        }
        let mut sources = vec![
            Sources::fewest_shards(self, &offered, wanted, have),
            Sources::fewest_planes(self, &offered, &lost, have),
        ];
        if lost.len() < self.shape.alpha / self.q {
            sources.push(Sources::fewest_partners(self, &offered, &lost, have));
        }
        let drafts = sources.into_iter().map(|sources| Draft::new(self, sources, wanted));
        drafts.min_by_key(|draft| have.price(&draft.reads()))
    }

    /// The plan that repairs all that cannot be read together, where at least a whole shard of it is wanted: parts of a
    /// shard are read from fewer symbols otherwise.
    fn joint(&self, wanted: &[Place], have: &Offers) -> Option<Plan> {
        let lost_count = wanted.iter().filter(|(shard, _)| have.0[*shard].is_none()).count();
        if lost_count < self.shape.alpha {
            return None;
        }
        let lost = (0..self.shape.n).filter(|&shard| have.0[shard].is_none());
        Some(Joint::new(self, lost.map(|shard| self.node(shard)).collect())?.plan(wanted, have))
    }

    /// A lower bound on the price: `symbol_count` symbols at the lowest price.
    fn least_price(symbol_count: usize, have: &Offers) -> Price {
        let least = |price: fn(&Offer) -> Price| have.0.iter().flatten().map(price).min().unwrap_or(0);
        let symbols_price = least(|offer| offer.symbol_price).saturating_mul(symbol_count as Price);
        symbols_price.saturating_add(least(|offer| offer.request_price))
    }
}

impl Code for Clay {
    fn spec(&self) -> &str {
        &self.spec
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encode(&self) -> &Program {
        self.encode.get_or_init(|| {
            let Shape { n, k, .. } = self.shape;
            let data: Vec<usize> = (0..k).collect();
            let parities = self.places(&Wanted::Shards((k..n).collect()));
            Draft::new(self, Sources::these(self, &data), &parities).program()
        })
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        linear::check(self, wanted, have)?;
        let places = self.places(wanted);
        let Some(mut best) = self.cheapest(&places, have, &[]) else {
            // Any k shards are independent of any other, so what is not offered is lost.
            let is_lost = |shard: usize| have.0[shard].is_none();
            let alpha = self.shape.alpha;
            return Err(PlanError::unrecoverable(
                self,
                match wanted {
                    Wanted::Natives(natives) => {
                        Wanted::Natives(natives.iter().copied().filter(|native| is_lost(native / alpha)).collect())
                    }
                    Wanted::Shards(shards) => Wanted::Shards(shards.iter().copied().filter(|&s| is_lost(s)).collect()),
                },
                have,
            ));
        };
        let mut price = have.price(&best.reads());
        let mut distinct = places.clone();
        distinct.sort_unstable();
        distinct.dedup();
        let least_price = Clay::least_price(distinct.len().min(self.shape.native_count), have);
        // A shard that is dear to read may be cheaper to decode, and all beyond k shards can be decoded.
        let is_much = distinct.len() > self.shape.native_count;
        let mut dear: Vec<usize> = distinct.iter().map(|&(shard, _)| shard).collect();
        dear.dedup();
        dear.retain(|&shard| have.0[shard].is_some() && (is_much || is_dear(shard, have)));
        let mut left_out = Vec::new();
        while price > least_price {
            let without = |&shard: &usize| {
                let draft = self.cheapest(&places, have, &[&left_out[..], &[shard]].concat())?;
                Some((have.price(&draft.reads()), shard, draft))
            };
            match dear.iter().filter_map(without).min_by_key(|(price, ..)| *price) {
                Some((cheaper, shard, draft)) if cheaper < price => {
                    (price, best) = (cheaper, draft);
                    left_out.push(shard);
                }
                _ => break,
            }
        }
        if price <= least_price {
            return Ok(best.plan(price));
        }
        let joint = self.joint(&places, have).filter(|joint| joint.price < price);
        let price = joint.as_ref().map_or(price, |joint| joint.price);
        let engine = || linear::plan(self, self.generator.of(self), wanted, have);
        let cheaper = linear::cheaper_than(price, &self.shape, have, engine)?;
        Ok(cheaper.or(joint).unwrap_or_else(|| best.plan(price)))
    }
}

/// Does another shard cost less?
fn is_dear(shard: usize, have: &Offers) -> bool {
    have.0[shard].is_some_and(|dear| {
        let is_less =
            |offer: &Offer| offer.symbol_price < dear.symbol_price || offer.request_price < dear.request_price;
        have.0.iter().flatten().any(is_less)
    })
}
