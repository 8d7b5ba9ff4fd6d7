use super::*;

fn siblings() -> Vec<Sibling> {
    let name = |index: u8| if index == 2 { Vec::new() } else { format!("photos.tar.{index}.weft").into_bytes() };
    (0..3).map(|index| Sibling { digest: [index; 32], name: name(index) }).collect()
}

fn trailer(siblings: &[u8]) -> Trailer {
    Trailer {
        set: VolumeId(7),
        index: ShardIndex(1),
        shard_count: 3,
        file_bytes: 5_000_000,
        digest: [0xab; 32],
        siblings_bytes: siblings.len() as u32,
        siblings_digest: *blake3::hash(siblings).as_bytes(),
    }
}

#[test]
fn a_trailer_and_its_siblings_come_back() {
    let bytes = Sibling::encode_all(&siblings()).unwrap();
    let encoded = trailer(&bytes).encode().unwrap();
    assert_eq!(Trailer::decode(&encoded), Ok(trailer(&bytes)));
    assert_eq!(trailer(&bytes).siblings(&bytes), Ok(siblings()));
}

#[test]
fn every_flipped_bit_is_found() {
    let bytes = Sibling::encode_all(&siblings()).unwrap();
    let encoded = trailer(&bytes).encode().unwrap();
    for bit in 0..8 * HEADER_BYTES {
        let mut damaged = encoded;
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(Trailer::decode(&damaged).is_err(), "bit {bit}");
    }
    for bit in 0..8 * bytes.len() {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(trailer(&bytes).siblings(&damaged).is_err(), "bit {bit} of the siblings");
    }
    assert!(matches!(Trailer::decode(&encoded[..255]), Err(ShardError::Short { .. })));
}

#[test]
fn a_trailer_that_cannot_be_is_refused_with_its_checksum_right() {
    let bytes = Sibling::encode_all(&siblings()).unwrap();
    let reseal = |change: &dyn Fn(&mut [u8; HEADER_BYTES])| {
        let mut encoded = trailer(&bytes).encode().unwrap();
        change(&mut encoded);
        let check = crc64(&encoded[..CHECK_OFFSET]);
        encoded[CHECK_OFFSET..].copy_from_slice(&check.to_le_bytes());
        Trailer::decode(&encoded)
    };
    assert!(reseal(&|_| {}).is_ok());
    assert!(matches!(reseal(&|it| it[8] = 3), Err(ShardError::UnknownVersion { version: 3, newest: 2 })));
    assert!(reseal(&|it| it[10] = 3).is_err(), "a shard beyond the last");
    assert!(reseal(&|it| it[40..44].fill(0xff)).is_err(), "siblings without end");
    assert!(reseal(&|it| it[40..44].fill(0)).is_err(), "no siblings");
    assert!(reseal(&|it| it[200] = 1).is_err(), "unused bytes");
}

#[test]
fn siblings_that_cannot_be_are_refused_with_their_digest_right() {
    let good = Sibling::encode_all(&siblings()).unwrap();
    let refused = |bytes: &[u8]| trailer(bytes).siblings(bytes).is_err();
    assert!(!refused(&good));
    assert!(refused(&good[..good.len() - 1]), "one too few");
    assert!(refused(&[&good[..], b"x"].concat()), "bytes after the last");
    let mut path = good.clone();
    path[35] = b'/';
    assert!(refused(&path), "a path");
    let dots = [Sibling { digest: [0; 32], name: b"..".to_vec() }];
    assert!(Sibling::encode_all(&dots).is_err());
}
