//! The kernels, written once for every instruction set. A [`Vector`] is the difference between sets.
//!
//! Everything here is inlined into functions of `arch/*.rs` that enable the instructions of their vector.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use super::BLOCK_SYMBOLS;
use super::{First, LINE_BYTES, Step, Stores, Symbols};

impl Step {
    /// The number of sources that are combined; a coupled source and its partner count as one.
    #[inline(always)]
    fn combined_count(&self) -> usize {
        self.sources.len() - self.coupled_count - self.addend_count
    }
}

impl First {
    // By number, because functions cannot be generic over the enum.
    pub(super) const PRODUCTS: usize = First::Products as usize;
    pub(super) const SUM: usize = First::Sum as usize;
    pub(super) const REMAINDER: usize = First::Remainder as usize;
}

/// A register of bytes and the few instructions that kernels need.
///
/// # Safety
/// All functions need a machine with the instructions of the vector. Pointers are valid for [`Vector::BYTES`] bytes, or
/// for as many as are named.
pub(super) trait Vector: Copy {
    /// Bytes of the register.
    const BYTES: usize;
    /// A coefficient in the form that multiplication takes.
    type Factor: Copy;
    /// A register in the form that multiplication takes, by any coefficient.
    type Operand: Copy;
    /// Is adding three registers as fast as adding two? Then sources are taken in pairs.
    const ADDS_THREE: bool;
    /// Are products so fast that, out of cache, it matters how well prefetchers tell sources apart?
    const UNROLLS: bool;

    /// All zeros.
    unsafe fn zero() -> Self;
    /// The bytes at `from`, aligned or not.
    unsafe fn load(from: *const u8) -> Self;
    /// Stores the bytes at `to`, aligned or not.
    unsafe fn store(self, to: *mut u8);
    /// The first `bytes` bytes at `from`, fewer than [`Vector::BYTES`]; the pointer need not be valid for more.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        let mut whole = [0; LINE_BYTES];
        // SAFETY: a vector is no longer than a line, and `bytes` bytes are valid.
        unsafe {
            from.copy_to_nonoverlapping(whole.as_mut_ptr(), bytes);
            Self::load(whole.as_ptr())
        }
    }
    /// Stores the first `bytes` bytes at `to`, fewer than [`Vector::BYTES`]; the pointer need not be valid for more.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        let mut whole = [0; LINE_BYTES];
        // SAFETY: a vector is no longer than a line, and `bytes` bytes are valid.
        unsafe {
            self.store(whole.as_mut_ptr());
            to.copy_from_nonoverlapping(whole.as_ptr(), bytes);
        }
    }
    /// Stores the bytes at `to`, which is aligned to [`Vector::BYTES`], past the caches.
    unsafe fn stream(self, to: *mut u8);
    /// `self ^ a`.
    unsafe fn xor(self, a: Self) -> Self;
    /// `self ^ a ^ b`.
    unsafe fn xor3(self, a: Self, b: Self) -> Self;
    /// `self ^ a & mask`.
    unsafe fn xor_masked(self, a: Self, mask: Self) -> Self;
    /// The mask of this index among [`Step::affine`].
    unsafe fn mask(step: &Step, index: usize) -> Self;
    /// Coefficient `index` of the step, in the order of [`Step::coefficients`].
    unsafe fn factor(step: &Step, index: usize) -> Self::Factor;
    /// A factor of products, prepared once.
    unsafe fn operand(self) -> Self::Operand;
    /// Each byte of the operand times the coefficient.
    unsafe fn product(operand: Self::Operand, factor: Self::Factor) -> Self;
    /// Each byte times the coefficient.
    #[inline(always)]
    unsafe fn multiply(self, factor: Self::Factor) -> Self {
        // SAFETY: as the trait says.
        unsafe { Self::product(self.operand(), factor) }
    }
    /// Prefetches the cache line at `from`, which need not be valid.
    unsafe fn prefetch(from: *const u8);
}

/// The position of a kernel in its symbols.
#[derive(Clone, Copy)]
struct Place {
    /// Offset in bytes from their start.
    at: usize,
    /// The bytes that are left, if they are no whole vector. So symbols of any length take vector kernels, and no byte
    /// is written twice, which steps in place need.
    part_bytes: Option<usize>,
    /// Are later lines prefetched?
    prefetches: bool,
}

impl Place {
    /// A place with whole vectors.
    #[inline(always)]
    fn whole(at: usize) -> Place {
        Place { at, part_bytes: None, prefetches: false }
    }

    /// The partial vector at the end of this many bytes, if there is one.
    #[inline(always)]
    fn rest<V: Vector>(bytes: usize) -> Option<Place> {
        let part_bytes = bytes % V::BYTES;
        (part_bytes > 0).then_some(Place { at: bytes - part_bytes, part_bytes: Some(part_bytes), prefetches: false })
    }
}

