use super::*;
use crate::reference;

#[test]
fn tables_agree_with_long_multiplication() {
    for a in 0..=255 {
        for b in 0..=255 {
            let product = reference::multiply(a, b);
            assert_eq!(mul(a, b), product, "{a} * {b}");
            assert_eq!(MUL[a as usize][b as usize], product, "{a} * {b}");
        }
    }
}

#[test]
fn every_element_but_zero_has_an_inverse() {
    assert_eq!(inverse(0), None);
    assert_eq!(divide(7, 0), None);
    for a in 1..=255 {
        assert_eq!(inverse(a).map(|i| mul(a, i)), Some(1), "{a}");
        assert_eq!(divide(a, a), Some(1), "{a}");
    }
}

#[test]
fn rows_are_scaled_and_added() {
    let mut row = [1, 2, 3];
    add_multiple(&mut row, &[1, 0, 1], 2);
    assert_eq!(row, [3, 2, 1]);
    scale(&mut row, 0x80);
    assert_eq!(row, [mul(3, 0x80), mul(2, 0x80), 0x80]);
}

#[test]
fn a_ratio_is_one_factor_for_all() {
    let ratio = |from: [u8; 3], to: [u8; 3]| super::ratio(from.into_iter(), to.into_iter());
    assert_eq!(ratio([0, 3, 7], [0, mul(3, 9), mul(7, 9)]), Some(9));
    assert_eq!(ratio([0, 3, 7], [1, mul(3, 9), mul(7, 9)]), None);
    assert_eq!(ratio([5, 3, 7], [5, 3, 6]), None);
    assert_eq!(ratio([5, 3, 7], [0; 3]), Some(0));
    assert_eq!(ratio([0; 3], [0; 3]), Some(0));
}
