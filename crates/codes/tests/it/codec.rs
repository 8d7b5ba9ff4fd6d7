//! The front door: every family, any length, any loss; and whatever else callers hand it.

use crate::conformance::CLAIMS;
use crate::effort::is_long;
use crate::random::Random;
use proptest::prelude::*;
use std::sync::Arc;
use weft_codes::{
    Code, Codec, CodecError, Content, Erasures, LinearCode, Matrix, Offers, Plan, PlanError, Program, Read, Shape,
    Wanted, families,
};

/// Codes of so many shards lose every pattern of shards.
const MOST_SHARDS: usize = 8;

fn made_up(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at * 31 + (at >> 8) * 7 + 5) as u8).collect()
}

fn without(shards: &[Vec<u8>], lost: &[usize]) -> Vec<Option<Vec<u8>>> {
    let left = |(shard, bytes): (usize, &Vec<u8>)| (!lost.contains(&shard)).then(|| bytes.clone());
    shards.iter().enumerate().map(left).collect()
}

fn examples() -> Vec<&'static str> {
    families().iter().map(|family| family.example).collect()
}

/// One sentence, whatever it says.
fn is_told(error: &CodecError) {
    let sentence = error.to_string();
    assert!(!sentence.contains('\n') && sentence.len() < 2000, "{sentence}");
}

#[test]
fn every_loss_is_recovered_exactly_when_the_rank_says_so() {
    for claims in CLAIMS {
        let mut tried = 0;
        for spec in (claims.small)() {
            let codec = Codec::new(&spec).expect(&spec);
            let n = codec.code().shape().n;
            if n > MOST_SHARDS {
                continue;
            }
            tried += 1;
            let erasures = Erasures::new(codec.code()).expect(&spec);
            // The last symbol is not whole.
            let data = made_up(codec.code().shape().native_count * 5 - 2);
            let shards = codec.encode(&data);
            assert!(codec.verify(&shards).expect(&spec), "{spec}");
            // A short run takes each third pattern of the larger codes: three is no factor of their number, so that all shards are lost.
            let step = if is_long() || n < 7 { 1 } else { 3 };
            for pattern in (0..1u32 << n).step_by(step) {
                let lost: Vec<usize> = (0..n).filter(|shard| pattern >> shard & 1 == 1).collect();
                let mut left = without(&shards, &lost);
                let decoded = codec.decode(&left, data.len());
                let before = left.clone();
                let reconstructed = codec.reconstruct(&mut left);
                if erasures.decodes(&lost) {
                    assert_eq!(decoded, Ok(data.clone()), "{spec} without {lost:?}");
                    assert_eq!(reconstructed, Ok(()), "{spec} without {lost:?}");
                    assert_eq!(left, without(&shards, &[]), "{spec} without {lost:?}");
                } else {
                    let is_refused = |error| matches!(error, CodecError::Plan(PlanError::Unrecoverable { .. }));
                    assert!(decoded.is_err_and(is_refused), "{spec} without {lost:?}");
                    assert!(reconstructed.is_err_and(is_refused), "{spec} without {lost:?}");
                    assert_eq!(left, before, "{spec} without {lost:?}");
                }
            }
        }
        assert!(tried > 0, "{} has no code of at most {MOST_SHARDS} shards", claims.family);
    }
}

#[test]
fn a_repair_reads_no_more_than_k_shards_and_less_where_the_family_says_so() {
    // Reads of one lost shard, in shards.
    let few = [("lrc:6+2+2", 3.0), ("clay:4+2", 2.5), ("embr:n=5,k=3", 1.0), ("replica:3", 1.0)];
    for spec in examples().into_iter().chain(few.map(|(spec, _)| spec)) {
        let codec = Codec::new(spec).expect(spec);
        let shape = codec.code().shape();
        let shards = codec.encode(&made_up(shape.native_count * 100 + 1));
        for lost in 0..shape.n {
            let Ok(plan) = codec.repair_plan(&[lost], shards[0].len()) else {
                assert_eq!(shape.tolerance, 0, "{spec} repairs {lost}");
                continue;
            };
            assert!(plan.reads().iter().all(|read| read.shard != lost), "{spec}");
            let bytes: Vec<&[u8]> = plan.reads().iter().map(|read| &shards[read.shard][read.range.clone()]).collect();
            assert_eq!(plan.repair(&bytes), Ok(vec![shards[lost].clone()]), "{spec} repairs {lost}");
            let read_shards = plan.read_bytes() as f64 / shards[0].len() as f64;
            assert!(read_shards <= shape.native_count as f64 / shape.alpha as f64, "{spec}: {read_shards}");
            if let Some((_, most)) = few.iter().find(|(name, _)| *name == spec)
                && lost < shape.k
            {
                assert!(read_shards <= *most, "{spec}: {read_shards}");
            }
        }
    }
}

