//! Mojette: projections of a grid of data, XOR only, any `k` of `n` shards.
//!
//! The data are a grid of `k` rows of `l` elements. The projection along direction `(p, 1)` sums the elements of each
//! slanted line into a bin:
//!
//! ```text
//! bin[column + row p - min(0, (k - 1) p)] += element[row][column]       size = (k - 1) |p| + l
//! ```
//!
//! (Pertin et al.: Distributed file system based on erasure coding for I/O-intensive applications (2014), "RozoFS"; its
//! equation 2 has p and q exchanged.) Here an element is one symbol, so a bin is an XOR of whole symbols. Elements of
//! 256 to 1024 bytes run fastest, which the default `l` gives with cells of 64 KiB.
//!
//! - `mojette:k+m`: the `k` rows are stored plainly, with `m` projections of directions `i - floor(m / 2)`. Reads
//!   compute nothing, and less is stored than in the paper's form.
//! - `mojette:k+m,nonsystematic`: `n = k + m` projections of directions `i - floor(n / 2)`, as in the paper. Every read
//!   decodes.
//! - `mojette:layout-0`, `-1`, `-2`: RozoFS's layouts 2+1, 4+2, 8+4, systematic unless said otherwise.
//! - `l=` sets the columns. Without it they are a power of two for which padding stays near 1/16.
//!
//! Any `k` of the `n` shards decode, for any `l`, because directions are distinct (Katz's criterion). The inverse needs
//! no elimination. From the corners of the grid on, every element is the only unknown one of some bin; `k` projections
//! give `l` bins each, and each lost element is one sum of a bin and elements known by then.
//!
//! Cost: cells are as long as the longest projection; shorter ones end in zeros. [`Storage`] has the exact figures with
//! and without these zeros: `mojette:4+2` stores 1.570 bytes per byte (1.512 without them), and the cost falls with `1
//! / l`. A lost shard is repaired from at most `l` symbols of each of `k` shards. A native symbol is repaired from one
//! symbol of each if no other row is missing.
//!
//! ```
//! let code = weft_codes::parse("mojette:4+2,l=8")?;
//! assert_eq!((code.shape().n, code.shape().tolerance, code.shape().alpha), (6, 2, 11)); // 8 + 3 * |-1|
//! let lost_one = weft_codes::analysis::repair(&*code, &[2], false)?;
//! assert_eq!(lost_one.symbols_received, 8 + 6 + 7 + 7); // bins along -1, and elements of the other rows
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod columns;
mod grid;
mod plan;

use super::Family;
use super::parameters::{Problem, count, data_and_parity, require};
use super::sums;
use crate::code::{Code, Content, Offers, Plan, PlanError, Shape, Wanted};
use crate::linear::LazyGenerator;
use crate::program::Program;
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

pub use grid::{Element, Grid, Recovery};

pub(super) const FAMILY: Family = Family {
    name: "mojette",
    syntax: "mojette:data+parity or mojette:layout-0, -1, -2, with ,nonsystematic and ,l=columns where wanted",
    example: "mojette:4+2",
    description: "projections of a grid, XOR only; any `parity` shards may be lost",
    source: "Pertin et al.: Distributed file system based on erasure coding for I/O-intensive applications (2014)",
    build,
};

/// RozoFS's layouts as data and parity.
const LAYOUTS: [(&str, (usize, usize)); 3] = [("layout-0", (2, 1)), ("layout-1", (4, 2)), ("layout-2", (8, 4))];

/// More stored symbols per stripe would make programs of megabytes, and symbols of a few bytes.
const MOST_STORED_SYMBOLS: usize = 16_384;

/// The inverse of the share by which the longest projection is longer than a row, unless `l` is given.
const COLUMNS_PER_PADDING: usize = 16;

/// What shards store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Rows, and as many projections as there are parities.
    Systematic,
    /// Projections only.
    Nonsystematic,
}

/// A grid, and where its elements and bins are stored. Symbols have names: a stored symbol has the number of its place
/// (`shard * alpha + sub`); elements that are not stored follow row by row.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Layout {
    grid: Grid,
    form: Form,
    alpha: usize,
}

impl Layout {
    fn new(k: usize, m: usize, l: usize, form: Form) -> Layout {
        let grid = Grid::new(k, l, if form == Form::Systematic { m } else { k + m });
        let alpha = (0..grid.directions.len()).map(|projection| grid.bin_count(projection)).fold(l, usize::max);
        Layout { grid, form, alpha }
    }

    /// Shards that store a row.
    fn data_shards(&self) -> usize {
        if self.form == Form::Systematic { self.grid.rows } else { 0 }
    }

    fn shard_count(&self) -> usize {
        self.data_shards() + self.grid.directions.len()
    }

    fn stored_count(&self) -> usize {
        self.shard_count() * self.alpha
    }

    /// The number of symbols of the shard before its padding.
    fn height(&self, shard: usize) -> usize {
        match shard.checked_sub(self.data_shards()) {
            None => self.grid.columns,
            Some(projection) => self.grid.bin_count(projection),
        }
    }

    fn element(&self, (row, column): Element) -> usize {
        match self.form {
            Form::Systematic => row * self.alpha + column,
            Form::Nonsystematic => self.stored_count() + row * self.grid.columns + column,
        }
    }

    fn bin(&self, projection: usize, bin: usize) -> usize {
        (self.data_shards() + projection) * self.alpha + bin
    }

    fn element_of_native(&self, native: usize) -> Element {
        (native / self.grid.columns, native % self.grid.columns)
    }

    fn is_zero(&self, name: usize) -> bool {
        name < self.stored_count() && name % self.alpha >= self.height(name / self.alpha)
    }
}

