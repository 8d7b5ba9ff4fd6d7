use super::*;
use std::collections::BTreeSet;
use weft_format::Generation;
use weft_format::geometry::Geometry;

/// The definition, word for word, over all subsets: margins by the mask of the shards that are there.
fn by_definition(n: usize, decodes: &dyn Fn(&[bool]) -> bool) -> Vec<Option<usize>> {
    let whole: Vec<bool> = every_pattern(n).map(|there| decodes(&there)).collect();
    let margin = |there: usize| {
        let fatal = (0..1usize << n).filter(|dropped| !whole[there & !dropped]);
        let least = fatal.map(|dropped| (there & dropped).count_ones() as usize).min();
        // Without any shard nothing decodes.
        whole[there].then(|| least.unwrap_or(0).saturating_sub(1))
    };
    (0..1 << n).map(margin).collect()
}

fn every_pattern(n: usize) -> impl Iterator<Item = Vec<bool>> {
    (0u32..1 << n).map(move |pattern| (0..n).map(|i| pattern & (1 << i) != 0).collect())
}

/// Does everything follow from these shards, by the rank of their rows?
fn decodes(generator: &Matrix, alpha: usize, there: &[bool]) -> bool {
    let rows: Vec<usize> = (0..generator.rows()).filter(|row| there[row / alpha]).collect();
    generator.select_rows(&rows).rank() == generator.columns()
}

fn checks(code: &dyn Code) -> Checks {
    let generator = linear::generator(code).unwrap();
    Checks { light: light_codewords(&generator, code.shape().alpha), erasures: Erasures::new(code).unwrap() }
}

fn check(code: &dyn Code) {
    let Shape { n, alpha, tolerance, .. } = *code.shape();
    let (checks, generator) = (checks(code), linear::generator(code).unwrap());
    let expected = by_definition(n, &|there| decodes(&generator, alpha, there));
    let mut known = Known::new(weft_codes::parse(code.spec()).unwrap()).unwrap();
    for (there, expected) in every_pattern(n).zip(expected) {
        assert_eq!(known.known_margin(&there), expected, "{} {there:?}", code.spec());
        assert_eq!(checks.margin(tolerance, &there), expected, "{} {there:?}", code.spec());
    }
}

/// Cells of Mojette codes are padded, some so much that fewer than `k` shards may decode.
#[test]
fn agrees_with_the_definition_where_cells_are_padded() {
    for spec in ["mojette:3+2,l=8", "mojette:4+3,l=1", "mojette:4+3,l=3", "mojette:2+2,nonsystematic,l=3"] {
        check(&*weft_codes::parse(spec).unwrap());
    }
    // What any code of thousands of symbols would take minutes for.
    let mut margins = Margins::default();
    for spec in ["mojette:layout-2", "mojette:layout-2,nonsystematic", "mojette:16+8", "mojette:16+8,nonsystematic"] {
        let Shape { n, k, native_count, .. } = *weft_codes::parse(spec).unwrap().shape();
        let record = record(spec, native_count as u32);
        let mut there = vec![true; n];
        there[1] = false;
        assert_eq!(margins.margin(&record, &there), Some(n - k - 1), "{spec}");
        there[..=n - k].fill(false);
        assert_eq!(margins.margin(&record, &there), None, "{spec}");
    }
}

/// All that cannot be had is found at once, one by one it is the same.
#[test]
fn lost_natives_are_those_without_a_plan() {
    for spec in ["lrc:6+2+2", "embr:n=5,k=3", "mojette:3+2,l=3", "msbasic:4", "rs:4+2", "raid5:4", "ldpc:plank-5"] {
        let code = weft_codes::parse(spec).unwrap();
        let Shape { n, native_count, .. } = *code.shape();
        let record = record(spec, native_count as u32);
        for there in every_pattern(n).step_by(7) {
            let alone = |native: &usize| code.plan(&Wanted::Natives(vec![*native]), &offers(&there, false)).is_err();
            let is_whole = Margins::default().margin(&record, &there).is_some();
            let right: Vec<u32> =
                (0..native_count).filter(|native| !is_whole && alone(native)).map(|native| native as u32).collect();
            assert_eq!(Margins::default().lost_natives(&record, &there), right, "{spec} {there:?}");
        }
    }
}