/// How far ahead of its use a line of a long stream is prefetched.
const PREFETCH_BYTES: usize = 256;

/// The plain sum of exactly `SOURCES` sources, whose pointers stay in registers.
///
/// # Safety
/// As [`super::Kernel`] says; the step is a sum of `SOURCES` sources.
#[inline(always)]
pub(super) unsafe fn sum_of<V: Vector, const SOURCES: usize>(
    _: &Step,
    symbols: Symbols<'_>,
    bytes: usize,
    stores: Stores,
) {
    // SAFETY: there are all sources, then the target; blocks lie within `bytes`.
    unsafe {
        let target = symbols.at(SOURCES);
        let mut sources = [target.cast_const(); SOURCES];
        for (index, source) in sources.iter_mut().enumerate() {
            *source = symbols.at(index);
        }
        let streams = stores == Stores::Streaming && is_aligned::<V>(target);
        let mut at = 0;
        // `$times` times `$vectors` vectors of the target.
        macro_rules! add_all {
            ($times:expr, $vectors:literal) => {
                while at + $times * $vectors * V::BYTES <= bytes {
                    for _ in 0..$times {
                        let place = Place::whole(at);
                        put(target, place, &sum_at::<V, SOURCES, $vectors>(&sources, place), streams);
                        at += $vectors * V::BYTES;
                    }
                }
            };
        }
        if takes_lines::<V>(SOURCES) {
            // Two lines.
            match V::BYTES {
                16 => add_all!(SUM_VECTORS / 8, 8),
                32 => add_all!(SUM_VECTORS / 4, 4),
                _ => add_all!(SUM_VECTORS / 2, 2),
            }
        } else {
            add_all!(SUM_VECTORS, 1);
            add_all!(4, 1);
        }
        add_all!(1, 1);
        if let Some(rest) = Place::rest::<V>(bytes) {
            put(target, rest, &sum_at::<V, SOURCES, 1>(&sources, rest), false);
        }
    }
}

/// Vectors of a plain sum that are written out. With this many, a load meets the same source from slice to slice, at a
/// distance that prefetchers learn. With 4, the sums of other sources in between mislead them.
const SUM_VECTORS: usize = 16;

/// Does a plain sum of `sources` sources take two lines of each at a time, instead of a vector? If sources lie whole
/// pages apart, their lines and the target's share a set of the first-level cache, which has eight ways. A line of many
/// sources that is read vector by vector is evicted in between.
const fn takes_lines<V: Vector>(sources: usize) -> bool {
    sources > 8 || sources == 8 && V::BYTES < LINE_BYTES
}

/// Vectors of the sum of all sources, source after source.
#[inline(always)]
unsafe fn sum_at<V: Vector, const SOURCES: usize, const VECTORS: usize>(
    sources: &[*const u8; SOURCES],
    place: Place,
) -> [V; VECTORS] {
    // SAFETY: the caller's sources are valid for these vectors.
    unsafe {
        let mut sums = [V::zero(); VECTORS];
        let mut source = SOURCES % 2;
        if source == 1 {
            sums = load(sources[0], place);
        }
        while source < SOURCES {
            let [a, b]: [[V; VECTORS]; 2] = [load(sources[source], place), load(sources[source + 1], place)];
            let mut vector = 0;
            while vector < VECTORS {
                sums[vector] = match source {
                    0 => a[vector].xor(b[vector]),
                    _ => sums[vector].xor3(a[vector], b[vector]),
                };
                vector += 1;
            }
            source += 2;
        }
        sums
    }
}

/// `TARGETS` combinations of any number of sources, `VECTORS` vectors of each at a time. `FIRST` is the number of a
/// [`First`].
///
/// # Safety
/// As [`super::Kernel`] says; the step has `TARGETS` targets, and its first is number `FIRST`.
#[inline(always)]
pub(super) unsafe fn combine<V: Vector, const TARGETS: usize, const VECTORS: usize, const FIRST: usize>(
    step: &Step,
    symbols: Symbols<'_>,
    bytes: usize,
    stores: Stores,
) {
    // SAFETY: the caller's promises are passed on.
    unsafe {
        let symbols = symbols.first(step.sources.len() + TARGETS);
        let source_count = step.sources.len();
        let is_short = source_count < SHORT_SOURCES;
        let blocks_bytes = bytes - bytes % (VECTORS * V::BYTES);
        if step.coupled_count > 0 {
            combine_all::<V, TARGETS, VECTORS, FIRST, ROUND_SOURCES, true>(step, symbols, blocks_bytes, stores);
        } else if V::UNROLLS && (is_short || stores == Stores::Streaming || are_far_apart(symbols, source_count, bytes))
        {
            combine_all::<V, TARGETS, VECTORS, FIRST, UNROLLED_SOURCES, false>(step, symbols, blocks_bytes, stores);
        } else if is_short {
            combine_all::<V, TARGETS, VECTORS, FIRST, SHORT_SOURCES, false>(step, symbols, blocks_bytes, stores);
        } else {
            combine_all::<V, TARGETS, VECTORS, FIRST, ROUND_SOURCES, false>(step, symbols, blocks_bytes, stores);
        }
        // The rest is too little for code of its own.
        let mut at = blocks_bytes;
        while at < bytes {
            let place = match bytes - at < V::BYTES {
                true => Place { part_bytes: Some(bytes - at), ..Place::whole(at) },
                false => Place::whole(at),
            };
            let sums = combine_at::<V, TARGETS, 1, FIRST, ROUND_SOURCES, true>(step, symbols, place);
            for (target, sums) in sums.iter().enumerate() {
                put(*symbols.add(source_count + target), place, sums, false);
            }
            at += V::BYTES;
        }
    }
}

