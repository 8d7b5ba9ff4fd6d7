use super::*;

fn dead(number: u64) -> Unneeded {
    Unneeded::Dead(SegmentId::new(number, 1))
}

fn at(sightings: &Sightings, at_ms: u64) -> Beside<'_> {
    Beside { sightings, at_ms }
}

#[test]
fn a_sight_is_as_old_as_the_first_without_a_break() {
    let sightings = Sightings::default();
    assert_eq!([0, 5, 9].map(|at_ms| at(&sightings, at_ms).see(dead(1))), [0, 5, 9]);
    assert_eq!(at(&sightings, 9).see(dead(2)), 0);
    let is_dead = |what: &Unneeded| matches!(what, Unneeded::Dead(_));
    at(&sightings, 9).forget_others(is_dead);
    let third = at(&sightings, 12);
    assert_eq!(third.see(dead(2)), 3);
    third.forget_others(|what| !is_dead(what));
    assert_eq!(at(&sightings, 13).see(dead(1)), 13, "of another kind");
    third.forget_others(is_dead);
    assert_eq!(at(&sightings, 14).see(dead(1)), 0, "it was needed in between");
}

#[test]
fn sights_of_another_process_count_for_nothing() {
    let (one, other) = (Sightings::default(), Sightings::default());
    at(&one, 0).see(dead(1));
    assert_eq!(at(&other, 1_000_000).see(dead(1)), 0);
}
