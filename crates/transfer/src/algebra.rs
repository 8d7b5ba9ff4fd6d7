//! Codes made ready: parsed once, their programs compiled once.

use crate::shared_shards::{Fit, alike, fit};
use parking_lot::RwLock;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;
use weft_codes::{Code, Compiled, Matrix, Offers, Plan, Program, Shape, Wanted};
use weft_format::ShardIndex;
use weft_format::geometry::Geometry;
use weft_format::records::SegmentRecord;

/// Recipes kept for each code: all single and double losses of n = 16, and a few prices; ...
const RECIPES_KEPT: usize = 256;
/// ... and at most so many bytes of them: one of RozoFS's own form for 8+4 takes some megabytes.
const RECIPES_BYTES: u64 = 32 << 20;

/// Recipes by what is asked.
type Recipes<K, R> = Cache<K, Arc<R>, ByBytes>;

fn recipes<K: Eq + Hash, R: Weighed>() -> Recipes<K, R> {
    Cache::with_weighter(RECIPES_KEPT, RECIPES_BYTES, ByBytes)
}

/// Weighs a recipe by its bytes, and none so little that more than [`RECIPES_KEPT`] would fit.
#[derive(Clone, Debug)]
pub(crate) struct ByBytes;

impl<K, R: Weighed> Weighter<K, Arc<R>> for ByBytes {
    fn weight(&self, _: &K, recipe: &Arc<R>) -> u64 {
        recipe.bytes().max(RECIPES_BYTES / RECIPES_KEPT as u64)
    }
}

/// What takes memory.
pub(crate) trait Weighed {
    /// About how many bytes of it.
    fn bytes(&self) -> u64;
}

/// Bytes for each symbol that a program that is ready names: the program itself, its steps, and their other form.
const BYTES_PER_SYMBOL: usize = 64;

impl Weighed for Recipe {
    fn bytes(&self) -> u64 {
        (BYTES_PER_SYMBOL * (self.reads.len() + self.program.program().access_count())) as u64
    }
}

impl Weighed for CombinedRecipe {
    fn bytes(&self) -> u64 {
        let of_helpers: usize = self.helpers.iter().map(|helper| helper.program.access_count()).sum();
        (BYTES_PER_SYMBOL * (of_helpers + self.program.program().access_count())) as u64
    }
}

/// A code, and what follows from it alone.
pub(crate) struct LoadedCode {
    pub(crate) code: Arc<dyn Code>,
    pub(crate) encode: Compiled,
    /// Stored symbols (`shard * alpha + sub`) that `encode` computes, in the order of its outputs.
    pub(crate) coded: Vec<usize>,
    /// By native symbol: the stored symbols that are plain copies of it.
    pub(crate) homes: Vec<Vec<usize>>,
    recipes: Recipes<Box<[u64]>, Recipe>,
    /// The same by what is wanted and read: of many prices come few plans, and to make a program ready takes longer than to plan.
    recipes_by_reads: Recipes<blake3::Hash, Recipe>,
    combined_recipes: Recipes<Box<[u64]>, CombinedRecipe>,
}

/// What to read and what to compute from it; for one stripe, and so for every stripe.
pub(crate) struct Recipe {
    /// (shard, sub) of the program's inputs.
    pub(crate) reads: Vec<(usize, usize)>,
    pub(crate) program: Compiled,
}

/// What helpers send, each a few combinations of its symbols, and what to compute from that.
pub(crate) struct CombinedRecipe {
    pub(crate) helpers: Vec<Contribution>,
    /// By input of the program: which output of which helper's program it is.
    pub(crate) inputs: Vec<(usize, usize)>,
    pub(crate) program: Compiled,
}

/// What one shard contributes.
pub(crate) struct Contribution {
    pub(crate) shard: usize,
    /// Its symbols that go in: the inputs of its program.
    pub(crate) subs: Vec<usize>,
    pub(crate) program: Program,
}

