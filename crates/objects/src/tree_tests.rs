use super::*;
use std::collections::BTreeSet;

/// Numbers of a seed.
fn leaves(count: u64, seed: u64) -> Vec<Leaf> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 21
    };
    (0..count).map(|_| Leaf { hash: next(), stamp: next() }).collect()
}

/// Compares as two members do; what each lacks, and how many leaves and digests were told.
fn compare(own: &[Leaf], other: &[Leaf]) -> (BTreeSet<Leaf>, BTreeSet<Leaf>, usize) {
    let (mut theirs, mut ours, mut told) = (BTreeSet::new(), BTreeSet::new(), 0);
    let mut paths = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let said = branch(other.iter().copied(), &path);
        told += match &said {
            Branch::Children(children) => children.len(),
            Branch::Leaves(leaves) => leaves.len(),
        };
        let found = difference(own, &path, &said);
        paths.extend(found.below);
        theirs.extend(found.theirs);
        ours.extend(found.ours);
    }
    (theirs, ours, told)
}

#[test]
fn what_differs_is_found_and_little_else_is_told() {
    let all = leaves(20_000, 7);
    let (own, other) = (&all[5..], &all[..19_998]);
    let (theirs, ours, told) = compare(own, other);
    assert_eq!(theirs, all[..5].iter().copied().collect());
    assert_eq!(ours, all[19_998..].iter().copied().collect());
    assert!(told < 1_000, "{told} of 20,000 records were told");
    let (theirs, ours, told) = compare(&all, &all);
    assert!(theirs.is_empty() && ours.is_empty());
    assert_eq!(told, FAN_OUT, "the root is enough where nothing differs");
}

#[test]
fn a_newer_version_differs_and_few_records_are_told_as_they_are() {
    let all = leaves(10, 3);
    let mut newer = all.clone();
    newer[4].stamp += 1;
    let (theirs, ours, told) = compare(&all, &newer);
    assert_eq!((theirs.into_iter().collect(), ours.into_iter().collect()), (vec![newer[4]], vec![all[4]]));
    assert_eq!(told, 10);
}

#[test]
fn what_a_liar_says_ends_and_is_not_taken_for_what_was_asked() {
    let own = leaves(200, 1);
    // Deeper than any tree, children too few, leaves of other branches.
    assert_eq!(difference(&own, &[0; DEPTH_MAX], &Branch::Children(vec![1; FAN_OUT])).below, Vec::<Vec<u8>>::new());
    assert_eq!(difference(&own, &[], &Branch::Children(Vec::new())).below.len(), FAN_OUT);
    let elsewhere = Leaf { hash: 0, stamp: 1 };
    assert!(difference(&own, &[0xf], &Branch::Leaves(vec![elsewhere])).theirs.is_empty());
}
