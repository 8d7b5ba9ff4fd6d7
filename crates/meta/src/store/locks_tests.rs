use super::super::fixture::*;
use super::*;
use weft_format::records::Kind;

fn file_lock(owner: u64, first: u64, last: u64, is_exclusive: bool) -> FileLock {
    FileLock { session: 1, owner, pid: 1, first, last, is_exclusive }
}

#[test]
fn a_lock_is_refused_with_the_one_in_the_way_and_given_when_that_goes() {
    let (store, _) = volume();
    let ino = make(&store, Ino::ROOT, "file", Kind::File);
    let (first, second) = (file_lock(0, 0, u64::MAX, true), file_lock(1, 3, 5, false));
    assert_eq!(store.lock(ino, first).unwrap(), None);
    assert_eq!(store.lock(ino, second).unwrap(), Some(first));
    store.unlock(ino, &FileLock { last: 5, ..first }).unwrap();
    assert_eq!(store.lock(ino, second).unwrap(), None);
    assert_eq!(store.locks(ino).unwrap(), [second, FileLock { first: 6, ..first }]);
    for lock in [first, second] {
        store.unlock(ino, &lock).unwrap();
    }
    assert_eq!(store.locks(ino).unwrap(), []);
    assert_clean(&store);
}

#[test]
fn a_file_has_a_bounded_number_of_locks() {
    let (store, _) = volume();
    let ino = make(&store, Ino::ROOT, "file", Kind::File);
    let at = |first: u64| FileLock { session: 1, owner: 1, pid: 1, first, last: first, is_exclusive: true };
    for number in 0..LOCKS_MAX as u64 {
        assert_eq!(store.lock(ino, at(2 * number)).unwrap(), None);
    }
    let refused = store.lock(ino, at(5000)).unwrap_err();
    assert!(matches!(refused, MetaError::TooManyLocks(_)), "{refused}");
    // One that joins others is none more.
    assert_eq!(store.lock(ino, FileLock { last: 3000, ..at(0) }).unwrap(), None);
    assert_eq!(store.locks(ino).unwrap().len(), 1);
}