impl CombinedRecipe {
    fn new(plan: Plan) -> Option<Self> {
        let mut shards: Vec<usize> = plan.reads.iter().map(|read| read.shard).collect();
        shards.sort_unstable();
        shards.dedup();
        let mut inputs = vec![(0, 0); plan.reads.len()];
        let mut contribution = |(helper, shard): (usize, usize)| {
            let reads: Vec<_> = plan.reads.iter().enumerate().filter(|(_, read)| read.shard == shard).collect();
            let mut subs: Vec<usize> =
                reads.iter().flat_map(|(_, read)| read.terms.iter().map(|term| term.0)).collect();
            subs.sort_unstable();
            subs.dedup();
            let mut matrix = Matrix::zero(reads.len(), subs.len());
            for (output, (input, read)) in reads.iter().enumerate() {
                inputs[*input] = (helper, output);
                for &(sub, coefficient) in &read.terms {
                    matrix.row_mut(output)[subs.partition_point(|other| *other < sub)] = coefficient;
                }
            }
            Contribution { shard, subs, program: Program::from_matrix(&matrix) }
        };
        let helpers = shards.into_iter().enumerate().map(&mut contribution).collect();
        Some(Self { helpers, inputs, program: Compiled::new(plan.program).ok()? })
    }
}

impl LoadedCode {
    fn new(code: Arc<dyn Code>) -> Result<Self, String> {
        let encode = Compiled::new(code.encode().clone()).map_err(|error| error.to_string())?;
        let (coded, homes) = (code.shape().coded_symbols(), code.shape().homes());
        Ok(Self {
            encode,
            coded,
            homes,
            recipes: recipes(),
            recipes_by_reads: recipes(),
            combined_recipes: recipes(),
            code,
        })
    }

    pub(crate) fn shape(&self) -> &Shape {
        self.code.shape()
    }

    /// Is every read a decoding, whatever it reads?
    pub(crate) fn stores_nothing_plainly(&self) -> bool {
        self.homes.iter().all(Vec::is_empty)
    }

    /// The cheapest way to `wanted` from `offers`; `None` where they do not suffice.
    pub(crate) fn recipe(&self, wanted: &Wanted, offers: &Offers) -> Option<Arc<Recipe>> {
        let key = key(wanted, offers);
        if let Some(known) = self.recipes.get(&key) {
            return Some(known);
        }
        let plan = self.code.plan(wanted, offers).ok()?;
        // No offer combines, so every read is one plain symbol.
        let reads: Vec<(usize, usize)> =
            plan.reads.iter().map(|read| Some((read.shard, read.terms.first()?.0))).collect::<Option<_>>()?;
        let by_reads = reads_key(wanted, &reads);
        let recipe = match self.recipes_by_reads.get(&by_reads) {
            Some(known) => known,
            None => Arc::new(Recipe { reads, program: Compiled::new(plan.program).ok()? }),
        };
        self.recipes_by_reads.insert(by_reads, recipe.clone());
        self.recipes.insert(key, recipe.clone());
        Some(recipe)
    }

    /// The same where nodes may combine; `None` where the offers do not suffice.
    pub(crate) fn combined_recipe(&self, wanted: &Wanted, offers: &Offers) -> Option<Arc<CombinedRecipe>> {
        let key = key(wanted, offers);
        if let Some(known) = self.combined_recipes.get(&key) {
            return Some(known);
        }
        let recipe = Arc::new(CombinedRecipe::new(self.code.plan(wanted, offers).ok()?)?);
        self.combined_recipes.insert(key, recipe.clone());
        Some(recipe)
    }
}

/// Names a question by what is wanted and what is read for it.
fn reads_key(wanted: &Wanted, reads: &[(usize, usize)]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let numbers =
        wanted_key(wanted).into_iter().chain(reads.iter().flat_map(|(shard, sub)| [*shard as u64, *sub as u64]));
    numbers.for_each(|number| {
        hasher.update(&number.to_le_bytes());
    });
    hasher.finalize()
}

fn wanted_key(wanted: &Wanted) -> Vec<u64> {
    let (kind, items) = match wanted {
        Wanted::Natives(natives) => (0, natives),
        Wanted::Shards(shards) => (1, shards),
    };
    [kind, items.len() as u64].into_iter().chain(items.iter().map(|item| *item as u64)).collect()
}