/// [`combine`] of whole blocks of vectors, by code for `UNROLLED` sources at a time; with `COUPLED` some of them may be
/// coupled.
#[inline(always)]
unsafe fn combine_all<
    V: Vector,
    const TARGETS: usize,
    const VECTORS: usize,
    const FIRST: usize,
    const UNROLLED: usize,
    const COUPLED: bool,
>(
    step: &Step,
    symbols: *const *mut u8,
    bytes: usize,
    stores: Stores,
) {
    // SAFETY: there are pointers for all sources, then for all targets; blocks lie within `bytes`.
    unsafe {
        let mut targets = [core::ptr::null_mut(); TARGETS];
        let mut streams = stores == Stores::Streaming;
        for (index, target) in targets.iter_mut().enumerate() {
            *target = *symbols.add(step.sources.len() + index);
            streams &= is_aligned::<V>(*target);
        }
        let prefetches = stores == Stores::Streaming;
        let mut at = 0;
        while at < bytes {
            let place = Place { prefetches, ..Place::whole(at) };
            let sums = combine_at::<V, TARGETS, VECTORS, FIRST, UNROLLED, COUPLED>(step, symbols, place);
            for (target, sums) in targets.iter().zip(&sums) {
                put(*target, place, sums, streams);
            }
            at += VECTORS * V::BYTES;
        }
    }
}

/// The code has a load instruction of its own for each of this many sources. With as many streams the hardware's
/// prefetchers alone lose track.
const UNROLLED_SOURCES: usize = 16;

/// Sources of the shortest loop, which is the fastest in cache unless many sources lie back to back or pages apart.
const ROUND_SOURCES: usize = 2;

/// Are there as many sources as the code can tell apart, and do two neighbours among them lie back to back, or a page
/// or more apart? Then it helps to tell them apart in cache, too.
#[inline(always)]
unsafe fn are_far_apart(symbols: *const *mut u8, source_count: usize, bytes: usize) -> bool {
    const PAGE_BYTES: usize = 4096;
    if source_count < UNROLLED_SOURCES {
        return false;
    }
    // SAFETY: there is a pointer for each source.
    let start = |source: usize| unsafe { *symbols.add(source) }.addr();
    (1..source_count).all(|source| {
        let gap_bytes = start(source).abs_diff(start(source - 1)).saturating_sub(bytes);
        gap_bytes == 0 || gap_bytes >= PAGE_BYTES
    })
}

/// Fewer sources than this take no loop. Prefetchers that see a load alternate between only two sources take them for
/// one stream and fetch lines that nobody needs (4+4 at 16 KiB: 70 GB/s in a loop, 94 written out).
const SHORT_SOURCES: usize = 3 * ROUND_SOURCES;

/// `VECTORS` vectors of all targets, by code written out for `UNROLLED` sources.
#[inline(always)]
unsafe fn combine_at<
    V: Vector,
    const TARGETS: usize,
    const VECTORS: usize,
    const FIRST: usize,
    const UNROLLED: usize,
    const COUPLED: bool,
>(
    step: &Step,
    symbols: *const *mut u8,
    place: Place,
) -> [[V; VECTORS]; TARGETS] {
    // SAFETY: there is a pointer for each source, valid for these vectors, and a coefficient for each source and target.
    unsafe {
        let mut sums = [[V::zero(); VECTORS]; TARGETS];
        let combined_count = step.combined_count();
        if step.addend_count > 0 {
            let first = step.sources.len() - step.addend_count;
            for (target, sum) in sums.iter_mut().enumerate() {
                *sum = load(*symbols.add(first + target), place);
            }
        }
        let paired = combined_count & !1;
        let mut source = 0;
        // Written out, so that each load instruction follows one stream. Prefetchers tell streams apart by the
        // instruction, and one that visits several streams misleads them.
        macro_rules! add_pairs {
            ($($pair:literal)*) => {
                'all: loop {
                    $(
                        if 2 * $pair < UNROLLED {
                            if source + 2 * $pair == paired {
                                break 'all;
                            }
                            add_pair::<V, TARGETS, VECTORS, FIRST, COUPLED>(step, symbols, source + 2 * $pair, place, &mut sums);
                        }
                    )*
                    source += UNROLLED;
                }
            };
        }
        add_pairs!(0 1 2 3 4 5 6 7);
        if paired < combined_count {
            add_one::<V, TARGETS, VECTORS, FIRST, COUPLED>(step, symbols, paired, place, &mut sums);
        }
        if FIRST == First::REMAINDER
            && let [first, others @ ..] = &mut sums[..]
        {
            for other in others {
                for (sum, value) in first.iter_mut().zip(other) {
                    *sum = sum.xor(*value);
                }
            }
        }
        sums
    }
}

