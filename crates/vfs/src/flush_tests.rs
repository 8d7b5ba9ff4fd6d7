use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

const SECOND: Duration = Duration::from_secs(1);
const ROOM_BYTES: u64 = 64 << 20;

fn flush() -> (Flush<u64>, Instant) {
    (Flush::new(ROOM_BYTES), Instant::now())
}

/// Of a file with this many dirty bytes in one piece.
fn dirty(dirty_bytes: u64) -> Held {
    Held {
        policy: PolicyId(1),
        memory_bytes: dirty_bytes,
        dirty_bytes,
        dirty_piece_count: 1,
        unjournaled_bytes: dirty_bytes,
        journal_bytes: 0,
        unsaved: true,
    }
}

const SAVED: Held = Held {
    policy: PolicyId(1),
    memory_bytes: 0,
    dirty_bytes: 0,
    dirty_piece_count: 0,
    unjournaled_bytes: 0,
    journal_bytes: 0,
    unsaved: false,
};

fn changed(flush: &mut Flush<u64>, ino: u64, held: Held, now: Instant) -> Wake {
    flush.changed(Ino(ino), &ino, held, now)
}

#[test]
fn small_files_wait_for_company_and_share_by_policy() {
    let (mut flush, start) = flush();
    let other = Held { policy: PolicyId(2), ..dirty(10) };
    for (ino, held) in [(5, dirty(10)), (3, dirty(10)), (4, other), (6, dirty(LARGE_BYTES + 1))] {
        assert_eq!(changed(&mut flush, ino, held, start), Wake::default());
    }
    assert_eq!(flush.due(false, start + DIRTY_AGE - Duration::from_millis(1)), []);
    let expected = [Due::Alone(6), Due::Together(PolicyId(1), vec![3, 5]), Due::Together(PolicyId(2), vec![4])];
    assert_eq!(flush.due(false, start + DIRTY_AGE), expected);
    assert_eq!(flush.due(false, start + DIRTY_AGE), [], "they are tried again in their turn only");
    assert_eq!(flush.due(false, start + 2 * DIRTY_AGE), expected);
}

#[test]
fn what_the_journal_holds_waits_longer_and_attributes_alone_are_committed() {
    let (mut flush, start) = flush();
    let journaled = Held { unjournaled_bytes: 0, journal_bytes: 4096, unsaved: false, ..dirty(100) };
    let _ = changed(&mut flush, 1, journaled, start);
    let _ = changed(&mut flush, 2, Held { unsaved: true, ..SAVED }, start);
    let in_flight = Held { dirty_bytes: 0, dirty_piece_count: 0, unjournaled_bytes: 0, ..dirty(100) };
    let _ = changed(&mut flush, 3, in_flight, start);
    assert_eq!(flush.due(false, start + DIRTY_AGE), []);
    assert_eq!(flush.due(false, start + JOURNALED_AGE), [Due::Attributes(2), Due::Together(PolicyId(1), vec![1])]);
    assert_eq!(flush.due(true, start + JOURNALED_AGE).len(), 2, "everything, but what is in flight");
}

#[test]
fn a_file_is_kept_until_the_store_has_all_of_it() {
    let (mut flush, start) = flush();
    let _ = changed(&mut flush, 1, dirty(100), start);
    let _ = changed(&mut flush, 1, Held { unsaved: true, ..SAVED }, start);
    assert_eq!(flush.files().count(), 1, "its size is newer");
    let _ = changed(&mut flush, 1, SAVED, start);
    assert_eq!(flush.files().count(), 0);
    let _ = changed(&mut flush, 1, SAVED, start);
    assert_eq!(flush.files().count(), 0);
}

#[test]
fn the_background_loop_is_called_when_there_is_much() {
    let (mut flush, start) = flush();
    for ino in 1..DIRTY_FILES_MAX as u64 {
        assert_eq!(changed(&mut flush, ino, dirty(1), start), Wake::default());
    }
    assert!(!flush.is_called());
    assert!(changed(&mut flush, 9_999, dirty(1), start).background, "many files");
    assert!(flush.is_called() && flush.answer() && !flush.is_called());
    assert_eq!(flush.due(false, start).len(), 1, "then none has to wait for its age");

    let (mut flush, start) = self::flush();
    let pages = |journal_bytes| Held { unjournaled_bytes: 0, journal_bytes, ..dirty(1) };
    assert!(!changed(&mut flush, 1, pages(JOURNAL_BYTES_MAX / 2), start).background);
    assert!(flush.fits_journal(1) && !flush.fits_journal(JOURNALED_FSYNC_BYTES_MAX + 1));
    assert!(changed(&mut flush, 2, pages(JOURNAL_BYTES_MAX / 2), start).background, "a full journal");
    assert!(!flush.fits_journal(1) && flush.fits_journal(0));
    assert!(!changed(&mut flush, 2, pages(JOURNAL_BYTES_MAX / 2 - 4096), start).background, "it becomes less");
    flush.stop();
    assert!(flush.is_called() && !flush.answer());
}

