use super::*;
use crate::write::split::{geometry, recut};
use std::sync::Arc;
use weft_format::SegmentId;
use weft_format::geometry::Geometry;

fn code(spec: &str) -> Arc<dyn Code> {
    weft_codes::parse(spec).expect("a code")
}

fn same_shards(old: &str, new: &str) -> Vec<usize> {
    let alike = alike(&*code(old), &*code(new));
    assert_eq!(alike.len(), code(new).shape().n);
    (0..alike.len()).filter(|index| alike[*index]).collect()
}

/// Segments that make one, and how many shards of theirs may stand in each place.
fn places(old: &str, new: &str) -> Option<(usize, Vec<usize>)> {
    let fit = fit(&*code(old), &*code(new))?;
    Some((fit.source_count, fit.places.iter().map(Vec::len).collect()))
}

#[test]
fn shards_that_two_codes_have_in_common() {
    assert_eq!(same_shards("rs:4+2", "rs:4+3")[..4], [0, 1, 2, 3], "the data");
    assert_eq!(same_shards("raid5:5", "rs:4+2")[..4], [0, 1, 2, 3]);
    assert_eq!(same_shards("replica:3", "replica:2"), [0, 1]);
    assert_eq!(same_shards("replica:2", "replica:4"), [0, 1], "those that are there");
    assert_eq!(same_shards("rs:4+2", "rs:4+2"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(same_shards("replica:3", "rs:4+2"), [] as [usize; 0], "a copy is no quarter");
    assert_eq!(same_shards("rs:4+2", "rs:8+2"), [] as [usize; 0], "a quarter is no eighth");
    for (old, new) in
        [("rs:4+2", "clay:4+2"), ("clay:4+2", "msbasic:4"), ("msbasic:4", "basic:4+4,d=6"), ("crs:4+2", "rs:4+2")]
    {
        assert_eq!(same_shards(old, new), [0, 1, 2, 3], "{old} to {new}: the data, in symbols of other lengths");
    }
    assert_eq!(same_shards("rs:4+2", "mojette:4+2"), [] as [usize; 0], "its cells end in zeros");
    assert_eq!(same_shards("rs:9+1", "embr:n=6,k=2"), [] as [usize; 0], "its shards share symbols");
}

#[test]
fn copies_are_the_data_of_every_code_that_stores_data_plainly_and_once() {
    for (new, k, n) in [
        ("rs:4+2", 4, 6),
        ("lrc:4+2+2", 4, 8),
        ("msbasic:4", 4, 8),
        ("msbasic:6", 6, 12),
        ("basic:4+4,d=6", 4, 8),
        ("clay:4+2", 4, 6),
        ("clay:6+3", 6, 9),
        ("msr:4+4,d=7", 4, 8),
        ("crs:4+2", 4, 6),
    ] {
        let expected = [vec![3; k], vec![0; n - k]].concat();
        assert_eq!(places("replica:3", new), Some((k, expected)), "{new}");
    }
    assert_eq!(places("rs:2+1", "clay:4+2"), Some((2, vec![1, 1, 1, 1, 0, 0])));
    assert_eq!(places("clay:2+2", "msbasic:4"), Some((2, [vec![1; 4], vec![0; 4]].concat())));
    for new in
        ["mojette:4+2", "mojette:4+2,nonsystematic", "embr:n=6,k=4", "embr:n=4,k=3", "mbr:4+4,d=5", "basic-mbr:3+3,d=5"]
    {
        assert_eq!(places("replica:3", new), None, "{new}");
    }
}

/// Which byte of a segment's data each byte of a plain shard is; `None`: padding.
fn contents(geometry: &Geometry, first_native: u32) -> Vec<Option<u64>> {
    let mut bytes = Vec::new();
    for stripe in geometry.stripes() {
        for native in first_native..first_native + geometry.alpha {
            let data = geometry.native_range(&stripe, native);
            let padding = stripe.symbol_bytes as usize - data.clone().count();
            bytes.extend(data.map(Some).chain(std::iter::repeat_n(None, padding)));
        }
    }
    bytes
}

#[test]
fn where_a_layout_serves_both_codes_the_bytes_of_plain_shards_are_the_same() {
    let pairs = [
        ("replica:3", "clay:4+2"),
        ("replica:3", "msbasic:6"),
        ("replica:2", "basic:4+4,d=6"),
        ("rs:4+2", "clay:4+2"),
        ("clay:4+2", "rs:4+2"),
        ("clay:4+2", "msbasic:4"),
        ("rs:2+1", "clay:4+2"),
        ("msbasic:4", "msbasic:8"),
    ];
    for (old, new) in pairs {
        let (old_code, new_code) = (code(old), code(new));
        let (of_old, of_new) = (old_code.shape(), new_code.shape());
        let count = source_count(of_old, of_new).expect("a whole number");
        let mut served_count = 0;
        for data_bytes in [1, 999, 4096, 65_536, 90_000, 120_000, 262_144, 300_001] {
            let segment = SegmentId::new(1, 1);
            let before = geometry(of_old, segment, data_bytes).expect("a length");
            let Some(after) = recut(&before, of_new, count as u32) else { continue };
            served_count += 1;
            assert_eq!((after.native_count as usize, after.alpha as usize), (of_new.native_count, of_new.alpha));
            for place in 0..of_new.n {
                let Some(first) = first_native(of_new, place) else { continue };
                let (source, index) = (place / of_old.k, place % of_old.k);
                let start = source as u64 * data_bytes;
                let own = contents(&before, (index * of_old.alpha) as u32);
                let own: Vec<_> = own.into_iter().map(|byte| byte.map(|byte| start + byte)).collect();
                assert!(contents(&after, first as u32) == own, "{old} to {new}, {data_bytes} bytes: shard {place}");
            }
        }
        assert!(served_count >= 2, "{old} to {new}: {served_count} lengths");
    }
}

#[test]
fn where_the_bytes_would_differ_there_is_no_layout() {
    let recut = |old: &str, new: &str, data_bytes: u64| {
        let (old, new) = (code(old), code(new));
        let before = geometry(old.shape(), SegmentId::new(1, 1), data_bytes).expect("a length");
        recut(&before, new.shape(), source_count(old.shape(), new.shape()).expect("a whole number") as u32)
    };
    // Eight symbols of a copy's last cell would be padded.
    assert_eq!(recut("replica:3", "clay:4+2", 300_001), None);
    assert!(recut("replica:3", "clay:4+2", 300_000).is_some());
    assert_eq!(recut("replica:3", "clay:6+3", 1 << 20), None, "27 symbols");
    // A cell of 64 KiB has symbols of 1 KiB there, and a repair would read frames of 4 KiB for each.
    assert_eq!(recut("rs:8+4", "clay:8+4", 1 << 20), None);
    assert!(recut("rs:4+2", "clay:4+2", 1 << 20).is_some());
    // More than a segment may hold.
    assert_eq!(recut("replica:3", "clay:4+2", 32 << 20), None);
}