/// Adds source number `source` and the next one.
#[inline(always)]
unsafe fn add_pair<V: Vector, const TARGETS: usize, const VECTORS: usize, const FIRST: usize, const COUPLED: bool>(
    step: &Step,
    symbols: *const *mut u8,
    source: usize,
    place: Place,
    sums: &mut [[V; VECTORS]; TARGETS],
) {
    // SAFETY: the step has both sources, and a coefficient for each source and target.
    unsafe {
        if !V::ADDS_THREE {
            add_one::<V, TARGETS, VECTORS, FIRST, COUPLED>(step, symbols, source, place, sums);
            return add_one::<V, TARGETS, VECTORS, FIRST, COUPLED>(step, symbols, source + 1, place, sums);
        }
        let a = combined::<V, TARGETS, VECTORS, COUPLED>(step, symbols, source, place);
        let b = combined::<V, TARGETS, VECTORS, COUPLED>(step, symbols, source + 1, place);
        for (target, sum) in sums.iter_mut().enumerate() {
            if FIRST == First::SUM && target == 0 {
                for vector in 0..VECTORS {
                    sum[vector] = sum[vector].xor3(a[vector], b[vector]);
                }
            } else if FIRST == First::REMAINDER && target == 0 {
                let [of_a, of_b] = [V::mask(step, source * TARGETS), V::mask(step, (source + 1) * TARGETS)];
                for vector in 0..VECTORS {
                    sum[vector] = sum[vector].xor_masked(a[vector], of_a).xor_masked(b[vector], of_b);
                }
            } else {
                let by_a = V::factor(step, source * TARGETS + target);
                let by_b = V::factor(step, (source + 1) * TARGETS + target);
                for vector in 0..VECTORS {
                    sum[vector] = sum[vector].xor3(a[vector].multiply(by_a), b[vector].multiply(by_b));
                }
            }
        }
    }
}

/// Adds source number `source`.
#[inline(always)]
unsafe fn add_one<V: Vector, const TARGETS: usize, const VECTORS: usize, const FIRST: usize, const COUPLED: bool>(
    step: &Step,
    symbols: *const *mut u8,
    source: usize,
    place: Place,
    sums: &mut [[V; VECTORS]; TARGETS],
) {
    // SAFETY: the step has the source, and a coefficient for it and each target.
    unsafe {
        let values = combined::<V, TARGETS, VECTORS, COUPLED>(step, symbols, source, place);
        let mut operands = [values[0].operand(); VECTORS];
        for (operand, value) in operands.iter_mut().zip(values) {
            *operand = value.operand();
        }
        for (target, sum) in sums.iter_mut().enumerate() {
            let index = source * TARGETS + target;
            for vector in 0..VECTORS {
                sum[vector] = if FIRST == First::SUM && target == 0 {
                    sum[vector].xor(values[vector])
                } else if FIRST == First::REMAINDER && target == 0 {
                    sum[vector].xor_masked(values[vector], V::mask(step, index))
                } else {
                    sum[vector].xor(V::product(operands[vector], V::factor(step, index)))
                };
            }
        }
    }
}

/// Vectors of source number `source`, with those of its partner added if there is one.
#[inline(always)]
unsafe fn combined<V: Vector, const TARGETS: usize, const VECTORS: usize, const COUPLED: bool>(
    step: &Step,
    symbols: *const *mut u8,
    source: usize,
    place: Place,
) -> [V; VECTORS] {
    // SAFETY: the step has the source; partners follow what is combined, and their multiples all other coefficients.
    unsafe {
        let mut values: [V; VECTORS] = load(*symbols.add(source), place);
        if COUPLED && source < step.coupled_count {
            let combined_count = step.combined_count();
            let partner = combined_count + source;
            let multiple = V::factor(step, (combined_count + step.coupled_count) * TARGETS + source);
            for (value, partner) in values.iter_mut().zip(load::<V, VECTORS>(*symbols.add(partner), place)) {
                *value = value.xor(partner.multiply(multiple));
            }
        }
        values
    }
}