#[test]
fn writers_wait_for_room_until_there_is_some_or_no_hope() {
    let (mut flush, start) = flush();
    assert!(matches!(flush.admit(start, start), Admission::Enter));
    let _ = changed(&mut flush, 1, dirty(ROOM_BYTES), start);
    assert!(matches!(flush.admit(start, start + SECOND), Admission::Wait(left) if left == STALL_MAX - SECOND));
    assert!(flush.is_called(), "everything is due now");
    assert!(matches!(flush.admit(start, start + STALL_MAX), Admission::Refuse(VfsError::Stalled { seconds: 60 })));
    flush.failed(Arc::new(VfsError::TooLarge));
    assert!(matches!(flush.admit(start, start), Admission::Refuse(VfsError::Earlier(_))));
    flush.succeeded();
    assert!(!changed(&mut flush, 2, dirty(10), start).writers);
    assert!(!changed(&mut flush, 2, SAVED, start).writers, "there is none yet");
    assert!(changed(&mut flush, 1, dirty(ROOM_BYTES - 1), start).writers);
    assert!(matches!(flush.admit(start, start + STALL_MAX), Admission::Enter));
}

#[derive(Clone, Debug)]
enum Happening {
    Stage(BTreeSet<u64>),
    /// Nodes have the upload of this index among those in flight.
    Write(usize),
    /// The commit that is under way ends.
    Settle,
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        2 => prop::collection::btree_set(0..5_u64, 1..4).prop_map(Happening::Stage),
        2 => (0..8_usize).prop_map(Happening::Write),
        2 => Just(Happening::Settle),
    ]
}

proptest! {
    /// One commit at a time; of uploads that share a file each after those before it; none is forgotten.
    #[test]
    fn uploads_that_share_a_file_are_committed_in_their_order(happenings in prop::collection::vec(happening(), 0..60)) {
        let (mut flush, _) = flush();
        let mut unsettled: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
        let mut unwritten: Vec<u64> = Vec::new();
        let mut waiting: BTreeSet<u64> = BTreeSet::new();
        let mut committing: Option<u64> = None;
        let rest = std::iter::repeat_n([Happening::Write(0), Happening::Settle], 200).flatten();
        for happening in happenings.into_iter().chain(rest) {
            let next = match happening {
                Happening::Stage(files) => {
                    let sequence = flush.staged(files.iter().copied().map(Ino).collect());
                    prop_assert!(unsettled.insert(sequence, files).is_none());
                    unwritten.push(sequence);
                    None
                }
                // The commit thread learns of it when it has nothing else to do.
                Happening::Write(index) if committing.is_none() && index < unwritten.len() => {
                    let sequence = unwritten.remove(index);
                    waiting.insert(sequence);
                    flush.written(sequence)
                }
                Happening::Settle => match committing.take() {
                    Some(sequence) => {
                        unsettled.remove(&sequence);
                        flush.settled(sequence)
                    }
                    None => None,
                },
                Happening::Write(_) => None,
            };
            if let Some(sequence) = next {
                prop_assert!(waiting.remove(&sequence), "nodes have it, and it was not committed before");
                let files = &unsettled[&sequence];
                prop_assert!(unsettled.range(..sequence).all(|(_, earlier)| earlier.is_disjoint(files)));
                committing = Some(sequence);
            }
        }
        prop_assert!(unsettled.is_empty() && waiting.is_empty() && unwritten.is_empty());
    }

    /// The sums are those of the files; a file with dirty bytes is due at its age, and none is due before if there is room.
    #[test]
    fn sums_and_ages_are_those_of_the_files(
        steps in prop::collection::vec((0..6_u64, 0..4_u64, any::<bool>(), any::<bool>(), 0..800_u64), 1..60)
    ) {
        let (mut flush, mut now) = flush();
        let mut model: BTreeMap<u64, (Instant, Held)> = BTreeMap::new();
        for (ino, kib, is_journaled, unsaved, pause_ms) in steps {
            now += Duration::from_millis(pause_ms);
            let unjournaled_bytes = if is_journaled { 0 } else { kib << 10 };
            let journal_bytes = if is_journaled { kib << 12 } else { 0 };
            let held = Held { unjournaled_bytes, journal_bytes, unsaved, ..dirty(kib << 10) };
            let _ = changed(&mut flush, ino, held, now);
            match held.is_nothing() {
                true => drop(model.remove(&ino)),
                false => model.entry(ino).or_insert((now, held)).1 = held,
            }
            prop_assert_eq!(flush.held_bytes, model.values().map(|(_, held)| held.memory_bytes).sum::<u64>());
            prop_assert_eq!(flush.journal_bytes(), model.values().map(|(_, held)| held.journal_bytes).sum::<u64>());
            prop_assert_eq!(flush.files().copied().collect::<Vec<_>>(), model.keys().copied().collect::<Vec<_>>());
            let mut expected: BTreeSet<u64> = BTreeSet::new();
            for (ino, (since, held)) in &mut model {
                if now - *since >= if held.unjournaled_bytes == 0 { JOURNALED_AGE } else { DIRTY_AGE } {
                    expected.insert(*ino);
                    *since = now;
                }
            }
            let due = flush.due(false, now).into_iter().flat_map(|due| match due {
                Due::Alone(file) | Due::Attributes(file) => vec![file],
                Due::Together(_, files) => files,
            });
            prop_assert_eq!(due.collect::<BTreeSet<_>>(), expected);
        }
    }
}
