use super::*;
use crate::families::rs::normalised_cauchy;

fn computes_the_matrix(k: usize, m: usize) {
    assert!(encode(k, m).to_matrix().expect("valid") == normalised_cauchy(k, m), "rs:{k}+{m}");
}

#[test]
fn small_transforms_compute_the_matrix() {
    for k in 1..=20 {
        (1..=20).for_each(|m| computes_the_matrix(k, m));
    }
}

#[test]
fn wide_transforms_compute_the_matrix() {
    let sizes = [1, 3, 7, 8, 9, 31, 50, 56, 63, 64, 65, 72, 100, 120, 127, 128, 129, 192, 200, 253, 255];
    for k in sizes {
        for m in sizes.into_iter().filter(|m| k + m <= 256) {
            computes_the_matrix(k, m);
        }
    }
}

/// What is wide runs by the transform, what is narrow by the matrix.
#[test]
fn the_faster_program_is_taken() {
    let is_transform = |k, m| is_faster(&encode(k, m));
    for (k, m) in [(50, 50), (100, 100), (128, 128), (64, 64), (32, 32), (16, 16), (100, 20)] {
        assert!(is_transform(k, m), "rs:{k}+{m}");
    }
    for (k, m) in [(4, 2), (10, 4), (16, 4), (20, 4), (8, 6), (8, 8), (32, 8), (200, 2)] {
        assert!(!is_transform(k, m), "rs:{k}+{m}");
    }
}