#[test]
fn agrees_with_the_definition_for_every_family() {
    for family in weft_codes::families() {
        let code = weft_codes::parse(family.example).unwrap();
        let shape = code.shape();
        // All patterns of larger ones, each against all others, take minutes.
        if shape.n <= 10 && shape.native_count <= 64 {
            println!("{}", family.example);
            check(&*code);
        }
    }
}

#[test]
fn agrees_with_the_definition_where_more_survives_than_is_promised() {
    // Three pairs of mirrored shards: promises one loss, survives three if no pair is hit twice.
    let generator = Matrix::from_fn(6, 3, |row, column| u8::from(row / 2 == column));
    let checks = checks(&weft_codes::LinearCode::new("mirrored".to_owned(), 3, 1, 1, Vec::new(), generator));
    let decodes = |there: &[bool]| there.chunks(2).all(|pair| pair[0] || pair[1]);
    for (there, expected) in every_pattern(6).zip(by_definition(6, &decodes)) {
        assert_eq!(checks.margin(1, &there), expected, "{there:?}");
    }
}

/// The generators of these have up to gigabytes.
#[test]
fn wide_codes_that_count_make_no_matrix() {
    for spec in ["clay:10+4", "clay:16+4", "clay:32+32", "rs:200+55"] {
        let code = weft_codes::parse(spec).expect(spec);
        let (known, operations) = weft_codes::measure::planned(|| Known::new(code));
        let mut known = known.expect(spec);
        assert!(matches!(known.judge, Judge::Count), "{spec}");
        assert_eq!(operations, 0, "{spec}");
        let Shape { n, tolerance, .. } = *known.code.shape();
        assert_eq!(known.known_margin(&vec![true; n]), Some(tolerance), "{spec}");
    }
}

#[test]
fn wide_codes_answer_at_once() {
    let mut margins = Margins::default();
    let mut there = vec![true; 200];
    assert_eq!(margins.margin(&record("rs:100+100", 100), &there), Some(100));
    there[..100].fill(false);
    assert_eq!(margins.margin(&record("rs:100+100", 100), &there), Some(0));
    there[100] = false;
    assert_eq!(margins.margin(&record("rs:100+100", 100), &there), None);
    // Four groups of 24 with a parity each, and four more: a loss in a group leaves that group four.
    let lrc = record("lrc:96+4+4", 96);
    let mut there = vec![true; 104];
    assert_eq!(margins.margin(&lrc, &there), Some(5));
    there[50] = false;
    assert_eq!(margins.margin(&lrc, &there), Some(4));
}

fn record(code: &str, native_count: u32) -> SegmentRecord {
    SegmentRecord {
        code: code.into(),
        geometry: Geometry::new(1 << 20, native_count, 1, 1, 4096).expect("a geometry"),
        generation: Generation(1),
        shards: vec![],
    }
}

#[test]
fn real_codes() {
    let mut margins = Margins::default();
    for (code, native_count, n, tolerance) in [("rs:4+2", 4, 6, 2), ("raid5:6", 5, 6, 1), ("replica:3", 1, 3, 2)] {
        let record = record(code, native_count);
        let mut there = vec![true; n];
        for lost in 0..=tolerance {
            assert_eq!(margins.margin(&record, &there), Some(tolerance - lost), "{code} {lost}");
            assert_eq!(margins.margin(&record, &there), Some(tolerance - lost), "remembered");
            there[lost] = false;
        }
        assert_eq!(margins.margin(&record, &there), None);
    }
}

#[test]
fn a_repair_reads_what_the_plan_says() {
    let record = record("rs:4+2", 4);
    let there = [true, false, true, true, true, true];
    assert_eq!(
        Margins::default().repair_bytes(&record, &there, &[1], false),
        Some(4 * record.geometry.payload_bytes())
    );
    assert_eq!(Margins::default().repair_bytes(&record, &[false; 6], &[1], false), None);
}

