//! Local reconstruction codes: what they decode, what a repair reads, and coefficients that must never change.

use crate::random::Random;
use std::ops::Range;
use weft_codes::{Code, Matrix, Offer, Offers, Wanted, linear};

/// The stored symbols that are left determine everything.
fn decodes(generator: &Matrix, lost: &[usize]) -> bool {
    let left: Vec<usize> = (0..generator.rows()).filter(|shard| !lost.contains(shard)).collect();
    generator.select_rows(&left).rank() == generator.columns()
}

/// What any code with these groups can decode at most: the losses beyond one per group need a global parity each.
fn is_decodable_at_best(code: &dyn Code, lost: &[usize]) -> bool {
    let lost_in = |shards: &[usize]| shards.iter().filter(|shard| lost.contains(shard)).count();
    let groups = &code.shape().groups;
    let repaired = groups.iter().filter(|group| lost_in(&group.shards) > 0).count();
    let global_count = code.shape().n - groups.iter().map(|group| group.shards.len()).sum::<usize>();
    lost.len() - repaired <= global_count
}

fn subset(n: usize, pattern: u32) -> Vec<usize> {
    (0..n).filter(|shard| pattern >> shard & 1 == 1).collect()
}

/// All `(k, l, g)` with these least numbers of global parities and at most so many shards.
fn parameters(most_shards: usize, g: std::ops::RangeInclusive<usize>) -> Vec<(usize, usize, usize)> {
    let of_k_and_g = |k: usize, g: usize| (1..=k).map(move |l| (k, l, g)).filter(move |_| k < most_shards);
    let all = g.flat_map(|g| (1..most_shards).flat_map(move |k| of_k_and_g(k, g)));
    all.filter(|(k, l, g)| k + l + g <= most_shards).collect()
}

#[test]
fn azure_decodes_what_the_paper_says() {
    for (spec, decodable, patterns) in [("lrc:6+2+2", 180, 210), ("lrc:12+2+2", 1_568, 1_820)] {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        let n = code.shape().n;
        let fours: Vec<Vec<usize>> =
            (0..1 << n).filter(|pattern: &u32| pattern.count_ones() == 4).map(|pattern| subset(n, pattern)).collect();
        assert_eq!(fours.len(), patterns, "{spec}");
        assert_eq!(fours.iter().filter(|lost| decodes(&generator, lost)).count(), decodable, "{spec}");
    }
}

#[test]
fn up_to_two_global_parities_are_maximally_recoverable() {
    for (k, l, g) in parameters(12, 0..=2).into_iter().chain([(10, 2, 2), (9, 3, 2), (8, 4, 2)]) {
        let spec = format!("lrc:{k}+{l}+{g}");
        let code = weft_codes::parse(&spec).expect(&spec);
        let generator = linear::generator(&*code).expect(&spec);
        for pattern in 0..1 << code.shape().n {
            let lost = subset(code.shape().n, pattern);
            // More losses than parities are beyond any code.
            if lost.len() <= l + g {
                assert_eq!(decodes(&generator, &lost), is_decodable_at_best(&*code, &lost), "{spec} without {lost:?}");
            }
        }
    }
}

#[test]
fn any_one_more_than_the_global_parities_may_be_lost() {
    for (k, l, g) in parameters(14, 0..=12) {
        for spec in [format!("lrc:{k}+{l}+{g}"), format!("lrc-uniform:{k}+{l}+{g}")] {
            let code = weft_codes::parse(&spec).expect(&spec);
            let generator = linear::generator(&*code).expect(&spec);
            let n = code.shape().n;
            assert_eq!((n, code.shape().tolerance), (k + l + g, g + 1), "{spec}");
            for pattern in (0..1 << n).filter(|pattern: &u32| pattern.count_ones() as usize == g + 1) {
                assert!(decodes(&generator, &subset(n, pattern)), "{spec} without {:?}", subset(n, pattern));
            }
        }
    }
}

#[test]
fn wide_codes_survive_samples_of_what_they_promise() {
    let mut random = Random(1);
    for spec in ["lrc:96+4+5", "lrc:80+10+10", "lrc:60+4+2", "lrc-uniform:96+4+5", "lrc-uniform:72+4+4"] {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        for _ in 0..50 {
            let lost = random.distinct(code.shape().n, code.shape().tolerance);
            assert!(decodes(&generator, &lost), "{spec} without {lost:?}");
        }
    }
}

#[test]
fn one_loss_reads_its_group() {
    for spec in ["lrc:6+2+2", "lrc:12+2+2", "lrc:10+4+3", "lrc:96+4+5", "lrc-uniform:24+2+2", "lrc-uniform:96+4+5"] {
        let code = weft_codes::parse(spec).expect(spec);
        let shape = code.shape();
        for lost in 0..shape.n {
            let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
            let have = Offers((0..shape.n).map(|shard| (shard != lost).then_some(offer)).collect());
            let plan = code.plan(&Wanted::Shards(vec![lost]), &have).expect("one is lost");
            let mut read: Vec<usize> = plan.reads.iter().map(|read| read.shard).collect();
            read.sort_unstable();
            let Some(group) = shape.groups.iter().find(|group| group.shards.contains(&lost)) else {
                // Together with local parities, other global ones may save a read or two.
                assert!(read.len() <= shape.k, "{spec} without {lost}: {read:?}");
                continue;
            };
            let mut helpers: Vec<usize> = group.shards.iter().copied().filter(|&shard| shard != lost).collect();
            helpers.sort_unstable();
            assert_eq!(read, helpers, "{spec} without {lost}");
        }
    }
}

#[test]
fn the_coefficients_are_a_persistent_format() {
    let globals = |spec: &str, shards: Range<usize>| {
        let generator = linear::generator(&*weft_codes::parse(spec).expect(spec)).expect(spec);
        shards.map(|shard| generator.row(shard).to_vec()).collect::<Vec<_>>()
    };
    assert_eq!(globals("lrc:6+2+2", 8..10), [[1, 152, 78, 2, 45, 156], [1, 78, 153, 4, 37, 94]]);
    assert_eq!(globals("lrc:4+2+3", 6..9), [[166, 70, 187, 123], [245, 104, 143, 82], [210, 143, 245, 200]]);
    let uniform = [[211, 210, 251, 238, 147, 215], [187, 187, 148, 44, 226, 127]];
    assert_eq!(globals("lrc-uniform:6+2+2", 8..10), uniform);
    // A polynomial in 31, modulo 2^64, over all elements of the generator; computed by another program, too.
    for (spec, sum) in [
        ("lrc:12+2+2", 1_799_607_958_762_088_703),
        ("lrc:238+17+2", 16_629_705_901_850_529_534),
        ("lrc:96+4+5", 15_834_961_620_843_465_104),
        ("lrc-uniform:96+4+5", 7_013_016_106_365_513_992),
    ] {
        let generator = linear::generator(&*weft_codes::parse(spec).expect(spec)).expect(spec);
        let elements = (0..generator.rows()).flat_map(|row| generator.row(row));
        let hash = elements.fold(0u64, |hash, &element| hash.wrapping_mul(31).wrapping_add(u64::from(element)));
        assert_eq!(hash, sum, "{spec}");
    }
}