fn key(wanted: &Wanted, offers: &Offers) -> Box<[u64]> {
    let mut key = wanted_key(wanted);
    for offer in &offers.0 {
        match offer {
            None => key.push(0),
            Some(offer) => key.extend([1 + u64::from(offer.combines), offer.request_price, offer.symbol_price]),
        }
    }
    key.into()
}

/// What was found of two codes, by their specs.
type Pairs<T> = RwLock<HashMap<(String, String), T>>;

/// What is known of two codes, found now if it was not yet.
fn remembered<T: Clone>(known: &Pairs<T>, old: &LoadedCode, new: &LoadedCode, find: impl FnOnce() -> T) -> T {
    let key = (old.code.spec().to_owned(), new.code.spec().to_owned());
    if let Some(found) = known.read().get(&key) {
        return found.clone();
    }
    let found = find();
    known.write().insert(key, found.clone());
    found
}

/// Codes by spec.
#[derive(Default)]
pub(crate) struct Algebra {
    codes: RwLock<HashMap<String, Arc<LoadedCode>>>,
    /// What [`Algebra::alike`] found.
    alike: Pairs<Arc<[bool]>>,
    /// What [`Algebra::fit`] found.
    fits: Pairs<Option<Arc<Fit>>>,
}

impl Algebra {
    /// The code of this spec; the error is a sentence.
    pub(crate) fn load(&self, spec: &str) -> Result<Arc<LoadedCode>, String> {
        if let Some(known) = self.codes.read().get(spec) {
            return Ok(known.clone());
        }
        let code = weft_codes::parse(spec).map_err(|error| error.to_string())?;
        if code.shape().n > usize::from(u16::MAX) {
            return Err(format!("{} shards are more than the {} an index counts", code.shape().n, u16::MAX));
        }
        let loaded = Arc::new(LoadedCode::new(code)?);
        self.codes.write().insert(spec.into(), loaded.clone());
        Ok(loaded)
    }

    /// A code that no spec names, for tests of shapes that no family has.
    #[cfg(test)]
    pub(crate) fn add(&self, code: impl Code + 'static) {
        let loaded = LoadedCode::new(Arc::new(code)).expect("a code of a test is sound");
        self.codes.write().insert(loaded.code.spec().into(), Arc::new(loaded));
    }

    /// By shard of `new`: does the same shard of `old` hold the same, where a layout serves both?
    pub(crate) fn alike(&self, old: &LoadedCode, new: &LoadedCode) -> Arc<[bool]> {
        remembered(&self.alike, old, new, || alike(&*old.code, &*new.code).into())
    }

    /// How several segments of `old` may become one of `new`, with shards of theirs.
    pub(crate) fn fit(&self, old: &LoadedCode, new: &LoadedCode) -> Option<Arc<Fit>> {
        remembered(&self.fits, old, new, || fit(&*old.code, &*new.code).map(Arc::new))
    }

    /// Is shard `index` of a segment of `code` what `record`'s code has in its place?
    pub(crate) fn is_shard_of(&self, code: &str, record: &SegmentRecord, index: ShardIndex) -> bool {
        if code == record.code {
            return true;
        }
        let (Ok(old), Ok(new)) = (self.load(code), self.load(&record.code)) else { return false };
        self.alike(&old, &new).get(index.as_usize()).copied().unwrap_or(false)
    }

    /// The code of a record, once the record is found to fit it.
    pub(crate) fn load_for(&self, record: &SegmentRecord) -> Result<Arc<LoadedCode>, String> {
        let loaded = self.load(&record.code)?;
        let Geometry { native_count, alpha, .. } = record.geometry;
        record.geometry.validate().map_err(|error| error.to_string())?;
        let shape = loaded.shape();
        if (native_count as usize, alpha as usize) != (shape.native_count, shape.alpha) {
            return Err(format!(
                "it has {native_count} native symbols and {alpha} per cell where `{}` has {} and {}",
                record.code, shape.native_count, shape.alpha
            ));
        }
        if record.shards.len() != shape.n {
            return Err(format!("it has {} shards where `{}` has {}", record.shards.len(), record.code, shape.n));
        }
        Ok(loaded)
    }
}

#[cfg(test)]
#[path = "algebra_tests.rs"]
mod tests;
