use super::super::fixture::*;
use crate::MetaError;
use crate::keys::Key;
use weft_format::Ino;
use weft_format::records::{Kind, Latest};

#[test]
fn finding_05_each_opening_has_the_next_number_and_is_durable_when_it_is_given() {
    let (store, _) = volume();
    assert_eq!(store.openings().unwrap().latest, None);
    let one = store.take_opening(11, 100).unwrap();
    let two = store.take_opening(22, 200).unwrap();
    assert_eq!((one.number, two.number, two.tag), (1, 2, 22));
    let openings = store.openings().unwrap();
    assert_eq!(openings.latest, Some(Latest { opening: two, session: 0, settled_below: 0, roster: 0 }));
    assert_eq!(openings.over, [(1, 1)]);
    let restored = store.restore_opening(40, 33, 300).unwrap();
    assert_eq!((restored.number, store.openings().unwrap().left), (41, vec![(2, 0)]));
}

#[test]
fn finding_04_what_is_settled_only_rises_and_is_of_the_latest_opening() {
    let (store, _) = volume();
    store.note_settled(1, 5, 0).unwrap();
    assert_eq!(store.openings().unwrap().latest, None);
    let opening = store.take_opening(11, 100).unwrap();
    let settled = || store.openings().unwrap().latest.unwrap().settled_below;
    for (number, below, expected) in [(1, 5, 5), (1, 3, 5), (2, 9, 5), (1, 6, 6)] {
        store.note_settled(number, below, 0).unwrap();
        assert_eq!(settled(), expected);
    }
    assert_eq!(opening.number, 1);
}

#[test]
fn finding_05_a_store_that_is_halted_is_read_and_not_changed() {
    let (store, _) = volume();
    store.take_opening(11, 100).unwrap();
    store.halt("it is a copy");
    store.halt("for another reason");
    assert!(matches!(store.take_opening(12, 101), Err(MetaError::Superseded(why)) if why == "it is a copy"));
    assert_eq!(store.openings().unwrap().number(), 1);
    assert!(store.view(|txn| txn.get(Key::Openings)).unwrap().is_some());
}

#[test]
fn an_opening_is_renewed_if_it_is_old_and_something_has_changed() {
    let (store, _) = volume();
    assert_eq!(store.renew_opening().unwrap(), None, "it was never opened");
    store.take_opening(11, 100).unwrap();
    assert_eq!(store.renew_opening().unwrap().map(|renewed| renewed.number), Some(2), "it was formatted");
    let opening = store.take_opening(22, 200).unwrap();
    store.note_settled(opening.number, 5, 0).unwrap();
    assert_eq!(store.renew_opening().unwrap(), None, "an idle volume leaves its disks alone");
    make(&store, Ino::ROOT, "a", Kind::File);
    assert_eq!(store.renew_opening().unwrap().map(|renewed| renewed.number), Some(4), "it began in 1970");
    let openings = store.openings().unwrap();
    assert_eq!(openings.current().map(|current| current.opening.number).collect::<Vec<_>>(), [3, 4]);
    assert_eq!((openings.over, opening.number), (vec![(1, 2)], 3));
    make(&store, Ino::ROOT, "b", Kind::File);
    assert_eq!(store.renew_opening().unwrap(), None, "it is renewed once a minute");
}
