use super::*;

fn header(file_bytes: u64) -> ShardFileHeader {
    ShardFileHeader {
        set: VolumeId(7),
        index: ShardIndex(5),
        code: "embr:n=6,k=5".into(),
        name: b"b\xffd: a=b.tar".to_vec(),
        file_bytes,
        digest: [0xab; 32],
        geometry: Geometry::new(1 << 20, 4, 1, 1, 65_536).unwrap(),
    }
}

#[test]
fn a_header_comes_back() {
    for file_bytes in [0, 1, 5_000_000, 1 << 62] {
        let encoded = header(file_bytes).encode().unwrap();
        assert_eq!(ShardFileHeader::decode(&encoded), Ok(header(file_bytes)));
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let encoded = header(5_000_000).encode().unwrap();
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
        let mut bytes = header(5_000_000).encode().unwrap();
        change(&mut bytes);
        let check = crc64(&bytes[..CHECK_OFFSET]);
        bytes[CHECK_OFFSET..].copy_from_slice(&check.to_le_bytes());
        ShardFileHeader::decode(&bytes)
    };
    assert!(reseal(&|_| {}).is_ok());
    assert!(matches!(reseal(&|bytes| bytes[8] = 2), Err(ShardError::UnknownVersion { version: 2, newest: 1 })));
    assert!(reseal(&|bytes| bytes[NAME_OFFSET + 1] = b'/').is_err(), "a path");
    assert!(reseal(&|bytes| bytes[14] = 0).is_err(), "no name");
    assert!(reseal(&|bytes| bytes[15] = 0xff).is_err(), "a name past the end");
    assert!(reseal(&|bytes| bytes[12] = 0).is_err(), "no code");
    assert!(reseal(&|bytes| bytes[40..48].fill(0)).is_err(), "segments of nothing");
    assert!(reseal(&|bytes| bytes[CHECK_OFFSET - 1] = 1).is_err(), "unused bytes");
    let endless = |bytes: &mut [u8; FILE_HEADER_BYTES]| {
        bytes[32..40].fill(0xff);
        bytes[40..48].copy_from_slice(&1u64.to_le_bytes());
    };
    assert!(reseal(&endless).is_err(), "shards longer than any file");
    let dots = ShardFileHeader { name: b"..".to_vec(), ..header(0) };
    assert!(dots.encode().is_err());
}

#[test]
fn objects_lie_one_after_another() {
    let header = header(2 * (1 << 20) + 5);
    assert_eq!(header.segment_count(), 3);
    assert_eq!(header.object_range(0).start, 512);
    assert_eq!(header.object_range(0).end, header.object_range(1).start);
    assert_eq!(header.segment_geometry(2).data_bytes, 5);
    assert_eq!(header.object_range(2).end, header.shard_file_bytes());
    assert_eq!(self::header(0).shard_file_bytes(), 512);
}
