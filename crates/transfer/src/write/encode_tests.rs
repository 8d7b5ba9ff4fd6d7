use super::*;
use crate::algebra::Algebra;
use crate::write::WriteRequest;
use crate::write::split::split;
use weft_codes::LinearCode;
use weft_format::SegmentId;
use weft_format::shard::verify_object;

fn data(length: usize, piece_bytes: usize) -> Vec<Bytes> {
    let bytes: Vec<u8> = (0..length).map(|i| (i * 31 + (i >> 8) * 7) as u8).collect();
    bytes.chunks(piece_bytes).map(Bytes::copy_from_slice).collect()
}

fn split_of(code: &str, length: usize, piece_bytes: usize) -> Split {
    let algebra = Algebra::default();
    algebra.add(grouped());
    let request = WriteRequest {
        segment: SegmentId(5),
        code: code.into(),
        write_margin: Some(1),
        cell_bytes: None,
        data: data(length, piece_bytes),
    };
    split(&algebra, request).unwrap()
}

/// Two symbols of `rs:8+4` in each shard.
fn grouped() -> LinearCode {
    let code = weft_codes::parse("rs:8+4").unwrap();
    let generator = weft_codes::linear::generator(&*code).unwrap();
    LinearCode::new("grouped".into(), 4, 2, 2, Vec::new(), generator)
}

#[test]
fn the_fast_way_gives_the_same_shards_as_the_obvious_one() {
    for code in ["rs:4+2", "raid5:4", "raid6:6", "replica:3", "rs:10+4", "grouped"] {
        for length in [1, 63, 4096, 4097, 5_000, 65_536, 262_144, 262_145, 1_048_577, 3_000_000] {
            for piece_bytes in [1_000_000, 4096, 1777] {
                let split = split_of(code, length, piece_bytes);
                let stripes: Vec<Stripe> = split.geometry.stripes().collect();
                let is_fast = |stripe: &&Stripe| frames_in_lockstep(&split.code, &split.geometry, stripe);
                let fast_count = stripes.iter().filter(is_fast).count();
                // Where a cell has several symbols, those of the last stripe may end anywhere.
                assert!(fast_count == stripes.len() || (code == "grouped" && fast_count + 1 == stripes.len()));
                let fast = fill(&split, builders(VolumeId(1), &split).unwrap());
                let mut slow = builders(VolumeId(1), &split).unwrap();
                fill_stripes(&split, &stripes, &mut slow);
                let slow: Vec<Object> = slow.into_iter().map(ShardBuilder::finish).collect();
                assert_eq!(fast, slow, "{code}, {length} bytes in pieces of {piece_bytes}");
            }
        }
    }
}

#[test]
fn every_shard_is_a_sound_object_that_holds_its_data() {
    let split = split_of("rs:4+2", 300_000, 1 << 20);
    let objects = fill(&split, builders(VolumeId(1), &split).unwrap());
    let whole = &split.data[0];
    for (index, (object, digest)) in objects.iter().enumerate() {
        let identity = ShardIdentity { volume: VolumeId(1), key: split.key(index) };
        let found = verify_object(&identity, object).unwrap();
        assert_eq!(found.digest, *digest);
        if index < 4 {
            let stripe = split.geometry.stripe(0);
            let range = split.geometry.native_range(&stripe, index as u32);
            let mut symbol = vec![0; stripe.symbol_bytes as usize];
            found.frames.copy_into(split.geometry.symbol_range(&stripe, 0), &mut symbol).unwrap();
            assert_eq!(symbol, &whole[range.start as usize..range.end as usize]);
        }
    }
}
