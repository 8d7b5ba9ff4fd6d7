//! Reclaim in many steps is in `data_tests.rs`.

use super::super::fixture::*;
use super::*;
use weft_format::records::Kind;

#[test]
fn only_orphans_are_reclaimed() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    assert_eq!(kind_of(&store.reclaim(&[unused(file)], at(1)).unwrap_err()), "Invalid");
    assert_eq!(kind_of(&store.reclaim(&[unused(Ino::ROOT)], at(1)).unwrap_err()), "Invalid");
    assert_eq!(store.reclaim(&[unused(Ino(99))], at(1)).unwrap(), 1);
}

#[test]
fn orphans_come_in_order_and_in_any_number() {
    let (store, _) = volume();
    let mut made = Vec::new();
    for i in 0..1500 {
        let name = format!("{i}");
        made.push(make(&store, Ino::ROOT, &name, Kind::Fifo));
        store.unlink(Ino::ROOT, name.as_bytes(), at(2)).unwrap();
    }
    assert_eq!(store.orphans(usize::MAX).unwrap(), made);
    assert_eq!(store.orphans(1024).unwrap(), made[..1024]);
    assert_eq!(store.orphans(2).unwrap(), made[..2]);
    assert_eq!(store.orphans(0).unwrap(), []);
}

#[test]
fn a_symbolic_link_leaves_nothing() {
    let (store, kv) = volume();
    let before = crate::kv::Kv::snapshot(&*kv).unwrap().scan(&[], &[u8::MAX], 1000).unwrap().len();
    let link = make(&store, Ino::ROOT, "link", Kind::Symlink);
    store.unlink(Ino::ROOT, b"link", at(2)).unwrap();
    assert_eq!(store.reclaim(&[unused(link)], at(2)).unwrap(), 1);
    let after = crate::kv::Kv::snapshot(&*kv).unwrap().scan(&[], &[u8::MAX], 1000).unwrap().len();
    assert_eq!(before, after);
    assert_clean(&store);
}