/// Pairs of targets, each from its pair of sources, pair after pair.
///
/// # Safety
/// As [`super::Kernel`] says; the step is one of pairs.
#[inline(always)]
pub(super) unsafe fn pairs<V: Vector>(step: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores) {
    // SAFETY: there are symbols for all sources, then for as many targets; a pair has four coefficients; vectors lie
    // within `bytes`.
    unsafe {
        let count = step.targets.len();
        let mut first = 0;
        while first < count {
            let (a, b) = (symbols.at(first).cast_const(), symbols.at(first + 1).cast_const());
            let targets = [symbols.at(count + first), symbols.at(count + first + 1)];
            let streams = stores == Stores::Streaming && is_aligned::<V>(targets[0]) && is_aligned::<V>(targets[1]);
            let by_a = [V::factor(step, 2 * first), V::factor(step, 2 * first + 2)];
            let by_b = [V::factor(step, 2 * first + 1), V::factor(step, 2 * first + 3)];
            let mut at = 0;
            while at + V::BYTES <= bytes {
                pair_at::<V>([a, b], targets, [by_a, by_b], Place::whole(at), streams);
                at += V::BYTES;
            }
            if let Some(rest) = Place::rest::<V>(bytes) {
                pair_at::<V>([a, b], targets, [by_a, by_b], rest, false);
            }
            first += 2;
        }
    }
}

/// A vector of both targets of a pair. Factors are ordered by source, then by target.
#[inline(always)]
unsafe fn pair_at<V: Vector>(
    sources: [*const u8; 2],
    targets: [*mut u8; 2],
    factors: [[V::Factor; 2]; 2],
    place: Place,
    streams: bool,
) {
    // SAFETY: the caller's sources and targets are valid at this place.
    unsafe {
        let ([a], [b]): ([V; 1], [V; 1]) = (load(sources[0], place), load(sources[1], place));
        for target in 0..2 {
            let value = a.multiply(factors[0][target]).xor(b.multiply(factors[1][target]));
            put(targets[target], place, &[value], streams);
        }
    }
}

/// A register whose bytes are doubled faster than they are multiplied.
///
/// # Safety
/// As [`Vector`] says.
pub(super) trait DoublingVector: Vector {
    /// Each byte times 2.
    unsafe fn doubled(self) -> Self;
}

/// P and Q of RAID-6: the sum of all sources, and by Horner's rule the sum of their multiples by powers of two.
///
/// # Safety
/// As [`super::Kernel`] says; the step is one of P and Q.
#[inline(always)]
pub(super) unsafe fn p_and_q<V: DoublingVector>(step: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores) {
    // SAFETY: there are pointers for all sources, one at least, then for two targets; blocks lie within `bytes`.
    unsafe {
        let count = step.sources.len();
        let symbols = symbols.first(count + 2);
        let targets = [*symbols.add(count), *symbols.add(count + 1)];
        let streams = stores == Stores::Streaming && is_aligned::<V>(targets[0]) && is_aligned::<V>(targets[1]);
        let mut at = 0;
        macro_rules! add_all {
            ($vectors:expr) => {
                while at + $vectors * V::BYTES <= bytes {
                    let sums = p_and_q_at::<V, $vectors>(symbols, count, Place::whole(at));
                    put(targets[0], Place::whole(at), &sums[0], streams);
                    put(targets[1], Place::whole(at), &sums[1], streams);
                    at += $vectors * V::BYTES;
                }
            };
        }
        add_all!(4);
        add_all!(1);
        if let Some(rest) = Place::rest::<V>(bytes) {
            let sums = p_and_q_at::<V, 1>(symbols, count, rest);
            put(targets[0], rest, &sums[0], false);
            put(targets[1], rest, &sums[1], false);
        }
    }
}

/// Vectors of P and of Q over `count` sources, the highest power first.
#[inline(always)]
unsafe fn p_and_q_at<V: DoublingVector, const VECTORS: usize>(
    symbols: *const *mut u8,
    count: usize,
    place: Place,
) -> [[V; VECTORS]; 2] {
    // SAFETY: there is a pointer for each source, one at least, valid at this place.
    unsafe {
        let mut p: [V; VECTORS] = load(*symbols, place);
        let mut q = p;
        let mut source = 1;
        while source < count {
            let values: [V; VECTORS] = load(*symbols.add(source), place);
            let mut vector = 0;
            while vector < VECTORS {
                p[vector] = p[vector].xor(values[vector]);
                q[vector] = q[vector].doubled().xor(values[vector]);
                vector += 1;
            }
            source += 1;
        }
        [p, q]
    }
}

