use super::*;

fn header() -> ShardFileHeader {
    ShardFileHeader {
        set: VolumeId(7),
        index: ShardIndex(5),
        shard_count: 6,
        code: "embr:n=6,k=5".into(),
        name: b"b\xffd: a=b.tar".to_vec(),
        geometry: Geometry::new(1 << 20, 4, 1, 1, 65_536).unwrap(),
    }
}

#[test]
fn a_header_comes_back() {
    let encoded = header().encode().unwrap();
    assert_eq!(ShardFileHeader::decode(&encoded), Ok(header()));
    let longest = ShardFileHeader { name: vec![b'n'; 255], code: "c".repeat(96), ..header() };
    assert_eq!(ShardFileHeader::decode(&longest.encode().unwrap()), Ok(longest));
}

#[test]
fn every_flipped_bit_is_found() {
    let encoded = header().encode().unwrap();
    for bit in 0..8 * FILE_HEADER_BYTES {
        let mut damaged = encoded;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(ShardFileHeader::decode(&damaged).is_err(), "bit {bit}");
    }
    assert!(matches!(ShardFileHeader::decode(&encoded[..511]), Err(ShardError::Short { .. })));
}

#[test]
fn a_header_that_cannot_be_is_refused_with_its_checksum_right() {
    let reseal = |change: &dyn Fn(&mut [u8; FILE_HEADER_BYTES])| {
        let mut bytes = header().encode().unwrap();
        change(&mut bytes);
        let check = crc64(&bytes[..CHECK_OFFSET]);
        bytes[CHECK_OFFSET..].copy_from_slice(&check.to_le_bytes());
        ShardFileHeader::decode(&bytes)
    };
    assert!(reseal(&|_| {}).is_ok());
    assert!(matches!(reseal(&|bytes| bytes[8] = 1), Err(ShardError::UnknownVersion { version: 1, newest: 2 })));
    assert!(reseal(&|bytes| bytes[10] = 6).is_err(), "a shard beyond the last");
    assert!(reseal(&|bytes| bytes[12] = 0).is_err(), "no shards");
    assert!(reseal(&|bytes| bytes[NAME_OFFSET + 1] = b'/').is_err(), "a path");
    assert!(reseal(&|bytes| bytes[15] = 0).is_err(), "no name");
    assert!(reseal(&|bytes| bytes[15] = 0xff).is_err(), "a name past its end");
    assert!(reseal(&|bytes| bytes[14] = 0).is_err(), "no code");
    assert!(reseal(&|bytes| bytes[14] = 0xff).is_err(), "a code past its end");
    assert!(reseal(&|bytes| bytes[32..40].fill(0)).is_err(), "segments of nothing");
    assert!(reseal(&|bytes| bytes[32..40].fill(0xff)).is_err(), "segments without end");
    assert!(reseal(&|bytes| bytes[CHECK_OFFSET - 1] = 1).is_err(), "unused bytes");
    let dots = ShardFileHeader { name: b"..".to_vec(), ..header() };
    assert!(dots.encode().is_err());
}
