use super::*;
use crate::geometry::Geometry;
use crate::ids::{Generation, SegmentId, ShardIndex};
use proptest::prelude::*;

fn identity() -> ShardIdentity {
    let key = ShardKey { segment: SegmentId(0xabc), generation: Generation(3), index: ShardIndex(4) };
    ShardIdentity { volume: VolumeId(1), key }
}

/// A shard whose payload has exactly `payload_bytes`.
fn header(payload_bytes: u64) -> ShardHeader {
    let geometry = Geometry::new(payload_bytes, 1, 1, 1, 65_536).unwrap();
    ShardHeader { identity: identity(), code: "replica:1".to_owned(), geometry }
}

fn payload(bytes: u64) -> Vec<u8> {
    (0..bytes).map(|i| (i * 7 + i / 256) as u8).collect()
}

fn build(header: &ShardHeader) -> (Vec<u8>, Digest) {
    let mut builder = ShardBuilder::new(header).unwrap();
    builder.write(0, &payload(builder.payload_bytes())).unwrap();
    let (object, digest) = builder.finish();
    (object.to_vec(), digest)
}

/// CRC-64/NVME bit by bit: reflected polynomial 0x9a6c9329ac4bc9b5, all ones before and after.
fn slow_crc64(bytes: &[u8]) -> u64 {
    let step = |crc: u64, byte: &u8| {
        (0..8).fold(
            crc ^ u64::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x9a6c_9329_ac4b_c9b5 } else { crc >> 1 },
        )
    };
    !bytes.iter().fold(u64::MAX, step)
}

#[test]
fn crc_is_crc64_nvme() {
    // The check value of the CRC catalogue.
    assert_eq!(crc64(b"123456789"), 0xae8b_1486_0a79_9888);
    for length in [0, 1, 7, 8, 63, 4095, 4096] {
        assert_eq!(crc64(&payload(length)), slow_crc64(&payload(length)), "{length} bytes");
    }
}

#[test]
fn sizes() {
    for (payload_bytes, frames, object) in
        [(1, 1, 265), (4096, 1, 4360), (4097, 2, 4369), (2_500_000, 611, 2_505_144), (65_536, 16, 65_920)]
    {
        assert_eq!((frame_count(payload_bytes), object_bytes(payload_bytes)), (frames, object));
        assert_eq!(build(&header(payload_bytes)).0.len() as u64, object);
    }
    assert_eq!(frames_range(0..1, 10_000), 256..4360);
    assert_eq!(frames_range(4096..4097, 10_000), 4360..8464);
    assert_eq!(frames_range(4095..4097, 10_000), 256..8464);
    assert_eq!(frames_range(0..u64::MAX, 10_000), 256..10_280);
    assert_eq!(frames_range(9_999..10_000, 10_000), 8464..10_280);
    for empty in [5_000..5_000, 10_000..20_000, 20_000..30_000] {
        assert!(frames_range(empty, 10_000).is_empty());
    }
}

#[test]
fn the_digest_is_of_the_payload_alone() {
    let (_, digest) = build(&header(10_000));
    let mut other = header(10_000);
    other.identity.key.generation = Generation(99);
    other.identity.volume = VolumeId(77);
    assert_eq!(build(&other).1, digest);
    assert_ne!(build(&header(9_999)).1, digest);
}

#[test]
fn every_flipped_bit_is_found() {
    let (mut object, digest) = build(&header(5_000));
    for bit in 0..object.len() * 8 {
        object[bit / 8] ^= 1 << (bit % 8);
        assert!(verify_object(&identity(), &object).is_err(), "bit {bit} of the object");
        if bit / 8 >= HEADER_BYTES {
            let raw = &object[HEADER_BYTES..];
            let frame = (bit / 8 - HEADER_BYTES) / FRAME_BYTES;
            let result = verify_frames(&identity(), 5_000, 0..5_000, raw);
            assert_eq!(result.unwrap_err(), ShardError::BadChecksum { frame: frame as u64 }, "bit {bit}");
        }
        object[bit / 8] ^= 1 << (bit % 8);
    }
    assert_eq!(verify_object(&identity(), &object).unwrap().digest, digest);
}

