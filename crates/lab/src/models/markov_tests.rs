use super::*;
use proptest::prelude::*;

/// The same by a linear system: `t[j] = 1 / (f + r) + f / (f + r) (1 - fatal) t[j + 1] + r / (f + r) t[j - 1]`, solved by elimination.
fn by_elimination(chain: &Chain) -> f64 {
    let n = chain.failures.len();
    let mut rows: Vec<Vec<f64>> = (0..n)
        .map(|state| {
            let mut row = vec![0.0; n + 1];
            let failure = chain.failures[state];
            let repair = if state == 0 { 0.0 } else { chain.repairs[state] };
            row[state] = failure + repair;
            if state + 1 < n {
                row[state + 1] = -failure * (1.0 - chain.fatal[state]);
            }
            if state > 0 {
                row[state - 1] = -repair;
            }
            row[n] = 1.0;
            row
        })
        .collect();
    for pivot in 0..n {
        for other in 0..n {
            let factor = rows[other][pivot] / rows[pivot][pivot];
            if other != pivot {
                let pivot_row = rows[pivot].clone();
                rows[other].iter_mut().zip(pivot_row).for_each(|(value, of_pivot)| *value -= factor * of_pivot);
            }
        }
    }
    rows[0][n] / rows[0][0]
}

proptest! {
    #[test]
    fn the_climb_is_the_solution_of_the_system(
        states in prop::collection::vec((0.1..2.0f64, 0.0..5.0f64, 0.0..1.0f64), 1..6),
    ) {
        let chain = Chain {
            failures: states.iter().map(|state| state.0).collect(),
            repairs: states.iter().map(|state| state.1).collect(),
            fatal: states.iter().map(|state| state.2).collect(),
        };
        let (time, expected) = (chain.mean_time_to_loss(), by_elimination(&chain));
        prop_assert!((time / expected - 1.0).abs() < 1e-9, "{time} is not {expected}");
    }
}

#[test]
fn one_disk_lives_as_long_as_it_does() {
    assert_eq!(Chain::of_stripe(1, 0.25, &[0.0, 1.0], |_| 1.0).mean_time_to_loss(), 4.0);
}

/// A pair: 3 f / (2 f^2) + r / (2 f^2), as every textbook has it.
#[test]
fn a_mirrored_pair() {
    let time = Chain::of_stripe(2, 0.01, &[0.0, 0.0, 1.0], |_| 5.0).mean_time_to_loss();
    assert!((time / ((0.03 + 5.0) / 0.0002) - 1.0).abs() < 1e-12, "{time}");
}
