use super::*;
use crate::algebra::Algebra;
use crate::write::WriteRequest;
use crate::write::split::split;
use weft_format::SegmentId;
use weft_format::shard::verify_object;

fn data(length: usize, piece_bytes: usize) -> Vec<Bytes> {
    let bytes: Vec<u8> = (0..length).map(|i| (i * 31 + (i >> 8) * 7) as u8).collect();
    bytes.chunks(piece_bytes).map(Bytes::copy_from_slice).collect()
}

fn split_of(code: &str, length: usize, piece_bytes: usize) -> Split {
    let request =
        WriteRequest { segment: SegmentId(5), code: code.into(), write_margin: 1, data: data(length, piece_bytes) };
    split(&Algebra::default(), request).unwrap()
}

/// Both ways, whatever the fast one's condition says of the code.
fn both_ways(split: &Split) -> [Vec<Object>; 2] {
    let fill_by = |fill: fn(&Split, &mut [ShardBuilder])| {
        let mut builders = builders(VolumeId(1), split).unwrap();
        fill(split, &mut builders);
        builders.into_iter().map(ShardBuilder::finish).collect()
    };
    [fill_by(fill_frames), fill_by(fill_stripes)]
}

#[test]
fn the_fast_way_gives_the_same_shards_as_the_obvious_one() {
    for code in ["rs:4+2", "raid5:4", "raid6:6", "replica:3", "rs:10+4"] {
        for length in [1, 63, 4096, 4097, 5_000, 262_144, 262_145, 1_048_577, 3_000_000] {
            for piece_bytes in [1_000_000, 4096, 1777] {
                let split = split_of(code, length, piece_bytes);
                assert!(frames_in_lockstep(&split.code, &split.geometry));
                let [fast, slow] = both_ways(&split);
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
