use super::*;

fn same(old: &str, new: &str) -> Vec<usize> {
    let algebra = Algebra::default();
    let (old, new) = (algebra.load(old).expect("a code"), algebra.load(new).expect("a code"));
    let alike = algebra.alike(&old, &new);
    assert_eq!(alike.len(), new.shape().n);
    (0..alike.len()).filter(|index| alike[*index]).collect()
}

#[test]
fn shards_that_two_codes_have_in_common() {
    assert_eq!(same("rs:4+2", "rs:4+3")[..4], [0, 1, 2, 3], "the data");
    assert_eq!(same("raid5:5", "rs:4+2")[..4], [0, 1, 2, 3]);
    assert_eq!(same("replica:3", "replica:2"), [0, 1]);
    assert_eq!(same("replica:2", "replica:4"), [0, 1], "those that are there");
    assert_eq!(same("rs:4+2", "rs:4+2"), [0, 1, 2, 3, 4, 5]);
    assert_eq!(same("replica:3", "rs:4+2"), [] as [usize; 0], "a copy is no quarter");
    assert_eq!(same("rs:4+2", "rs:8+2"), [] as [usize; 0], "a quarter is no eighth");
    assert_eq!(same("rs:4+2", "clay:4+2"), [] as [usize; 0], "cells of other symbols");
}
