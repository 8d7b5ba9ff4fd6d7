use super::*;
use crate::catalogue::memory::MemoryCatalogue;

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

#[test]
fn a_dead_segment_is_seen_on_by_the_next_owner() {
    let catalogue = MemoryCatalogue::default();
    let first = Sightings::load(&catalogue).expect("nothing is noted yet");
    at(&first, 100).see(dead(1));
    at(&first, 107).see(dead(1));
    at(&first, 107).see(dead(2));
    let former = Unneeded::Former(SegmentId::new(1, 1), Generation(1), 1);
    at(&first, 107).see(former);
    at(&first, 107).note(&catalogue, true).expect("notes");
    // Its clock starts anywhere, and the time in between does not count.
    let next = Sightings::load(&catalogue).expect("reads the note");
    assert_eq!(at(&next, 5).see(dead(1)), 7);
    assert_eq!(at(&next, 9).see(dead(1)), 11);
    assert_eq!(at(&next, 9).see(dead(2)), 0);
    assert_eq!(at(&next, 9).see(former), 0, "only the dead never live again");
    at(&next, 9).note(&catalogue, true).expect("notes");
    let third = Sightings::load(&catalogue).expect("reads the note");
    assert_eq!([dead(1), dead(2)].map(|what| at(&third, 0).see(what)), [11, 0]);
}

#[test]
fn what_is_gone_is_noted_no_longer() {
    let catalogue = MemoryCatalogue::default();
    let sightings = Sightings::default();
    at(&sightings, 0).note(&catalogue, true).expect("there is nothing to note");
    at(&sightings, 0).see(dead(1));
    at(&sightings, 0).note(&catalogue, true).expect("notes");
    let text = String::from_utf8(catalogue.job(SEEN).expect("reads").expect("is noted")).expect("is text");
    assert_eq!(text, format!(r#"{{"version":1,"dead":{{"{}":0}}}}"#, SegmentId::new(1, 1)));
    at(&sightings, 1).forget_others(|what| matches!(what, Unneeded::Dead(_)));
    at(&sightings, 1).note(&catalogue, true).expect("notes");
    assert_eq!(catalogue.job(SEEN).expect("reads"), None);
}

#[test]
fn the_note_is_bounded_and_keeps_what_was_seen_longest() {
    let catalogue = MemoryCatalogue::default();
    let sightings = Sightings::default();
    let count = SEEN_MAX as u64 + 10;
    for number in 0..count {
        at(&sightings, number).see(dead(number));
    }
    for number in 0..count {
        at(&sightings, count).see(dead(number));
    }
    at(&sightings, count).note(&catalogue, true).expect("notes");
    let next = Sightings::load(&catalogue).expect("reads the note");
    assert_eq!(at(&next, 0).see(dead(0)), count);
    assert_eq!(at(&next, 0).see(dead(count - 1)), 0);
    catalogue.set_job(SEEN, Some(br#"{"version":9}"#)).expect("writes");
    assert!(Sightings::load(&catalogue).is_err(), "a newer program's note is not guessed at");
}

#[test]
fn the_note_is_written_once_a_minute_and_at_the_end() {
    let catalogue = MemoryCatalogue::default();
    let sightings = Sightings::load(&catalogue).expect("nothing is noted yet");
    // Looks every ten seconds for ten minutes, in a volume where something has always just died.
    for look in 0..=60 {
        let beside = at(&sightings, 500 + look * 10_000);
        beside.see(dead(1));
        beside.see(dead(2 + look));
        beside.note(&catalogue, false).expect("notes");
    }
    assert_eq!(catalogue.job_change_count(), 10);
    let end = at(&sightings, 500 + 605_000);
    end.see(dead(1));
    end.note(&catalogue, true).expect("notes");
    assert_eq!(catalogue.job_change_count(), 11);
    end.note(&catalogue, true).expect("notes");
    assert_eq!(catalogue.job_change_count(), 11, "it says the same already");
    let next = Sightings::load(&catalogue).expect("reads the note");
    assert_eq!(at(&next, 0).see(dead(1)), 605_000);
}

#[test]
fn where_nothing_is_dead_nothing_is_noted() {
    let catalogue = MemoryCatalogue::default();
    let sightings = Sightings::load(&catalogue).expect("nothing is noted yet");
    for look in 0..=60 {
        at(&sightings, look * 10_000).note(&catalogue, look == 60).expect("has nothing to note");
    }
    assert_eq!(catalogue.job_change_count(), 0);
}
