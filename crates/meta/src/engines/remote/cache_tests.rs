use super::*;
use crate::conformance::set;
use crate::store::values::Usage;

const KEY: &[u8] = b"\x02key";

fn value(cache: &Cache, key: &[u8]) -> Option<Option<Vec<u8>>> {
    cache.get(key).map(|(value, _)| value)
}

#[test]
fn what_was_read_or_written_is_known_and_absence_too() {
    let cache = Cache::new();
    assert_eq!(value(&cache, KEY), None);
    let quiet = cache.quiet().expect("nothing is under way");
    cache.fill(KEY, None, quiet);
    assert_eq!(value(&cache, KEY), Some(None));
    let changes = cache.begin(&set(KEY, b"1"));
    assert_eq!((value(&cache, KEY), cache.quiet()), (None, None), "not while it is changed");
    cache.end(changes, Outcome::Done);
    assert_eq!(value(&cache, KEY), Some(Some(b"1".to_vec())));
    let changes = cache.begin(&set(KEY, b"2"));
    cache.end(changes, Outcome::NotDone);
    assert_eq!(value(&cache, KEY), None, "the server is asked");
}

#[test]
fn keys_that_others_change_are_never_kept() {
    let cache = Cache::new();
    let node = SHARED[0].prefix;
    cache.fill(node, Some(b"1"), cache.quiet().expect("quiet"));
    let changes = cache.begin(&set(node, b"2"));
    cache.end(changes, Outcome::Done);
    assert_eq!(value(&cache, node), None);
}

#[test]
fn an_answer_that_a_commit_overtook_is_not_kept() {
    let cache = Cache::new();
    let quiet = cache.quiet().expect("quiet");
    let changes = cache.begin(&set(KEY, b"new"));
    cache.fill(KEY, Some(b"old"), quiet);
    cache.end(changes, Outcome::Done);
    cache.fill(KEY, Some(b"old"), quiet);
    assert_eq!(value(&cache, KEY), Some(Some(b"new".to_vec())));
}

#[test]
fn of_two_changes_at_the_same_time_neither_is_kept() {
    for first_ends_first in [true, false] {
        let cache = Cache::new();
        let (first, second) = (cache.begin(&set(KEY, b"1")), cache.begin(&set(KEY, b"2")));
        let (one, other) = if first_ends_first { (first, second) } else { (second, first) };
        cache.end(one, Outcome::Done);
        cache.end(other, Outcome::Done);
        assert_eq!(value(&cache, KEY), None, "nobody knows here which was last");
    }
}

#[test]
fn what_may_still_be_changed_is_not_kept_any_more() {
    let cache = Cache::new();
    let changes = cache.begin(&set(KEY, b"1"));
    cache.end(changes, Outcome::Unknown);
    cache.fill(KEY, Some(b"0"), cache.quiet().expect("it is given up"));
    let changes = cache.begin(&set(KEY, b"2"));
    cache.end(changes, Outcome::Done);
    assert_eq!(value(&cache, KEY), None);
}

#[test]
fn a_view_notices_that_what_it_has_read_is_changed() {
    let cache = Cache::new();
    cache.fill(KEY, Some(b"1"), cache.quiet().expect("quiet"));
    let (_, seen) = cache.get(KEY).expect("known");
    assert!(cache.holds(&seen));
    let changes = cache.begin(&set(KEY, b"2"));
    assert!(!cache.holds(&seen), "the server may have it already");
    cache.end(changes, Outcome::NotDone);
    assert!(!cache.holds(&seen));
    cache.doubt(&[KEY.to_vec()]);
}

#[test]
fn deltas_are_added_to_what_is_known() {
    let cache = Cache::new();
    let add =
        |inodes| Batch { deltas: vec![(KEY.to_vec(), Delta::Usage { inodes, live_bytes: 0 })], ..Batch::default() };
    let changes = cache.begin(&add(1));
    cache.end(changes, Outcome::Done);
    assert_eq!(value(&cache, KEY), None, "to what is not known nothing can be added");
    cache.fill(KEY, Some(&Usage { inodes: 5, live_bytes: 0 }.encode()), cache.quiet().expect("quiet"));
    let changes = cache.begin(&add(2));
    cache.end(changes, Outcome::Done);
    assert_eq!(value(&cache, KEY), Some(Some(Usage { inodes: 7, live_bytes: 0 }.encode())));
}

fn name(directory: u8, name: &str) -> Vec<u8> {
    [&[crate::keys::Table::Dirent as u8, 0, 0, 0, 0, 0, 0, 0, directory], name.as_bytes()].concat()
}

#[test]
fn of_a_new_directory_the_names_that_were_not_made_are_known_to_be_absent() {
    let cache = Cache::new();
    assert_eq!(value(&cache, &name(7, "a")), None);
    cache.begin_domain(&name(7, ""));
    assert_eq!(value(&cache, &name(7, "a")), Some(None));
    assert_eq!(value(&cache, &name(8, "a")), None, "another directory");
    let (_, seen) = cache.get(&name(7, "a")).expect("known");
    for outcome in [Outcome::NotDone, Outcome::Done] {
        let changes = cache.begin(&set(&name(7, "a"), b"1"));
        assert_eq!(value(&cache, &name(7, "a")), None, "not while it is changed");
        assert!(!cache.holds(&seen));
        cache.end(changes, outcome);
    }
    assert_eq!(value(&cache, &name(7, "a")), Some(Some(b"1".to_vec())));
    // Once it was to be made it may be there, also when its value is forgotten.
    cache.doubt(&[name(7, "a")]);
    assert_eq!((value(&cache, &name(7, "a")), value(&cache, &name(7, "b"))), (None, Some(None)));
    let unknown = cache.begin(&set(&name(7, "c"), b"1"));
    cache.end(unknown, Outcome::Unknown);
    assert_eq!(value(&cache, &name(7, "c")), None);
    // Keys that others make are never known so.
    let shared = [SHARED[0].prefix, &[0; 9]].concat();
    cache.begin_domain(&shared);
    assert_eq!(value(&cache, &shared), None);
}