#[test]
fn lengths_are_as_documented() {
    let shard_bytes = |spec: &str, data_bytes| Codec::new(spec).expect(spec).shard_bytes(data_bytes);
    assert_eq!([0, 1, 4, 5, 4096].map(|bytes| shard_bytes("rs:4+2", bytes)), [0, 1, 1, 2, 1024]);
    // Eight symbols a shard.
    assert_eq!([0, 1, 32, 33].map(|bytes| shard_bytes("crs:4+2", bytes)), [0, 8, 8, 16]);
    assert_eq!(Codec::new("crs:4+2").expect("a code").shard_alignment_bytes(), 8);
    assert_eq!(shard_bytes("crs:1+1", usize::MAX), usize::MAX);
}

/// A code that is made of what it is told.
struct Told {
    shape: Shape,
    encode: Program,
    plan: Plan,
}

impl Code for Told {
    fn spec(&self) -> &str {
        "told"
    }

    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn encode(&self) -> &Program {
        &self.encode
    }

    fn plan(&self, _: &Wanted, _: &Offers) -> Result<Plan, PlanError> {
        Ok(self.plan.clone())
    }
}

/// A mirror; its plans copy the second shard, whatever is asked.
fn mirror() -> Told {
    let contents = vec![Content::Native(0), Content::Coded];
    let (n, k, alpha, native_count, tolerance) = (2, 1, 1, 1, 1);
    let shape = Shape { n, k, alpha, native_count, symbol_alignment_bytes: 1, tolerance, contents, groups: Vec::new() };
    let copy = Program::from_matrix(&Matrix::identity(1));
    let plan = Plan { reads: vec![Read { shard: 1, terms: vec![(0, 1)] }], program: copy.clone(), price: 1 };
    Told { shape, encode: copy, plan }
}

#[test]
fn codes_that_contradict_themselves_are_refused() {
    let good = Codec::of(Arc::new(mirror())).expect("a consistent code");
    assert_eq!(good.decode(&[None, Some(vec![7])], 1), Ok(vec![7]));
    // The plan reads a shard that is lost.
    let refused = good.decode(&[Some(vec![7]), None], 1).expect_err("it was not offered");
    assert!(matches!(refused, CodecError::Inconsistent { .. }), "{refused}");
    let changes: [fn(&mut Told); 10] = [
        |code| code.shape.n = 3,
        |code| code.shape.alpha = 0,
        |code| code.shape.alpha = usize::MAX,
        |code| code.shape.native_count = 0,
        |code| code.shape.native_count = 2,
        |code| code.shape.symbol_alignment_bytes = 0,
        |code| code.shape.symbol_alignment_bytes = usize::MAX,
        |code| code.shape.contents[0] = Content::Native(1),
        |code| code.shape.contents[0] = Content::Coded,
        |code| code.encode.ops.clear(),
    ];
    for change in changes {
        let mut code = mirror();
        change(&mut code);
        is_told(&Codec::of(Arc::new(code)).expect_err("a contradiction"));
    }
    let plans: [fn(&mut Plan); 6] = [
        |plan| plan.reads[0].shard = usize::MAX,
        |plan| plan.reads[0].terms = vec![(usize::MAX, 1)],
        |plan| plan.reads[0].terms = vec![(0, 2)],
        |plan| plan.reads.clear(),
        |plan| plan.program.output_count = 2,
        |plan| plan.program.ops.clear(),
    ];
    for change in plans {
        let mut code = mirror();
        change(&mut code.plan);
        let codec = Codec::of(Arc::new(code)).expect("a consistent code");
        is_told(&codec.decode(&[None, Some(vec![7])], 1).expect_err("a contradiction"));
        is_told(&codec.repair_plan(&[0], 1).expect_err("a contradiction"));
    }
}

#[test]
fn what_does_not_fit_is_refused_in_a_sentence() {
    let codec = Codec::new("crs:2+1").expect("a code");
    let shards = codec.encode(&made_up(100));
    let told = |error: Option<CodecError>| error.map(|error| error.to_string()).unwrap_or_default();
    let refused = told(codec.decode(&without(&shards, &[]), 10_000).err());
    assert_eq!(
        refused,
        "shard 0 of crs:2+1 has 56 bytes where 5000 are expected; give None for a damaged shard, and the length of the data that was encoded"
    );
    assert_eq!(
        told(codec.verify(&shards[..2]).err()),
        "crs:2+1 has 3 shards but 2 were given; give one entry per shard, None where it is lost"
    );
    assert_eq!(
        told(codec.reconstruct(&mut [Some(vec![1]), None, None]).err()),
        "a shard of crs:2+1 cannot have 1 bytes; its length is a multiple of 8"
    );
    assert_eq!(
        told(codec.reconstruct(&mut without(&shards, &[0, 1])).err()),
        "crs:2+1: shards [0, 1] cannot be recovered from shards [2]; bring back one of shards [0, 1]"
    );
    let plan = codec.repair_plan(&[0], 56).expect("one is lost");
    assert_eq!(
        told(plan.repair(&[&shards[1]]).err()),
        "the plan has 2 reads but 1 pieces were given; give the bytes of each read, in order"
    );
    assert_eq!(
        told(plan.repair(&[&shards[1], &shards[2][1..]]).err()),
        "read 1 is 56 bytes of shard 2 but 55 were given; if they cannot be read, plan again with that shard among the lost"
    );
    assert!(told(Codec::new("rs:4").err()).starts_with("\"rs:4\" is not written as"));
}

