use super::*;
use proptest::prelude::*;

fn square(size: usize) -> impl Strategy<Value = Matrix> {
    prop::collection::vec(any::<u8>(), size * size)
        .prop_map(move |elements| Matrix::from_fn(size, size, |row, column| elements[row * size + column]))
}

proptest! {
    #[test]
    fn a_matrix_times_its_inverse_is_the_identity(matrix in (1usize..9).prop_flat_map(square)) {
        match matrix.inverse() {
            Some(inverse) => prop_assert_eq!(matrix.multiply(&inverse), Matrix::identity(matrix.rows())),
            None => prop_assert!(matrix.rank() < matrix.rows()),
        }
    }

    #[test]
    fn a_product_has_no_more_rank_than_its_factors(a in square(5), b in square(5)) {
        prop_assert!(a.multiply(&b).rank() <= a.rank().min(b.rank()));
    }
}

#[test]
fn singular_and_oblong_matrices_have_no_inverse() {
    assert_eq!(Matrix::zero(3, 3).inverse(), None);
    assert_eq!(Matrix::zero(2, 3).inverse(), None);
    assert_eq!(Matrix::from_fn(2, 2, |_, column| column as u8 + 1).inverse(), None);
}

#[test]
fn rank_of_oblong_and_empty_matrices() {
    assert_eq!(Matrix::identity(3).stack(&Matrix::identity(3)).rank(), 3);
    assert_eq!(Matrix::zero(0, 4).rank(), 0);
    assert_eq!(Matrix::zero(4, 0).rank(), 0);
}

#[test]
fn rows_of_unequal_length_are_refused() {
    assert_eq!(Matrix::from_rows(2, &[vec![1, 2], vec![3]]), None);
    assert_eq!(Matrix::from_rows(2, &[[1, 2], [3, 4]]).map(|m| m.to_string()).as_deref(), Some("[1 2; 3 4]"));
}
