use super::*;

fn near(found: &[f64], wanted: &[f64]) {
    assert_eq!(found.len(), wanted.len());
    assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} for {wanted:?}");
}

#[test]
fn chances_follow_the_weights_as_far_as_they_can() {
    near(&chances(&[1.0, 1.0, 2.0], 0.0, 2.0), &[0.5, 0.5, 1.0]);
    near(&chances(&[1.0, 1.0, 8.0], 0.0, 2.0), &[0.5, 0.5, 1.0]);
    near(&chances(&[1.0; 6], 0.0, 6.0), &[1.0; 6]);
    // Everybody has one: six shards on four, of weights 2, 2, 1 and 1.
    near(&chances(&[2.0, 2.0, 1.0, 1.0], 1.0, 2.0), &[1.0, 1.0, 0.0, 0.0]);
    near(&chances(&[1.0; 4], 1.0, 2.0), &[0.5; 4]);
    near(&chances(&[3.0, 1.0, 1.0, 1.0], 1.0, 2.0), &[1.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
    // More than there is, and nothing.
    near(&chances(&[1.0, 2.0], 0.0, 3.0), &[1.0, 1.0]);
    near(&chances(&[], 0.0, 0.0), &[]);
}

proptest::proptest! {
    #[test]
    fn chances_are_rising_with_weights_and_add_up(
        weights in proptest::collection::vec(1u32..1000, 1..20),
        full in 0u32..4,
        part in 0.0f64..1.0,
    ) {
        let weights: Vec<f64> = weights.into_iter().map(f64::from).collect();
        let total = part * weights.len() as f64;
        let found = chances(&weights, f64::from(full), total);
        proptest::prop_assert!((found.iter().sum::<f64>() - total).abs() < 1e-6, "{:?} for {}", found, total);
        for (a, one) in weights.iter().zip(&found) {
            proptest::prop_assert!((0.0..=1.0).contains(one));
            for (b, other) in weights.iter().zip(&found) {
                proptest::prop_assert!(a < b || one >= other);
            }
        }
    }
}

#[test]
fn the_fullest_domain_has_as_little_as_can_be() {
    for (nodes, count, wanted) in [
        (&[2, 2, 2][..], 6, 2),
        (&[2, 2, 2], 4, 2),
        (&[2, 2, 2], 3, 1),
        (&[1, 3, 3], 5, 2),
        (&[1, 3, 3], 6, 3),
        (&[1, 1, 1, 1], 3, 1),
        (&[1, 3, 3], 9, 3),
        (&[], 4, 1),
    ] {
        assert_eq!(even_load(nodes, count), wanted, "{count} on {nodes:?}");
    }
}

#[test]
fn how_often_a_node_is_early_is_what_counting_orders_finds() {
    let near_to = |found: Vec<f64>, wanted: &[f64]| {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?} for {wanted:?}");
    };
    near_to(early(&[1.0, 3.0], 1), &[0.25, 0.75]);
    near_to(early(&[1.0; 4], 2), &[0.5; 4]);
    near_to(early(&[1.0, 3.0], 2), &[1.0, 1.0]);
    // The first, or the second after each of the others: 1/6 + 2/6 * 1/4 + 3/6 * 1/3 and so on.
    near_to(early(&[1.0, 2.0, 3.0], 2), &[0.41667, 0.73333, 0.85]);
    let many = early(&[1.0, 2.0, 3.0, 4.0, 50.0], 3);
    assert!((many.iter().sum::<f64>() - 3.0).abs() < 1e-2, "{many:?}");
}