#[test]
fn a_plain_generator_matrix_is_enough() {
    // Two natives, and all of their sums.
    let generator = Matrix::from_rows(2, &[[1, 0], [0, 1], [1, 1]]).expect("rows of two");
    let code = LinearCode::new("sums".to_owned(), 2, 1, 1, Vec::new(), generator);
    let codec = Codec::of(Arc::new(code)).expect("a consistent code");
    assert_eq!(codec.encode(&[1, 2]), [[1], [2], [3]]);
    assert_eq!(codec.decode(&[None, Some([2]), Some([3])], 2), Ok(vec![1, 2]));
}

/// A shard, of some length or lost.
fn shard() -> impl Strategy<Value = Option<Vec<u8>>> {
    let bytes = |count| prop::collection::vec(any::<u8>(), count);
    prop::option::of((0usize..80).prop_flat_map(bytes))
}

proptest! {
    #[test]
    fn any_length_comes_back(
        spec in prop::sample::select(examples()),
        length in prop_oneof![0usize..300, 0usize..20_000],
        seed in any::<u64>(),
    ) {
        let codec = Codec::new(spec).expect(spec);
        let (n, tolerance) = (codec.code().shape().n, codec.code().shape().tolerance);
        let mut random = Random(seed);
        let data = made_up(length);
        let mut shards = codec.encode(&data);
        prop_assert!(shards.iter().all(|shard| shard.len() == codec.shard_bytes(length)), "{}", spec);
        let mut into = vec![vec![0xaa; codec.shard_bytes(length)]; n];
        let mut buffers: Vec<&mut [u8]> = into.iter_mut().map(Vec::as_mut_slice).collect();
        prop_assert_eq!(codec.encode_into(&data, &mut buffers), Ok(()));
        prop_assert!(into == shards, "{}", spec);

        let lost_count = random.below(tolerance + 1);
        let lost = random.distinct(n, lost_count);
        let mut left = without(&shards, &lost);
        prop_assert!(codec.decode(&left, length).as_ref() == Ok(&data), "{} without {:?}", spec, lost);
        prop_assert_eq!(codec.reconstruct(&mut left), Ok(()));
        prop_assert!(left == without(&shards, &[]), "{} without {:?}", spec, lost);

        prop_assert_eq!(codec.verify(&shards), Ok(true));
        if tolerance > 0 && length > 0 {
            let (shard, at) = (random.below(n), random.below(shards[0].len()));
            shards[shard][at] ^= 1 + random.below(255) as u8;
            prop_assert_eq!(codec.verify(&shards), Ok(false), "{} shard {} byte {}", spec, shard, at);
        }
    }

    #[test]
    fn garbage_is_refused_and_never_a_panic(
        spec in prop::sample::select(examples()),
        shards in prop::collection::vec(shard(), 0..24),
        equal in any::<bool>(),
        length in prop_oneof![0usize..200, any::<usize>()],
        lost in prop::collection::vec(prop_oneof![8 => 0usize..12, 1 => any::<usize>()], 0..6),
        shard_bytes in prop_oneof![0usize..2000, any::<usize>()],
    ) {
        let codec = Codec::new(spec).expect(spec);
        let mut shards = shards;
        if equal {
            // As many as the code has, and most of one length.
            let bytes = codec.shard_bytes(length % 1000);
            shards.resize(codec.code().shape().n, Some(vec![7; bytes]));
        }
        if let Err(error) = codec.decode(&shards, length) {
            is_told(&error);
        }
        let there: Vec<&[u8]> = shards.iter().flatten().map(Vec::as_slice).collect();
        if let Err(error) = codec.verify(&there) {
            is_told(&error);
        }
        let mut buffers: Vec<Vec<u8>> = shards.iter().flatten().cloned().collect();
        let mut views: Vec<&mut [u8]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
        if let Err(error) = codec.encode_into(&made_up(length % 1000), &mut views) {
            is_told(&error);
        }
        match codec.repair_plan(&lost, shard_bytes) {
            Ok(plan) => {
                prop_assert!(plan.reads().iter().all(|read| read.range.end <= shard_bytes));
                if let Err(error) = plan.repair(&there) {
                    is_told(&error);
                }
            }
            Err(error) => is_told(&error),
        }
        if let Err(error) = codec.reconstruct(&mut shards) {
            is_told(&error);
        }
    }
}
