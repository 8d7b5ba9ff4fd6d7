use super::*;
use crate::exec::butterflies::Butterflies;
use crate::matrix::Matrix;

fn sum(from: &[usize], to: usize) -> Step {
    Step::new(from, 0, &[], &[to], &Matrix::from_fn(1, from.len(), |_, _| 1))
}

fn ids(step: &Step) -> (Vec<usize>, Vec<usize>) {
    (step.reads().collect(), step.writes().collect())
}

#[test]
fn a_chain_takes_two_places() {
    let chain = (0..9).map(|at| sum(&[0, 2 + at], 3 + at)).collect();
    let (steps, place_count) = share(3, 9, chain);
    assert_eq!(place_count, 2);
    assert_eq!(steps.iter().flat_map(|step| ids(step).1).collect::<Vec<_>>(), [3, 4, 3, 4, 3, 4, 3, 4, 3]);
}

#[test]
fn what_is_still_needed_keeps_its_place() {
    let steps = vec![sum(&[0, 1], 3), sum(&[0], 4), sum(&[4], 5), sum(&[5, 3], 2)];
    let (steps, place_count) = share(3, 3, steps);
    assert_eq!(place_count, 2);
    assert_eq!(ids(&steps[3]).1, [2]);
    assert_eq!(steps[3].reads().filter(|&id| id == 3).count(), 1);
}

#[test]
fn a_network_works_in_place() {
    let network = Butterflies { is_inverse: false, factors: vec![1, 2, 3], scales: Vec::new() };
    let mut steps: Vec<Step> = (0..4).map(|at| sum(&[0], 2 + at)).collect();
    steps.push(Step::butterflies(&[2, 3, 4, 5], &[6, 7, 8, 9], &network));
    steps.push(sum(&[6, 7, 8, 9], 1));
    let (steps, place_count) = share(2, 8, steps);
    assert_eq!(place_count, 4);
    assert_eq!(ids(&steps[4]).0, ids(&steps[4]).1);
}

/// What a step writes beyond what it reads has places of its own.
#[test]
fn a_step_that_widens_works_in_place_as_far_as_it_goes() {
    let mut steps = vec![sum(&[0], 3), sum(&[1], 4)];
    steps.push(Step::new(&[3, 4], 0, &[], &[5, 6, 7], &Matrix::from_fn(3, 2, |row, column| (row * 2 + column) as u8)));
    steps.push(sum(&[5, 6, 7], 2));
    let (steps, place_count) = share(3, 5, steps);
    assert_eq!(place_count, 3);
    let (read, written) = ids(&steps[2]);
    assert!(read.iter().all(|place| written.contains(place)) && written.iter().all(|place| (3..6).contains(place)));
}

/// A run over what does not lie in a row any more is taken apart.
#[test]
fn runs_stay_right() {
    let mut run = sum(&[3], 9);
    assert!(run.extend(sum(&[4], 10)).is_none());
    // 3 and 4 are written far apart, with another symbol between them.
    let steps = vec![sum(&[0], 3), sum(&[0], 5), sum(&[1], 4), run, sum(&[5, 9, 10], 2)];
    let (steps, _) = share(3, 8, steps);
    let written: Vec<usize> = steps[..3].iter().flat_map(|step| ids(step).1).collect();
    assert_eq!(steps.len(), 6);
    assert_eq!(ids(&steps[3]).0, [written[0]]);
    assert_eq!(ids(&steps[4]).0, [written[2]]);
    assert_eq!(steps[5].reads().collect::<std::collections::BTreeSet<_>>().len(), 3);
}
