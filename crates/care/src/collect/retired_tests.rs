use super::*;
use weft_format::Generation;
use weft_format::geometry::Geometry;
use weft_format::records::SegmentRecord;

#[test]
fn it_is_due_when_both_times_are_over() {
    let record = SegmentRecord {
        code: "replica:2".into(),
        geometry: Geometry::new(100, 1, 1, 1, 4096).expect("a geometry"),
        generation: Generation(1),
        shards: Vec::new(),
    };
    let kept = |keep_ms| RetiredRecord { record: record.clone(), since_ms: 1000, keep_ms, is_going: false };
    assert!(!is_due(&kept(500), 100, 499) && is_due(&kept(500), 100, 500));
    assert!(!is_due(&kept(0), 100, 99) && is_due(&kept(0), 100, 100));
    assert!(!is_due(&kept(u64::MAX), 0, u64::MAX - 1));
    let going = RetiredRecord { is_going: true, ..kept(500) };
    assert!(is_due(&going, 100, 0), "what was begun is brought to its end");
}