/// A network of butterflies over `POINTS` values, a vector of each at a time; the factors stay in registers.
///
/// # Safety
/// As [`super::Kernel`] says; the step is a network of this form.
#[inline(always)]
pub(super) unsafe fn butterflies<V: Vector, const POINTS: usize, const INVERSE: bool, const SCALED: bool>(
    step: &Step,
    symbols: Symbols<'_>,
    bytes: usize,
    stores: Stores,
) {
    // SAFETY: there is a symbol for each source, then for each target; vectors lie within `bytes`; a network has a factor
    // less than it has values.
    unsafe {
        let mut sources = [core::ptr::null(); POINTS];
        let mut targets = [core::ptr::null_mut(); POINTS];
        let mut streams = stores == Stores::Streaming;
        for point in 0..POINTS {
            sources[point] = symbols.at(point).cast_const();
            targets[point] = symbols.at(POINTS + point);
            streams &= is_aligned::<V>(targets[point]);
        }
        let mut factors = [V::factor(step, 0); POINTS];
        for (index, factor) in factors.iter_mut().enumerate().take(POINTS - 1) {
            *factor = V::factor(step, index);
        }
        let mut at = 0;
        while stores == Stores::Fetching && at + V::BYTES <= bytes {
            let place = Place { prefetches: true, ..Place::whole(at) };
            network_at::<V, POINTS, INVERSE, SCALED>(step, &sources, &targets, &factors, place, false);
            at += V::BYTES;
        }
        while at + V::BYTES <= bytes {
            network_at::<V, POINTS, INVERSE, SCALED>(step, &sources, &targets, &factors, Place::whole(at), streams);
            at += V::BYTES;
        }
        if let Some(rest) = Place::rest::<V>(bytes) {
            network_at::<V, POINTS, INVERSE, SCALED>(step, &sources, &targets, &factors, rest, false);
        }
    }
}

/// Runs the statement with the number of each block and the indices of both values, for all butterflies of the level
/// whose half blocks have `$half` of `POINTS` values. It is no closure, because a closure lacks the instructions of the
/// function around it.
macro_rules! each_butterfly {
    ($half:expr, |$block:ident, $a:ident, $b:ident| $butterfly:block) => {{
        let block_count = POINTS / (2 * $half);
        let mut number = 0;
        while number < block_count {
            let $block = block_count - 1 + number;
            let mut $a = number * 2 * $half;
            while $a < number * 2 * $half + $half {
                let $b = $a + $half;
                $butterfly
                $a += 1;
            }
            number += 1;
        }
    }};
}

/// A vector of all values of a network.
#[inline(always)]
unsafe fn network_at<V: Vector, const POINTS: usize, const INVERSE: bool, const SCALED: bool>(
    step: &Step,
    sources: &[*const u8; POINTS],
    targets: &[*mut u8; POINTS],
    factors: &[V::Factor; POINTS],
    place: Place,
    streams: bool,
) {
    // SAFETY: the caller's sources and targets are valid at this place; scales follow the factors.
    unsafe {
        let mut values = [V::zero(); POINTS];
        for (point, (value, source)) in values.iter_mut().zip(sources).enumerate() {
            [*value] = load(*source, place);
            if SCALED && INVERSE {
                *value = value.multiply(V::factor(step, POINTS - 1 + point));
            }
        }
        if INVERSE {
            let mut half = 1;
            while half < POINTS {
                each_butterfly!(half, |block, a, b| {
                    values[b] = values[b].xor(values[a]);
                    values[a] = values[a].xor(values[b].multiply(factors[block]));
                });
                half *= 2;
            }
        } else {
            let mut half = POINTS / 2;
            while half > 0 {
                each_butterfly!(half, |block, a, b| {
                    let product = values[b].multiply(factors[block]);
                    values[b] = values[b].xor3(values[a], product);
                    values[a] = values[a].xor(product);
                });
                half /= 2;
            }
        }
        for (point, (value, target)) in values.iter_mut().zip(targets).enumerate() {
            if SCALED && !INVERSE {
                *value = value.multiply(V::factor(step, POINTS - 1 + point));
            }
            put(*target, place, &[*value], streams);
        }
    }
}

/// A register whose bytes are multiplied by any matrix of bits ([`Vector::factor`] is one), as bit-sliced blocks need.
///
/// # Safety
/// As [`Vector`] says.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(super) trait BitVector: Vector {
    /// The bytes of both, alternating: first those of the first half of each 16, then those of the second.
    unsafe fn interleaved(self, other: Self) -> [Self; 2];
    /// Mirrors each eight bytes, a matrix of bits with bit 0 on the right, in the diagonal from upper right to lower
    /// left. Twice is the identity.
    unsafe fn mirrored(self) -> Self;
}

/// Bit-slices a block of up to eight symbols, or transposes it back: see `exec/bit_sliced.rs`.
///
/// # Safety
/// As [`super::Kernel`] says; the step bit-slices in this direction.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
pub(super) unsafe fn bit_slice<V: BitVector, const INVERSE: bool>(
    step: &Step,
    symbols: Symbols<'_>,
    bytes: usize,
    stores: Stores,
) {
    // SAFETY: vectors lie within `bytes`, and bit-sliced symbols are whole vectors.
    unsafe {
        let symbols = symbols.first(step.sources.len() + step.targets.len());
        let mut at = 0;
        while at + V::BYTES <= bytes {
            bit_slice_at::<V, INVERSE>(step, symbols, Place::whole(at), stores);
            at += V::BYTES;
        }
        if let Some(rest) = Place::rest::<V>(bytes) {
            bit_slice_at::<V, INVERSE>(step, symbols, rest, Stores::Cached);
        }
    }
}

