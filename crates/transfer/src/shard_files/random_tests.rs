//! Random changes of random shards, against a slow reference.

use super::tests::{Encoded, encoded, specs};
use super::*;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::ops::Range;
use weft_codes::Matrix;
use weft_format::shard::{CHECK_BYTES, FRAME_PAYLOAD_BYTES};

/// The slow reference: is every native of `wanted` a combination of these stored symbols?
fn follow(generator: &Matrix, stored: &[usize], wanted: &[usize]) -> bool {
    let (reduced, pivots) = generator.select_rows(stored).reduced();
    let is_alone = |row: usize| reduced.row(row).iter().filter(|value| **value != 0).count() == 1;
    wanted.iter().all(|native| pivots.iter().position(|pivot| pivot == native).is_some_and(is_alone))
}

/// Shards that were changed, and what is therefore to be expected.
struct Changed<'e> {
    encoded: &'e Encoded,
    left: Vec<Option<Vec<u8>>>,
}

impl Changed<'_> {
    /// Are these bytes of a shard as they were?
    fn is_intact(&self, shard: usize, range: Range<usize>) -> bool {
        let left = self.left[shard].as_ref().and_then(|left| left.get(range.clone()));
        left == Some(&self.encoded.shards[shard][range])
    }

    fn is_intact_in_any(&self, range: Range<usize>) -> bool {
        (0..self.left.len()).any(|shard| self.is_intact(shard, range.clone()))
    }

    /// Is the frame intact that has this byte of the payload of the object at `start`?
    fn has(&self, shard: usize, start: usize, end: usize, payload: u64) -> bool {
        let frame_bytes = FRAME_PAYLOAD_BYTES + CHECK_BYTES;
        let frame = start + HEADER_BYTES + payload as usize / FRAME_PAYLOAD_BYTES * frame_bytes;
        self.is_intact(shard, frame..(frame + frame_bytes).min(end))
    }

    /// (is there enough of every stripe in whole cells, is there enough of every column of every stripe)
    fn suffices(&self) -> (bool, bool) {
        let Encoded { coder, header, data, .. } = self.encoded;
        let code = weft_codes::parse(coder.spec()).unwrap();
        let generator = weft_codes::linear::generator(&*code).unwrap();
        let (n, alpha) = (code.shape().n, code.shape().alpha);
        let boundaries = self.encoded.boundaries();
        let (mut in_cells, mut in_columns) = (true, true);
        for (segment, bytes) in data.chunks(header.geometry.data_bytes as usize).enumerate() {
            let geometry = Geometry { data_bytes: bytes.len() as u64, ..header.geometry };
            let (start, end) = (boundaries[segment], boundaries[segment + 1]);
            in_cells &= self.is_intact_in_any(start..start + HEADER_BYTES);
            for stripe in geometry.stripes() {
                let wanted = |column: u64| -> Vec<usize> {
                    let has_data = |native: &usize| {
                        let range = geometry.native_range(&stripe, *native as u32);
                        range.start + column < range.end
                    };
                    (0..geometry.native_count as usize).filter(has_data).collect()
                };
                let cell = || stripe.cell.clone().step_by(64).chain([stripe.cell.end - 1]);
                let is_whole = |shard: usize| cell().all(|at| self.has(shard, start, end, at));
                let whole: Vec<usize> = (0..n * alpha).filter(|stored| is_whole(stored / alpha)).collect();
                in_cells &= follow(&generator, &whole, &wanted(0));
                let symbol_bytes = u64::from(stripe.symbol_bytes);
                for column in (0..symbol_bytes).step_by(64).chain([symbol_bytes - 1]) {
                    let at = |stored: usize| geometry.symbol_range(&stripe, (stored % alpha) as u32).start + column;
                    let there = |stored: &usize| self.has(stored / alpha, start, end, at(*stored));
                    let there: Vec<usize> = (0..n * alpha).filter(there).collect();
                    in_columns &= follow(&generator, &there, &wanted(column));
                }
            }
        }
        let end = *boundaries.last().unwrap();
        let has_end = self.is_intact_in_any(end..end + HEADER_BYTES);
        (in_cells && has_end, in_columns && has_end)
    }

    /// Those that are not as they were, but for zeros at their end.
    fn troubled(&self) -> Vec<usize> {
        let is_troubled = |(shard, left): (usize, &Option<Vec<u8>>)| {
            let (left, whole) = (left.as_ref()?, &self.encoded.shards[shard]);
            let padded = left.strip_prefix(whole.as_slice()).is_some_and(|rest| rest.iter().all(|byte| *byte == 0));
            (!padded).then_some(shard)
        };
        self.left.iter().enumerate().filter_map(is_troubled).collect()
    }
}

/// What happens to shards.
fn change(rng: &mut StdRng, shards: &[Vec<u8>], shard: usize) -> Option<Vec<u8>> {
    let mut bytes = shards[shard].clone();
    match rng.random_range(0..14) {
        0 => return None,
        1 => bytes.truncate(rng.random_range(0..bytes.len())),
        2 => (0..rng.random_range(1..4)).for_each(|_| {
            let at = rng.random_range(0..bytes.len());
            bytes[at] ^= 1 << rng.random_range(0..8);
        }),
        3 => {
            let start = rng.random_range(0..bytes.len());
            let end = (start + rng.random_range(1..5_000)).min(bytes.len());
            bytes[start..end].fill(0);
        }
        4 => bytes.extend([0; 100]),
        5 => bytes.extend(b"more"),
        6 => bytes.clone_from(&shards[(shard + 1) % shards.len()]),
        _ => {}
    }
    Some(bytes)
}

proptest! {
    #[test]
    fn what_comes_out_is_the_file_as_far_as_the_shards_suffice(
        spec in proptest::sample::select(specs()),
        cell_bytes in proptest::sample::select(vec![64u32, 700, 4096, 8192]),
        stripes in 1u64..4,
        segments in 0usize..4,
        rest in 0u64..=100,
        seed: u64,
    ) {
        let segment_bytes = encoded(spec, cell_bytes, stripes, 0).header.geometry.data_bytes as usize;
        let encoded = encoded(spec, cell_bytes, stripes, segments * segment_bytes + segment_bytes * rest as usize / 100);
        let mut rng = StdRng::seed_from_u64(seed);
        let left = (0..encoded.shards.len()).map(|shard| change(&mut rng, &encoded.shards, shard)).collect();
        let changed = Changed { encoded: &encoded, left };
        let (out, end, troubles) = encoded.decode(&changed.left);
        prop_assert!(encoded.data.starts_with(&out), "wrong bytes");
        let (must, may) = changed.suffices();
        match end {
            Ok(_) => {
                prop_assert!(may, "restored from too little");
                prop_assert_eq!(out.len(), encoded.data.len());
                let troubled: Vec<usize> = troubles.iter().map(|(shard, _)| *shard).collect();
                prop_assert_eq!(troubled, changed.troubled());
            }
            Err(loss) => prop_assert!(!must && loss != Loss::WrongDigest, "{}, though enough is left", loss),
        }
    }
}
