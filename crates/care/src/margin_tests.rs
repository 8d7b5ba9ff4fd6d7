use super::*;
use weft_format::Generation;
use weft_format::geometry::Geometry;

/// The definition, word for word, over all subsets.
fn by_definition(there: &[bool], decodes: &dyn Fn(&[bool]) -> bool) -> Option<usize> {
    if !decodes(there) {
        return None;
    }
    let present = there.iter().filter(|there| **there).count();
    let mut worst = present;
    for dropped in 0u32..1 << there.len() {
        let rest: Vec<bool> = (0..there.len()).map(|i| there[i] && dropped & (1 << i) == 0).collect();
        let lost = present - rest.iter().filter(|there| **there).count();
        if !decodes(&rest) {
            worst = worst.min(lost - 1);
        }
    }
    Some(worst)
}

fn every_pattern(n: usize) -> impl Iterator<Item = Vec<bool>> {
    (0u32..1 << n).map(move |pattern| (0..n).map(|i| pattern & (1 << i) != 0).collect())
}

#[test]
fn agrees_with_the_definition_for_codes_of_any_k_of_n() {
    for (n, k) in [(6, 4), (3, 1), (6, 5), (4, 4)] {
        let decodes = |there: &[bool]| there.iter().filter(|there| **there).count() >= k;
        for there in every_pattern(n) {
            assert_eq!(margin(n - k, &there, &decodes), by_definition(&there, &decodes), "{n} {k} {there:?}");
        }
    }
}

#[test]
fn agrees_with_the_definition_where_more_survives_than_is_promised() {
    // Three pairs of mirrored shards: promises one loss, survives three if no pair is hit twice.
    let decodes = |there: &[bool]| there.chunks(2).all(|pair| pair[0] || pair[1]);
    for there in every_pattern(6) {
        assert_eq!(margin(1, &there, &decodes), by_definition(&there, &decodes), "{there:?}");
    }
}

#[test]
fn a_wide_code_answers_from_its_promise() {
    let decodes = |there: &[bool]| there.iter().filter(|there| **there).count() >= 100;
    let mut there = vec![true; 200];
    assert_eq!(margin(100, &there, &decodes), Some(100));
    there[..100].fill(false);
    assert_eq!(margin(100, &there, &decodes), Some(0));
    there[100] = false;
    assert_eq!(margin(100, &there, &decodes), None);
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
