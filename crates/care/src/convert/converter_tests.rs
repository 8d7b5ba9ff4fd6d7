use super::*;
use weft_format::Generation;
use weft_format::geometry::Geometry;

fn part(number: u128, offset: u64, data_bytes: u64) -> FormerPart {
    let record = SegmentRecord {
        code: "replica:2".into(),
        geometry: Geometry::new(data_bytes, 1, 1, 1, 4096).expect("a geometry"),
        generation: Generation(1),
        shards: Vec::new(),
    };
    FormerPart { offset, segment: SegmentId(number), retired: RetiredRecord::whole(record, 0, 0) }
}

fn chosen(parts: &[FormerPart]) -> Option<Vec<u128>> {
    let chosen = side_by_side(parts.to_vec(), 400)?;
    Some(chosen.iter().map(|part| part.segment.0).collect())
}

#[test]
fn parts_lie_side_by_side_and_have_all_of_the_whole() {
    let four: Vec<FormerPart> = [3, 0, 2, 1].map(|number| part(number, number as u64 * 100, 100)).into();
    assert_eq!(chosen(&four), Some(vec![0, 1, 2, 3]));
    assert_eq!(chosen(&four[1..]), None, "the last is missing");
    assert_eq!(chosen(&four[..3]), None, "one in between is missing");
    assert_eq!(chosen(&[]), None);
    let longer = [&four[..], &[part(4, 400, 100)]].concat();
    assert_eq!(chosen(&longer), None);
}

#[test]
fn of_parts_and_what_these_were_made_of_the_widest_are_taken() {
    let parts = [part(1, 0, 100), part(2, 100, 100), part(3, 0, 200), part(4, 200, 200), part(5, 300, 100)];
    assert_eq!(chosen(&parts), Some(vec![3, 4]));
}

#[test]
fn who_was_refused_asks_again_after_a_while() {
    assert!(is_to_be_asked(None, 0));
    let at_ms = 1_000_000;
    for (later_ms, is_asked) in [(0, false), (ASK_AGAIN_MS - 1, false), (ASK_AGAIN_MS, true)] {
        assert_eq!(is_to_be_asked(Some(at_ms), at_ms + later_ms), is_asked, "{later_ms}");
    }
}