#[test]
fn every_truncation_and_extension_is_found() {
    let (object, _) = build(&header(5_000));
    for length in 0..object.len() {
        let result = verify_object(&identity(), &object[..length]);
        assert!(matches!(result, Err(ShardError::Short { .. })), "{length} bytes: {result:?}");
        if length >= HEADER_BYTES {
            let result = verify_frames(&identity(), 5_000, 0..5_000, &object[HEADER_BYTES..length]);
            assert!(matches!(result, Err(ShardError::Short { .. })), "{length} bytes: {result:?}");
        }
    }
    for extension in [1, 8, 4096, 4104] {
        let mut longer = object.clone();
        longer.resize(object.len() + extension, 0);
        assert!(matches!(verify_object(&identity(), &longer), Err(ShardError::Long { .. })));
        let result = verify_frames(&identity(), 5_000, 0..5_000, &longer[HEADER_BYTES..]);
        assert!(matches!(result, Err(ShardError::Long { .. })));
    }
    // A hole where a frame was, as a lost write leaves it.
    let mut hole = object.clone();
    hole[HEADER_BYTES..HEADER_BYTES + FRAME_BYTES].fill(0);
    assert_eq!(verify_object(&identity(), &hole).unwrap_err(), ShardError::BadChecksum { frame: 0 });
}

#[test]
fn shards_of_others_are_found_with_and_without_the_header() {
    let (object, _) = build(&header(5_000));
    let key = identity().key;
    for other in [
        ShardIdentity { volume: VolumeId(2), key },
        ShardIdentity { key: ShardKey { segment: SegmentId(0xabd), ..key }, ..identity() },
        ShardIdentity { key: ShardKey { generation: Generation(2), ..key }, ..identity() },
        ShardIdentity { key: ShardKey { index: ShardIndex(5), ..key }, ..identity() },
    ] {
        let result = verify_object(&other, &object).unwrap_err();
        assert_eq!(result, ShardError::WrongIdentity { expected: other, found: identity() });
        let result = verify_frames(&other, 5_000, 0..5_000, &object[HEADER_BYTES..]).unwrap_err();
        assert_eq!(result, ShardError::BadChecksum { frame: 0 });
    }
}

#[test]
fn frames_do_not_change_places() {
    let mut builder = ShardBuilder::new(&header(3 * 4096)).unwrap();
    for frame in 0..3 {
        builder.frame_mut(frame).fill(9);
    }
    let (object, _) = builder.finish();
    let frame = |index: usize| &object[HEADER_BYTES + index * FRAME_BYTES..][..FRAME_BYTES];
    assert_eq!(frame(0)[..4096], frame(1)[..4096]);
    verify_frames(&identity(), 3 * 4096, 4096..8192, frame(1)).unwrap();
    for wrong in [0, 2] {
        let result = verify_frames(&identity(), 3 * 4096, 4096..8192, frame(wrong));
        assert_eq!(result.unwrap_err(), ShardError::BadChecksum { frame: 1 });
    }
}

#[test]
fn sealing_early_late_or_again_is_the_same() {
    let header = header(10_000);
    let (object, digest) = build(&header);
    let bytes = payload(10_000);

    let mut early = ShardBuilder::new(&header).unwrap();
    for (frame, chunk) in bytes.chunks(FRAME_PAYLOAD_BYTES).enumerate() {
        early.frame_mut(frame).fill(0xee);
        early.seal_frame(frame);
        early.frame_mut(frame).copy_from_slice(chunk);
        if frame != 1 {
            early.seal_frame(frame);
        }
        assert_eq!(early.frame(frame), chunk);
    }
    assert_eq!(early.finish(), (object.clone().into(), digest));

    let mut apart = ShardBuilder::new(&header).unwrap();
    let frames: Vec<_> = apart.frames_mut().collect();
    std::thread::scope(|scope| {
        for (mut frame, chunk) in frames.into_iter().zip(bytes.chunks(FRAME_PAYLOAD_BYTES)) {
            scope.spawn(move || {
                frame.payload_mut().copy_from_slice(chunk);
                frame.seal();
            });
        }
    });
    assert_eq!(apart.finish(), (object.into(), digest));
}