/// A vector of each symbol of a block.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[inline(always)]
unsafe fn bit_slice_at<V: BitVector, const INVERSE: bool>(
    step: &Step,
    symbols: *const *mut u8,
    place: Place,
    stores: Stores,
) {
    // The number of a byte has three bits for its vector and four for its place in 16 bytes. Interleaving moves the
    // first bit to the end. After three rounds eight neighbouring bytes are those of one place; after seven all is as
    // before.
    const ROUNDS: usize = 3;
    let (given, gotten) = if INVERSE { (Place::whole(place.at), place) } else { (place, Place::whole(place.at)) };
    // SAFETY: there is a pointer for each source, then for each target, and both are valid at this place.
    unsafe {
        let mut values = [V::zero(); BLOCK_SYMBOLS];
        for (index, value) in values.iter_mut().enumerate().take(step.sources.len()) {
            [*value] = load(*symbols.add(index), given);
            if INVERSE {
                *value = value.mirrored();
            }
        }
        for _ in 0..if INVERSE { 7 - ROUNDS } else { ROUNDS } {
            let mut next = values;
            for pair in 0..4 {
                [next[2 * pair], next[2 * pair + 1]] = values[pair].interleaved(values[pair + 4]);
            }
            values = next;
        }
        for (index, value) in values.iter().enumerate().take(step.targets.len()) {
            let target = *symbols.add(step.sources.len() + index);
            let value = if INVERSE { *value } else { value.mirrored() };
            put(target, gotten, &[value], stores == Stores::Streaming && is_aligned::<V>(target));
        }
    }
}

/// Vectors of a source. With prefetch it also asks for those [`PREFETCH_BYTES`] later, which may lie past the end.
#[inline(always)]
unsafe fn load<V: Vector, const VECTORS: usize>(source: *const u8, place: Place) -> [V; VECTORS] {
    // SAFETY: the caller's source is valid for these vectors, or the part of one.
    unsafe {
        let mut values = [V::zero(); VECTORS];
        for (vector, value) in values.iter_mut().enumerate() {
            *value = load_one(source, place, vector);
        }
        values
    }
}

/// The vector with this number.
#[inline(always)]
unsafe fn load_one<V: Vector>(source: *const u8, place: Place, vector: usize) -> V {
    // SAFETY: as above.
    unsafe {
        let start = source.add(place.at + vector * V::BYTES);
        // Once per line, if several vectors are one line.
        if place.prefetches && (vector * V::BYTES).is_multiple_of(LINE_BYTES) {
            V::prefetch(start.wrapping_add(PREFETCH_BYTES));
        }
        match place.part_bytes {
            None => V::load(start),
            Some(bytes) => V::load_part(start, bytes),
        }
    }
}

#[inline(always)]
unsafe fn put<V: Vector, const VECTORS: usize>(target: *mut u8, place: Place, sums: &[V; VECTORS], streams: bool) {
    // SAFETY: the caller's target is valid for these vectors, or the part of one, and aligned if `streams`.
    unsafe {
        for (vector, sum) in sums.iter().enumerate() {
            let to = target.add(place.at + vector * V::BYTES);
            match place.part_bytes {
                Some(bytes) => sum.store_part(to, bytes),
                None if streams => sum.stream(to),
                None => sum.store(to),
            }
        }
    }
}

#[inline(always)]
fn is_aligned<V: Vector>(target: *mut u8) -> bool {
    target.addr().is_multiple_of(V::BYTES)
}

