use super::*;
use crate::random::Random;

/// Any points, each a source, a target, or neither, in any order, with made-up factors; a target may be wanted twice.
fn made_up(count: usize, source_share: usize, random: &mut Random) -> Cauchy {
    let (mut sources, mut targets) = (Vec::new(), Vec::new());
    for element in 0..count {
        let point = Point { element: element as u8, factor: 1 + random.below(255) as u8 };
        match random.below(9) {
            0 => (),
            share if share <= source_share => sources.insert(random.below(sources.len() + 1), point),
            1 => targets.extend([point, point]),
            _ => targets.insert(random.below(targets.len() + 1), point),
        }
    }
    Cauchy { sources, targets }
}

fn transformed(cauchy: &Cauchy, bits: usize) -> Matrix {
    let (input_count, output_count) = (cauchy.sources.len(), cauchy.targets.len());
    let mut program = Program { input_count, output_count, temporary_count: 0, ops: Vec::new() };
    let (from, to): (Vec<_>, Vec<_>) = (0..input_count + output_count).partition(|&symbol| symbol < input_count);
    cauchy.transform(bits, &mut program, &from, &to);
    program.to_matrix().expect("valid")
}

#[test]
fn transforms_compute_the_matrix_for_any_points() {
    let mut random = Random::new(7);
    for count in [9, 20, 33, 64, 100, 150, 256] {
        for source_share in [0, 1, 4, 7, 8] {
            let cauchy = made_up(count, source_share, &mut random);
            for bits in 2..=4 {
                assert!(transformed(&cauchy, bits) == cauchy.matrix(), "{bits} bits of {cauchy:?}");
            }
        }
    }
}

#[test]
fn transforms_compute_the_coding_matrix() {
    let sizes = [1, 2, 3, 4, 7, 8, 9, 16, 31, 50, 64, 65, 100, 128, 200, 255];
    for (k, m) in sizes.into_iter().flat_map(|k| sizes.map(|m| (k, m))).filter(|(k, m)| k + m <= 256) {
        let (data, parities): (Vec<usize>, Vec<usize>) = (0..k + m).partition(|&shard| shard < k);
        let cauchy = crate::families::rs::plan::Planner::new(k, m).sums(&parities, &data);
        let coding = crate::families::rs::normalised_cauchy(k, m);
        assert!(cauchy.matrix() == coding, "rs:{k}+{m}");
        assert!((3..=4).all(|bits| transformed(&cauchy, bits) == coding), "rs:{k}+{m}");
    }
}

/// What is wide runs by transforms, what is narrow by the matrix.
#[test]
fn the_faster_program_is_taken() {
    let bits = |k: usize, m: usize| {
        let (data, parities): (Vec<usize>, Vec<usize>) = (0..k + m).partition(|&shard| shard < k);
        crate::families::rs::plan::Planner::new(k, m).sums(&parities, &data).fastest_bits()
    };
    for (k, m) in [(16, 16), (32, 16), (64, 16), (32, 32), (50, 50), (64, 64), (100, 100), (128, 128)] {
        assert_eq!(bits(k, m), Some(4), "rs:{k}+{m}");
    }
    for (k, m) in [(100, 20), (200, 20)] {
        assert!(bits(k, m).is_some(), "rs:{k}+{m}");
    }
    for (k, m) in [(4, 2), (10, 4), (16, 4), (20, 4), (8, 6), (8, 8), (16, 8), (20, 20), (32, 8), (40, 10), (200, 2)] {
        assert_eq!(bits(k, m), None, "rs:{k}+{m}");
    }
}
