use super::*;

fn shared(text: &str) -> Shared {
    text.as_bytes().into()
}

fn all(memtable: &Memtable) -> Vec<(String, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    memtable.range(b"", b"\xff").map(|(key, value)| (text(key), value.map(text))).collect()
}

#[test]
fn active_hides_frozen_and_removals_are_kept() {
    let mut memtable = Memtable::default();
    memtable.put(shared("a"), Some(shared("1")));
    memtable.put(shared("b"), Some(shared("1")));
    let written = memtable.freeze();
    assert_eq!(written.len(), 2);
    memtable.put(shared("b"), None);
    memtable.put(shared("c"), Some(shared("2")));
    let snapshot = memtable.clone();
    let expected = vec![("a".into(), Some("1".into())), ("b".into(), None), ("c".into(), Some("2".into()))];
    assert_eq!(all(&memtable), expected);
    assert_eq!(memtable.get(b"b"), Some(&None));

    memtable.forget_frozen();
    assert_eq!(all(&memtable), expected[1..]);
    assert_eq!(memtable.get(b"a"), None);
    assert_eq!(all(&snapshot), expected, "a clone never changes");
}

#[test]
fn a_second_freeze_before_the_first_is_written_holds_both_in_order() {
    let mut memtable = Memtable::default();
    memtable.put(shared("a"), Some(shared("1")));
    memtable.put(shared("b"), Some(shared("1")));
    memtable.freeze();
    memtable.put(shared("b"), Some(shared("2")));
    let written = memtable.freeze();
    assert_eq!(written.get(&b"b"[..]), Some(&Some(shared("2"))));
    assert_eq!(written.len(), 2);
}

#[test]
fn bytes_follow_what_is_pending() {
    let mut memtable = Memtable::default();
    memtable.put(shared("key"), Some(shared("value")));
    let once = memtable.bytes();
    memtable.put(shared("key"), Some(shared("other")));
    assert_eq!(memtable.bytes(), once, "an overwrite replaces");
    memtable.freeze();
    assert_eq!(memtable.bytes(), once);
    memtable.forget_frozen();
    assert_eq!(memtable.bytes(), 0);
    assert!(memtable.is_empty());
}
