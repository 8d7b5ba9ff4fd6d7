use super::*;
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

fn check(code: &dyn Code) {
    let Shape { n, alpha, tolerance, .. } = *code.shape();
    let generator = linear::generator(code).unwrap();
    let expected = by_definition(n, &|there| decodes(&generator, alpha, there));
    let known = Known::new(weft_codes::parse(code.spec()).unwrap()).unwrap();
    for (there, expected) in every_pattern(n).zip(expected) {
        assert_eq!(known.margin(&there), expected, "{} {there:?}", code.spec());
        assert_eq!(linear_margin(&generator, alpha, tolerance, &there), expected, "{} {there:?}", code.spec());
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
    let decodes = |there: &[bool]| there.chunks(2).all(|pair| pair[0] || pair[1]);
    for (there, expected) in every_pattern(6).zip(by_definition(6, &decodes)) {
        assert_eq!(linear_margin(&generator, 1, 1, &there), expected, "{there:?}");
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
    assert_eq!(Margins::default().repair_bytes(&record, &there, &[1]), Some(4 * record.geometry.payload_bytes()));
    assert_eq!(Margins::default().repair_bytes(&record, &[false; 6], &[1]), None);
}

#[test]
fn a_record_that_does_not_fit_its_code_has_no_margin() {
    assert_eq!(Margins::default().margin(&record("rs:4+2", 4), &[true; 5]), None);
    assert_eq!(Margins::default().margin(&record("nonsense", 4), &[true; 5]), None);
}
