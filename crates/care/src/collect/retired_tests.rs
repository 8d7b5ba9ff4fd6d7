use super::*;
use weft_format::Generation;
use weft_format::geometry::Geometry;

#[test]
fn it_is_due_when_both_times_are_over_and_a_clock_that_jumped_hastens_nothing() {
    let record = SegmentRecord {
        code: "replica:2".into(),
        geometry: Geometry::new(100, 1, 1, 1, 4096).expect("a geometry"),
        generation: Generation(1),
        shards: Vec::new(),
    };
    let kept = |since_ms, keep_ms| RetiredRecord { record: record.clone(), since_ms, keep_ms, is_going: false };
    assert!(!is_due(&kept(1000, 500), 100, 1499));
    assert!(is_due(&kept(1000, 500), 100, 1500));
    assert!(!is_due(&kept(1000, 0), 100, 1099));
    assert!(is_due(&kept(1000, 0), 100, 1100));
    assert!(!is_due(&kept(5000, 0), 0, 1000), "from the future");
    assert!(!is_due(&kept(u64::MAX, 1), 0, u64::MAX));
    let going = RetiredRecord { is_going: true, ..kept(5000, 500) };
    assert!(is_due(&going, 100, 1000), "what was begun is brought to its end");
}