#[test]
fn padding_is_zero() {
    let mut builder = ShardBuilder::new(&header(5_000)).unwrap();
    builder.write(4_990, &[1; 5]).unwrap();
    let (object, _) = builder.finish();
    let verified = verify_object(&identity(), &object).unwrap();
    let mut out = vec![7; 5_000];
    verified.frames.copy_into(0..5_000, &mut out).unwrap();
    assert!(out[..4_990].iter().chain(&out[4_995..]).all(|&byte| byte == 0) && out[4_990..4_995] == [1; 5]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut builder = ShardBuilder::new(&header(5_000)).unwrap();
    for (offset, length) in [(0, 5_001), (5_000, 1), (u64::MAX, 1)] {
        assert!(matches!(builder.write(offset, &vec![0; length]), Err(ShardError::Outside { .. })));
    }
    let (object, _) = builder.finish();
    let frames = verify_frames(&identity(), 5_000, 4_500..4_600, &object[HEADER_BYTES + FRAME_BYTES..]).unwrap();
    assert_eq!(frames.held(), 4_096..5_000);
    for (range, length) in [(4_095..4_100, 5), (4_999..5_001, 2), (4_500..4_600, 99), (4_500..4_600, 101)] {
        let result = frames.copy_into(range, &mut vec![0; length]);
        assert!(matches!(result, Err(ShardError::Outside { .. })));
    }
    assert!(frames.slices(std::ops::Range { start: 4_600, end: 4_500 }).is_err());
}

#[test]
fn code_names_are_checked() {
    for code in ["", "two words", "ümlaut", "tab\t", &"x".repeat(97)] {
        let header = ShardHeader { code: code.to_owned(), ..header(1) };
        assert!(matches!(header.encode(), Err(ShardError::CodeName { .. })), "{code:?}");
        assert!(ShardBuilder::new(&header).is_err());
    }
    let longest = ShardHeader { code: "x".repeat(96), ..header(1) };
    assert_eq!(ShardHeader::decode(&longest.encode().unwrap()), Ok(longest));
}

/// A header with `change` made to it and a checksum that fits.
fn resealed(change: impl FnOnce(&mut [u8; HEADER_BYTES])) -> [u8; HEADER_BYTES] {
    let mut bytes = header(5_000).encode().unwrap();
    change(&mut bytes);
    let check = crc64(&bytes[..HEADER_BYTES - 8]);
    bytes[HEADER_BYTES - 8..].copy_from_slice(&check.to_le_bytes());
    bytes
}

#[test]
fn headers_that_cannot_be_are_refused() {
    let newer = resealed(|bytes| bytes[8] = 3);
    assert_eq!(ShardHeader::decode(&newer), Err(ShardError::UnknownVersion { version: 3, newest: 2 }));
    type Change = fn(&mut [u8; HEADER_BYTES]);
    let changes: [(&str, Change); 10] = [
        ("magic", |bytes| bytes[0] = b'w'),
        ("reserved", |bytes| bytes[200] = 1),
        ("bytes after the code", |bytes| bytes[100] = 1),
        ("code too long", |bytes| bytes[72] = 200),
        ("code cut off", |bytes| bytes[72] = 0),
        ("code no text", |bytes| bytes[80] = 0xff),
        ("no data", |bytes| bytes[48..56].fill(0)),
        ("no part", |bytes| bytes[8] = 2),
        ("one part in a header for several", |bytes| (bytes[8], bytes[176]) = (2, 1)),
        ("parts in a header for one", |bytes| bytes[176] = 2),
    ];
    for (what, change) in changes {
        assert!(matches!(ShardHeader::decode(&resealed(change)), Err(ShardError::BadHeader { .. })), "{what}");
    }
}

proptest! {
    #[test]
    fn any_range_comes_back(payload_bytes in 1u64..30_000, a in 0u64..31_000, b in 0u64..31_000) {
        let header = header(payload_bytes);
        let (object, _) = build(&header);
        let range = a.min(b).min(payload_bytes)..a.max(b).min(payload_bytes);
        let raw = frames_range(range.clone(), payload_bytes);
        let raw = &object[raw.start as usize..raw.end as usize];
        let frames = verify_frames(&identity(), payload_bytes, range.clone(), raw).unwrap();
        let mut out = vec![0; (range.end - range.start) as usize];
        frames.copy_into(range.clone(), &mut out).unwrap();
        prop_assert_eq!(&out, &payload(payload_bytes)[range.start as usize..range.end as usize]);
        let slices: Vec<u8> = frames.slices(range).unwrap().flatten().copied().collect();
        prop_assert_eq!(slices, out);
    }

    #[test]
    fn hostile_bytes_never_panic(mut bytes: Vec<u8>, start: u64, end: u64, payload_bytes in 0u64..100_000) {
        let _ = ShardHeader::decode(&bytes);
        let _ = verify_object(&identity(), &bytes);
        let _ = verify_frames(&identity(), payload_bytes, start..end, &bytes);
        let header = resealed(|header| {
            for (i, byte) in bytes.drain(..).enumerate() {
                header[10 + i % 238] = byte;
            }
        });
        let _ = verify_object(&identity(), &header);
    }
}
