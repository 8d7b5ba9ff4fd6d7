//! Which shards segments of two codes have in common: a conversion leaves these where they are. Pure.
//!
//! A shard serves two codes if both give it the same rows of their generators and both lay the segment out alike. Codes with unlike
//! numbers of symbols a cell (`alpha`) have their plain shards in common: a shard that holds native symbols in their order is a run of
//! each stripe's data, and stays one if its symbols are cut finer or joined. `fn recut` of `write/split.rs` gives the layout in which the bytes
//! of such shards stay as they are, if there is one.

use weft_codes::{Code, Content, Offer, Offers, Shape, Wanted};

/// By shard of `new`: is it the same shard of `old`, where a layout serves both?
pub(crate) fn alike(old: &dyn Code, new: &dyn Code) -> Vec<bool> {
    let same = match source_count(old.shape(), new.shape()) {
        Some(1) => same(old, new),
        _ => None,
    };
    let n = old.shape().n;
    (0..new.shape().n).map(|index| index < n && same.as_ref().is_some_and(|same| same(index, 0, index))).collect()
}

/// Where shards of segments of one code may stand in a wider one.
pub(crate) struct Fit {
    /// Segments that make one.
    pub(crate) source_count: usize,
    /// By shard of the wider code: the shards (source, index) that are the same.
    pub(crate) places: Vec<Vec<(usize, usize)>>,
}

/// How segments of `old` fit into `new`: its shards may be theirs where these are the same. `None`: nothing is gained, as the others do
/// not follow from these.
pub(crate) fn fit(old: &dyn Code, new: &dyn Code) -> Option<Fit> {
    let source_count = source_count(old.shape(), new.shape()).filter(|count| *count > 1)?;
    let same = same(old, new)?;
    let n = old.shape().n;
    let shards: Vec<(usize, usize)> =
        (0..source_count).flat_map(|source| (0..n).map(move |index| (source, index))).collect();
    let place = |place| shards.iter().copied().filter(|(source, index)| same(place, *source, *index)).collect();
    let places: Vec<Vec<(usize, usize)>> = (0..new.shape().n).map(place).collect();
    let offer = |place: &Vec<(usize, usize)>| {
        (!place.is_empty()).then_some(Offer { combines: false, request_price: 1, symbol_price: 1 })
    };
    let others = places.iter().enumerate().filter(|(_, place)| place.is_empty()).map(|(place, _)| place).collect();
    new.plan(&Wanted::Shards(others), &Offers(places.iter().map(offer).collect())).ok()?;
    Some(Fit { source_count, places })
}

/// How many segments of `old` make one of `new`: a shard's worth then goes with this many times the data; `None`: no whole number.
fn source_count(old: &Shape, new: &Shape) -> Option<usize> {
    let (wide, narrow) = (new.native_count * old.alpha, old.native_count * new.alpha);
    wide.is_multiple_of(narrow).then_some(wide / narrow)
}

/// Is shard `place` of the new code the same as shard `index` of source number `source` of the old one? Asked as (place, source, index).
type Same<'c> = Box<dyn Fn(usize, usize, usize) -> bool + 'c>;

fn same<'c>(old: &'c dyn Code, new: &'c dyn Code) -> Option<Same<'c>> {
    let (of_old, of_new) = (old.shape(), new.shape());
    let natives = of_old.native_count;
    if (of_old.alpha, of_old.symbol_alignment_bytes) != (of_new.alpha, of_new.symbol_alignment_bytes) {
        return Some(Box::new(move |place, source, index| {
            match (first_native(of_old, index), first_native(of_new, place)) {
                (Some(first), Some(wide)) => wide * of_old.alpha == (source * natives + first) * of_new.alpha,
                _ => false,
            }
        }));
    }
    let alpha = of_old.alpha;
    let (rows, wide_rows) = (weft_codes::linear::generator(old).ok()?, weft_codes::linear::generator(new).ok()?);
    Some(Box::new(move |place, source, index| {
        (0..alpha).all(|sub| {
            let (wide, own) = (wide_rows.row(place * alpha + sub), rows.row(index * alpha + sub));
            let share = source * natives..(source + 1) * natives;
            wide[share.clone()] == *own && (0..wide.len()).all(|native| share.contains(&native) || wide[native] == 0)
        })
    }))
}

/// The first native symbol of a plain shard, which holds native symbols in their order; `None`: it holds others too.
fn first_native(shape: &Shape, shard: usize) -> Option<usize> {
    let contents = &shape.contents[shard * shape.alpha..(shard + 1) * shape.alpha];
    let Content::Native(first) = contents[0] else { return None };
    let is_next = |(sub, content): (usize, &Content)| *content == Content::Native(first + sub);
    contents.iter().enumerate().all(is_next).then_some(first)
}

#[cfg(test)]
#[path = "shared_shards_tests.rs"]
mod tests;
