//! A choice among things of which some are chosen more often.

/// One of them, by its weight. `below(end)` is a random number below `end`.
///
/// # Panics
/// There are none, or all weights are 0.
pub fn chosen<T: Copy>(weights: &[(T, u64)], below: impl FnOnce(u64) -> u64) -> T {
    let mut left = below(weights.iter().map(|(_, weight)| weight).sum());
    for (thing, weight) in weights {
        if left < *weight {
            return *thing;
        }
        left -= weight;
    }
    panic!("a number below the sum of all weights is within one of them")
}