/// What a Mojette code stores, in elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    /// By shard: the elements or bins of its cell, without padding.
    pub heights: Vec<usize>,
    /// Every cell's length, padding included.
    pub padded_height: usize,
    /// Elements of the data.
    pub data: usize,
    k: usize,
}

impl Storage {
    /// The storage of `k + m` shards of rows of `l` elements.
    #[must_use]
    pub fn new(k: usize, m: usize, l: usize, form: Form) -> Storage {
        let layout = Layout::new(k, m, l, form);
        let heights = (0..layout.shard_count()).map(|shard| layout.height(shard)).collect();
        Storage { heights, padded_height: layout.alpha, data: k * l, k }
    }

    /// Stored bytes per byte of data, padding included.
    #[must_use]
    pub fn factor(&self) -> f64 {
        (self.heights.len() * self.padded_height) as f64 / self.data as f64
    }

    /// The same if cells need not be equally long.
    #[must_use]
    pub fn factor_without_padding(&self) -> f64 {
        self.heights.iter().sum::<usize>() as f64 / self.data as f64
    }

    /// `1 + epsilon` of "(1 + epsilon) MDS": the bins of the `k` largest shards per element of data.
    #[must_use]
    pub fn worst_decoding_factor(&self) -> f64 {
        let mut heights = self.heights.clone();
        heights.sort_unstable();
        heights.iter().rev().take(self.k).sum::<usize>() as f64 / self.data as f64
    }
}

fn build(parameters: &str) -> Result<Arc<dyn Code>, Problem> {
    let mut parts = parameters.split(',');
    let counts = parts.next().ok_or(Problem::Syntax)?;
    let (k, m) = match LAYOUTS.iter().find(|(name, _)| *name == counts) {
        Some((_, counts)) => *counts,
        None => data_and_parity(counts)?,
    };
    let (mut form, mut given) = (Form::Systematic, None);
    for part in parts {
        match part.strip_prefix("l=") {
            Some(columns) if given.is_none() => given = Some(count(columns)?),
            None if part == "nonsystematic" && form == Form::Systematic => form = Form::Nonsystematic,
            _ => return Err(Problem::Syntax),
        }
    }
    require(k >= 1, || "at least 1 data shard is needed".to_owned())?;
    require(m >= 1, || "at least 1 parity shard is needed".to_owned())?;
    let default = default_columns(k, m, form);
    let l = given.unwrap_or(default);
    require(l >= 1, || "at least 1 column is needed".to_owned())?;
    let stored = stored_symbols(k, m, l, form);
    require(stored <= MOST_STORED_SYMBOLS, || {
        format!("a stripe would store {stored} symbols, more than the {MOST_STORED_SYMBOLS} that can be planned for")
    })?;
    let mut spec = format!("mojette:{k}+{m}");
    if form == Form::Nonsystematic {
        spec += ",nonsystematic";
    }
    if l != default {
        spec += &format!(",l={l}");
    }
    Ok(Arc::new(MojetteCode::new(spec, Layout::new(k, m, l, form))))
}

/// The largest power of two that keeps padding near its share, or a smaller one if that would be too many symbols.
fn default_columns(k: usize, m: usize, form: Form) -> usize {
    let longest_padding = stored_symbols(k, m, 1, form) / (k + m).max(1) - 1;
    let mut columns = (COLUMNS_PER_PADDING * longest_padding).next_power_of_two();
    while columns > 1 && stored_symbols(k, m, columns, form) > MOST_STORED_SYMBOLS {
        columns /= 2;
    }
    columns
}

/// `n * alpha`.
fn stored_symbols(k: usize, m: usize, l: usize, form: Form) -> usize {
    let projections = if form == Form::Systematic { m } else { k + m };
    (k + m) * ((k.max(1) - 1) * (projections / 2) + l)
}

/// The code of a layout.
struct MojetteCode {
    spec: String,
    layout: Layout,
    shape: Shape,
    encode: Program,
    generator: LazyGenerator,
}

impl MojetteCode {
    fn new(spec: String, layout: Layout) -> MojetteCode {
        let grid = &layout.grid;
        let (n, native_count) = (layout.shard_count(), grid.rows * grid.columns);
        let mut contents = vec![Content::Coded; layout.stored_count()];
        let natives: Vec<usize> =
            (0..native_count).map(|native| layout.element(layout.element_of_native(native))).collect();
        for (native, &name) in natives.iter().enumerate().filter(|(_, name)| **name < layout.stored_count()) {
            contents[name] = Content::Native(native);
        }
        let coded: Vec<usize> = (0..contents.len()).filter(|&name| contents[name] == Content::Coded).collect();
        let projections: Vec<usize> = (0..grid.directions.len()).collect();
        let sums: Vec<sums::Sum> = layout.projected(&projections).into_iter().chain(layout.zeros(&coded)).collect();
        let encode = sums::program(&natives, sums, &coded);
        let shape = Shape {
            n,
            k: grid.rows,
            alpha: layout.alpha,
            native_count,
            symbol_alignment_bytes: 1,
            tolerance: n - grid.rows,
            contents,
            groups: Vec::new(),
        };
        MojetteCode { spec, layout, shape, encode, generator: LazyGenerator::new() }
    }
}

impl Code for MojetteCode {
    fn spec(&self) -> &str {
        &self.spec
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encode(&self) -> &Program {
        &self.encode
    }

    fn plan(&self, wanted: &Wanted, have: &Offers) -> Result<Plan, PlanError> {
        plan::plan(self, &self.layout, &self.generator, wanted, have)
    }
}