#[test]
fn a_record_that_does_not_fit_its_code_has_no_margin() {
    assert_eq!(Margins::default().margin(&record("rs:4+2", 4), &[true; 5]), None);
    assert_eq!(Margins::default().margin(&record("nonsense", 4), &[true; 5]), None);
}

/// Every way to put `count` shards on units of these numbers of nodes.
fn ways(units: &[usize], count: usize) -> Vec<Vec<usize>> {
    let Some((first, rest)) = units.split_first() else {
        return if count == 0 { vec![Vec::new()] } else { Vec::new() };
    };
    let with = |held: usize| ways(rest, count - held).into_iter().map(move |rest| [vec![held], rest].concat());
    (0..=count.min(*first)).flat_map(with).collect()
}

#[test]
fn no_way_to_spread_shards_is_beyond_the_fullest_and_the_evenest() {
    for units in [vec![2, 2, 2], vec![1, 3, 2, 1], vec![4, 1], vec![3, 3, 3], vec![1, 1, 1, 1, 1], vec![5]] {
        for count in 1..=units.iter().sum() {
            for lost in 0..=count {
                let [fullest, evenest] =
                    [fullest(&units, count), evenest(&units, count)].map(|way| largest_within(&way, lost));
                let all = ways(&units, count).iter().map(|way| largest_within(way, lost)).collect::<BTreeSet<_>>();
                assert_eq!((all.first(), all.last()), (Some(&fullest), Some(&evenest)), "{units:?} {count} {lost}");
            }
        }
    }
}

#[test]
fn losses_of_one_shard_are_alike_where_it_makes_no_difference_which() {
    let of_degraded = |spec: &str| {
        let n = weft_codes::parse(spec).unwrap().shape().n;
        Margins::default().of_degraded(spec, &vec![1; n], &vec![1; n - 1], |_| 1)
    };
    let survives = |shards| Some(Survives { units: shards, nodes: shards, shards });
    for (spec, shards) in [("rs:4+2", 1), ("raid5:4", 0), ("replica:3", 1), ("lrc:96+4+4", 4), ("msbasic:4", 1)] {
        assert_eq!(of_degraded(spec), survives(shards), "{spec}");
    }
    assert_eq!(of_degraded("ldpc:2+3:1,2,2"), None, "one has two copies, the other three");
    assert_eq!(of_degraded("lrc:4+2+0").map(|survives| survives.shards), Some(0));
    assert_eq!(of_degraded("replica:1"), None, "without it the data are gone");
    assert_eq!(Margins::default().of_degraded("nonsense", &[1], &[], |_| 1), None);
}

/// Whichever of them is lost, and however the shards are on units.
#[test]
fn units_of_degraded_segments_survive_what_each_does() {
    let mut margins = Margins::default();
    let record = record("rs:4+2", 4);
    for units in [vec![2, 2, 2], vec![1, 1, 2, 2], vec![2, 2, 2, 1], vec![3, 3], vec![1, 1, 1, 1, 1, 1, 1]] {
        for lost in 0..units.len() {
            let mut there = units.clone();
            there[lost] -= 1;
            let Some(found) = margins.of_degraded("rs:4+2", &units, &there, |_| 2) else { continue };
            for way in ways(&there, 5) {
                let unit_of = (0..).zip(&way).flat_map(|(unit, held)| vec![Some(unit); *held]);
                let groups: Vec<Option<usize>> = [None].into_iter().chain(unit_of).collect();
                assert_eq!(margins.of_groups(&record, &groups, found.shards), found.units, "{units:?} {lost} {way:?}");
            }
        }
    }
    let mut decided = |units: &[usize], there: &[usize]| margins.of_degraded("rs:4+2", units, there, |_| 2).is_some();
    assert!(decided(&[2, 2, 2], &[1, 2, 2]) && !decided(&[3, 3], &[2, 3]));
}
