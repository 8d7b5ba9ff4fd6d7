use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use weft_format::Generation;

const SINCE_MS: u64 = 77;

fn dead(number: u64) -> Item {
    Item::Segment(SegmentId::new(number, 1))
}

fn at(unreferenced_since: &UnreferencedSince, at_ms: u64) -> Beside<'_> {
    Beside { unreferenced_since, at_ms }
}

#[test]
fn a_sight_is_as_old_as_the_first_without_a_break() {
    let unreferenced_since = UnreferencedSince::default();
    assert_eq!([0, 5, 9].map(|at_ms| at(&unreferenced_since, at_ms).see(dead(1), SINCE_MS)), [0, 5, 9]);
    assert_eq!(at(&unreferenced_since, 9).see(dead(2), SINCE_MS), 0);
    let is_dead = |what: &Item| matches!(what, Item::Segment(_));
    at(&unreferenced_since, 9).forget_others(is_dead);
    let third = at(&unreferenced_since, 12);
    assert_eq!(third.see(dead(2), SINCE_MS), 3);
    third.forget_others(|what| !is_dead(what));
    assert_eq!(at(&unreferenced_since, 13).see(dead(1), SINCE_MS), 13, "of another kind");
    third.forget_others(is_dead);
    assert_eq!(at(&unreferenced_since, 14).see(dead(1), SINCE_MS), 0, "it was needed in between");
}

#[test]
fn what_was_needed_and_is_unreferenced_again_is_seen_anew() {
    let unreferenced_since = UnreferencedSince::default();
    let generation = Item::Generation(SegmentId::new(1, 1), Generation(1));
    assert_eq!(
        [(0, 5), (9, 5), (10, 6), (13, 6)]
            .map(|(at_ms, since_ms)| at(&unreferenced_since, at_ms).see(generation, since_ms)),
        [0, 9, 0, 3]
    );
}

#[test]
fn sights_of_another_process_count_for_nothing() {
    let (one, other) = (UnreferencedSince::default(), UnreferencedSince::default());
    at(&one, 0).see(dead(1), SINCE_MS);
    assert_eq!(at(&other, 1_000_000).see(dead(1), SINCE_MS), 0);
}

#[test]
fn a_dead_segment_is_seen_on_by_the_next_owner() {
    let catalogue = MemoryCatalogue::default();
    let first = UnreferencedSince::load(&catalogue).expect("nothing is noted yet");
    at(&first, 100).see(dead(1), SINCE_MS);
    at(&first, 107).see(dead(1), SINCE_MS);
    at(&first, 107).see(dead(2), SINCE_MS);
    let previous = Item::Generation(SegmentId::new(1, 1), Generation(1));
    at(&first, 107).see(previous, SINCE_MS);
    at(&first, 107).note(&catalogue, true).expect("notes");
    // Its clock starts anywhere, and the time in between does not count.
    let next = UnreferencedSince::load(&catalogue).expect("reads the note");
    assert_eq!(at(&next, 5).see(dead(1), SINCE_MS), 7);
    assert_eq!(at(&next, 9).see(dead(1), SINCE_MS), 11);
    assert_eq!(at(&next, 9).see(dead(2), SINCE_MS), 0);
    assert_eq!(at(&next, 9).see(previous, SINCE_MS), 0, "only the dead never live again");
    at(&next, 9).note(&catalogue, true).expect("notes");
    let third = UnreferencedSince::load(&catalogue).expect("reads the note");
    assert_eq!([dead(1), dead(2)].map(|what| at(&third, 0).see(what, SINCE_MS)), [11, 0]);
}

#[test]
fn what_is_gone_is_noted_no_longer() {
    let catalogue = MemoryCatalogue::default();
    let unreferenced_since = UnreferencedSince::default();
    at(&unreferenced_since, 0).note(&catalogue, true).expect("there is nothing to note");
    at(&unreferenced_since, 0).see(dead(1), SINCE_MS);
    at(&unreferenced_since, 0).note(&catalogue, true).expect("notes");
    let text = String::from_utf8(catalogue.job(SEEN).expect("reads").expect("is noted")).expect("is text");
    assert_eq!(text, format!(r#"{{"version":2,"dead":{{"{}":0}}}}"#, SegmentId::new(1, 1)));
    at(&unreferenced_since, 1).forget_others(|what| matches!(what, Item::Segment(_)));
    at(&unreferenced_since, 1).note(&catalogue, true).expect("notes");
    assert_eq!(catalogue.job(SEEN).expect("reads"), None);
}

#[test]
fn the_note_is_bounded_and_keeps_what_was_seen_longest() {
    let catalogue = MemoryCatalogue::default();
    let unreferenced_since = UnreferencedSince::default();
    let count = SEEN_MAX as u64 + 10;
    for number in 0..count {
        at(&unreferenced_since, number).see(dead(number), SINCE_MS);
    }
    for number in 0..count {
        at(&unreferenced_since, count).see(dead(number), SINCE_MS);
    }
    at(&unreferenced_since, count).note(&catalogue, true).expect("notes");
    let next = UnreferencedSince::load(&catalogue).expect("reads the note");
    assert_eq!(at(&next, 0).see(dead(0), SINCE_MS), count);
    assert_eq!(at(&next, 0).see(dead(count - 1), SINCE_MS), 0);
    catalogue.set_job(SEEN, Some(br#"{"version":9}"#)).expect("writes");
    assert!(UnreferencedSince::load(&catalogue).is_err(), "a newer program's note is not guessed at");
}

#[test]
fn the_note_is_written_once_a_minute_and_at_the_end() {
    let catalogue = MemoryCatalogue::default();
    let unreferenced_since = UnreferencedSince::load(&catalogue).expect("nothing is noted yet");
    // Looks every ten seconds for ten minutes, in a volume where something has always just died.
    for look in 0..=60 {
        let beside = at(&unreferenced_since, 500 + look * 10_000);
        beside.see(dead(1), SINCE_MS);
        beside.see(dead(2 + look), SINCE_MS);
        beside.note(&catalogue, false).expect("notes");
    }
    assert_eq!(catalogue.job_change_count(), 10);
    let end = at(&unreferenced_since, 500 + 605_000);
    end.see(dead(1), SINCE_MS);
    end.note(&catalogue, true).expect("notes");
    assert_eq!(catalogue.job_change_count(), 11);
    end.note(&catalogue, true).expect("notes");
    assert_eq!(catalogue.job_change_count(), 11, "it says the same already");
    let next = UnreferencedSince::load(&catalogue).expect("reads the note");
    assert_eq!(at(&next, 0).see(dead(1), SINCE_MS), 605_000);
}

#[test]
fn where_nothing_is_dead_nothing_is_noted() {
    let catalogue = MemoryCatalogue::default();
    let unreferenced_since = UnreferencedSince::load(&catalogue).expect("nothing is noted yet");
    for look in 0..=60 {
        at(&unreferenced_since, look * 10_000).note(&catalogue, look == 60).expect("has nothing to note");
    }
    assert_eq!(catalogue.job_change_count(), 0);
}
