use super::*;
use alloc::vec::Vec;

/// As the library computes it: a Vandermonde matrix of all points times the inverse of its first rows.
fn by_inverse(k: usize, m: usize) -> Matrix {
    let power = |base: usize, exponent: usize| (0..exponent).fold(1, |power, _| gf::mul(power, base as u8));
    let vandermonde = Matrix::from_fn(k + m, k, power);
    let first: Vec<usize> = (0..k).collect();
    let others: Vec<usize> = (k..k + m).collect();
    let inverse = vandermonde.select_rows(&first).inverse().expect("points differ");
    vandermonde.select_rows(&others).multiply(&inverse)
}

#[test]
fn the_formula_is_that_of_the_library() {
    let small = (1..=9).flat_map(|k| (1..=9).map(move |m| (k, m)));
    for (k, m) in small.chain([(10, 4), (17, 3), (60, 5), (1, 255), (255, 1), (128, 128)]) {
        assert_eq!(klauspost(k, m), by_inverse(k, m), "rs-klauspost:{k}+{m}");
    }
}