/// Makes `KERNELS` of a vector: functions that enable its instructions, with the given numbers of vectors at a time for
/// steps of 1 to [`super::MOST_TARGETS`] targets.
macro_rules! entry_points {
    ($vector:ty, $features:literal, [$($vectors:literal),*]) => {
        pub(super) const KERNELS: $crate::exec::arch::Kernels = {
            use $crate::exec::arch::kernels::{self, firsts};
            use $crate::exec::arch::{Kernels, Step, Stores, Symbols};

            /// # Safety
            /// As [`kernels::sum_of`] says.
            #[target_feature(enable = $features)]
            unsafe fn sum_of<const SOURCES: usize>(s: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores) {
                // SAFETY: the caller's promises are passed on.
                unsafe { kernels::sum_of::<$vector, SOURCES>(s, symbols, bytes, stores) }
            }

            /// # Safety
            /// As [`kernels::combine`] says.
            #[target_feature(enable = $features)]
            unsafe fn combine<const TARGETS: usize, const VECTORS: usize, const FIRST: usize>(
                step: &Step,
                symbols: Symbols<'_>,
                bytes: usize,
                stores: Stores,
            ) {
                // SAFETY: the caller's promises are passed on.
                unsafe { kernels::combine::<$vector, TARGETS, VECTORS, FIRST>(step, symbols, bytes, stores) }
            }

            /// # Safety
            /// As [`kernels::pairs`] says.
            #[target_feature(enable = $features)]
            unsafe fn pairs(step: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores) {
                // SAFETY: the caller's promises are passed on.
                unsafe { kernels::pairs::<$vector>(step, symbols, bytes, stores) }
            }

            /// # Safety
            /// As [`kernels::butterflies`] says.
            #[target_feature(enable = $features)]
            unsafe fn butterflies<const POINTS: usize, const INVERSE: bool, const SCALED: bool>(
                step: &Step,
                symbols: Symbols<'_>,
                bytes: usize,
                stores: Stores,
            ) {
                // SAFETY: the caller's promises are passed on.
                unsafe { kernels::butterflies::<$vector, POINTS, INVERSE, SCALED>(step, symbols, bytes, stores) }
            }

            const VECTORS: [usize; $crate::exec::arch::MOST_TARGETS] = [$($vectors),*];
            Kernels {
                sums: [
                    sum_of::<0>,
                    sum_of::<1>,
                    sum_of::<2>,
                    sum_of::<3>,
                    sum_of::<4>,
                    sum_of::<5>,
                    sum_of::<6>,
                    sum_of::<7>,
                    sum_of::<8>,
                    sum_of::<9>,
                    sum_of::<10>,
                    sum_of::<11>,
                    sum_of::<12>,
                    sum_of::<13>,
                    sum_of::<14>,
                    sum_of::<15>,
                    sum_of::<16>,
                ],
                combinations: [
                    firsts!(combine, 1, VECTORS[0]),
                    firsts!(combine, 2, VECTORS[1]),
                    firsts!(combine, 3, VECTORS[2]),
                    firsts!(combine, 4, VECTORS[3]),
                    firsts!(combine, 5, VECTORS[4]),
                    firsts!(combine, 6, VECTORS[5]),
                    firsts!(combine, 7, VECTORS[6]),
                    firsts!(combine, 8, VECTORS[7]),
                ],
                pairs,
                butterflies: [
                    [
                        [butterflies::<4, false, false>, butterflies::<4, false, true>],
                        [butterflies::<4, true, false>, butterflies::<4, true, true>],
                    ],
                    [
                        [butterflies::<8, false, false>, butterflies::<8, false, true>],
                        [butterflies::<8, true, false>, butterflies::<8, true, true>],
                    ],
                    [
                        [butterflies::<16, false, false>, butterflies::<16, false, true>],
                        [butterflies::<16, true, false>, butterflies::<16, true, true>],
                    ],
                ],
                p_and_q: None,
                bit_slices: None,
            }
        };
    };
}

/// Makes `P_AND_Q` of a vector that doubles its bytes.
macro_rules! p_and_q_kernel {
    ($vector:ty, $features:literal) => {
        pub(super) const P_AND_Q: Option<$crate::exec::arch::Kernel> = {
            use $crate::exec::arch::{Step, Stores, Symbols, kernels};

            /// # Safety
            /// As [`kernels::p_and_q`] says.
            #[target_feature(enable = $features)]
            unsafe fn p_and_q(step: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores) {
                // SAFETY: the caller's promises are passed on.
                unsafe { kernels::p_and_q::<$vector>(step, symbols, bytes, stores) }
            }

            Some(p_and_q)
        };
    };
}

/// Makes `BIT_SLICES` of a vector that can be multiplied by any matrix of bits.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
macro_rules! bit_slices {
    ($vector:ty, $features:literal) => {
        pub(super) const BIT_SLICES: Option<[$crate::exec::arch::Kernel; 2]> = {
            use $crate::exec::arch::{Step, Stores, Symbols, kernels};

            /// # Safety
            /// As [`kernels::bit_slice`] says.
            #[target_feature(enable = $features)]
            unsafe fn bit_slice<const INVERSE: bool>(s: &Step, symbols: Symbols<'_>, bytes: usize, stores: Stores) {
                // SAFETY: the caller's promises are passed on.
                unsafe { kernels::bit_slice::<$vector, INVERSE>(s, symbols, bytes, stores) }
            }

            Some([bit_slice::<false>, bit_slice::<true>])
        };
    };
}

/// A kernel for each [`First`].
macro_rules! firsts {
    ($combine:ident, $targets:literal, $vectors:expr) => {{
        use $crate::exec::arch::First;
        [
            $combine::<$targets, { $vectors }, { First::PRODUCTS }>,
            $combine::<$targets, { $vectors }, { First::SUM }>,
            $combine::<$targets, { $vectors }, { First::REMAINDER }>,
        ]
    }};
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(super) use bit_slices;
pub(super) use entry_points;
pub(super) use firsts;
pub(super) use p_and_q_kernel;
