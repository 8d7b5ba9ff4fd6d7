//! Shards.

use crate::seals::sealed;
use weft_format::geometry::Geometry;
use weft_format::shard::{
    HEADER_BYTES, ShardBuilder, ShardHeader, ShardIdentity, frames_range, object_bytes, verify_frames, verify_object,
};
use weft_format::{Generation, SegmentId, ShardIndex, ShardKey, VolumeId};

const IDENTITY: ShardIdentity = ShardIdentity {
    volume: VolumeId(1),
    key: ShardKey { segment: SegmentId(7), generation: Generation::FIRST, index: ShardIndex(2) },
};

pub(super) fn geometry(data_bytes: u64, native_count: u32) -> Geometry {
    Geometry::new(data_bytes, native_count, 1, 1, 64 << 10).expect("it is small")
}

fn shard_header(data_bytes: u64) -> ShardHeader {
    ShardHeader { identity: IDENTITY, code: "rs:2+1".to_owned(), geometry: geometry(data_bytes, 2) }
}

/// What readers ask of a geometry from outside.
pub(super) fn ask(geometry: &Geometry) {
    let payload_bytes = geometry.payload_bytes();
    let count = geometry.stripe_count();
    for index in [0, count / 2, count - 1, count, u32::MAX] {
        let stripe = geometry.stripe(index);
        assert!(stripe.cell.end <= payload_bytes && stripe.data.end <= geometry.source_bytes());
        for native in [0, geometry.native_count - 1] {
            assert!(geometry.native_range(&stripe, native).end <= geometry.data_bytes);
        }
        assert!(geometry.symbol_range(&stripe, geometry.alpha - 1).end <= payload_bytes);
    }
    let end = geometry.data_bytes;
    for range in [0..1, end / 2..end, end - 1..u64::MAX, u64::MAX - 1..u64::MAX] {
        let mut at = range.start.min(end);
        for piece in geometry.pieces(range.clone()).take(100) {
            assert_eq!(piece.data_offset, at, "pieces follow each other");
            at += u64::from(piece.within_symbol.end - piece.within_symbol.start);
        }
        let whole = geometry.whole_stripes(range.clone());
        assert!(whole.start <= range.start.min(end) && whole.end >= range.end.min(end));
    }
    let _ = geometry.source();
}

/// A header as it is, and with a right checksum.
pub(super) fn header(bytes: &[u8]) {
    let _ = ShardHeader::decode(bytes);
    let bytes = sealed(bytes, HEADER_BYTES);
    let Ok(header) = ShardHeader::decode(&bytes) else { return };
    assert_eq!(header.encode().as_ref().map(|again| &again[..]), Ok(&bytes[..HEADER_BYTES]));
    ask(&header.geometry);
}

pub(super) fn header_seeds() -> Vec<Vec<u8>> {
    let merged = ShardHeader { geometry: geometry(50_000, 1).merged(2), ..shard_header(1) };
    [shard_header(100_000), shard_header(1), merged].map(|header| header.encode().expect("it is right").to_vec()).into()
}

/// A whole object, as it is and with a right header, and ranges of its frames. The first two bytes choose a range.
pub(super) fn object(bytes: &[u8]) {
    let [from, length, object @ ..] = bytes else { return };
    let _ = verify_object(&IDENTITY, object);
    let object = sealed(object, HEADER_BYTES);
    let Ok(header) = ShardHeader::decode(&object) else { return };
    let payload_bytes = header.geometry.payload_bytes();
    if let Ok(verified) = verify_object(&header.identity, &object) {
        assert_eq!(object.len() as u64, object_bytes(payload_bytes));
        let mut payload = vec![0; payload_bytes as usize];
        verified.frames.copy_into(0..payload_bytes, &mut payload).expect("all of it is there");
        let mut builder = ShardBuilder::new(&header).expect("the header is right");
        builder.write(0, &payload).expect("it is as long");
        assert_eq!(builder.finish().0, object);
    }
    let start = u64::from(*from) * 100;
    let wanted = start..start + u64::from(*length) * 100;
    let raw = frames_range(wanted.clone(), payload_bytes);
    let Some(raw) = object.get(raw.start as usize..raw.end as usize) else { return };
    if let Ok(frames) = verify_frames(&header.identity, payload_bytes, wanted.clone(), raw) {
        let held = frames.held();
        assert!(held.end <= payload_bytes);
        let slices = frames.slices(held.clone()).expect("they are held");
        assert_eq!(slices.map(|slice| slice.len() as u64).sum::<u64>(), held.end - held.start);
    }
}

pub(super) fn object_seeds() -> Vec<Vec<u8>> {
    let object = |data_bytes: u64| {
        let mut builder = ShardBuilder::new(&shard_header(data_bytes)).expect("the header is right");
        builder.write(0, &[5; 100]).expect("it is longer");
        [&[1, 9][..], &builder.finish().0].concat()
    };
    vec![object(300), object(9000)]
}
