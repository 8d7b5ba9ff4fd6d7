use super::super::fixture::*;
use super::*;
use crate::types::SetAttributes;
use weft_format::records::Kind;

#[test]
fn set_get_list_remove() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let set = |name: &[u8], value: &[u8], mode| store.set_xattr(file, name, value, mode, at(7));
    set(b"user.b", b"2", XattrMode::Any).unwrap();
    set(b"user.a", b"", XattrMode::Create).unwrap();
    assert_eq!(kind_of(&set(b"user.a", b"x", XattrMode::Create).unwrap_err()), "Exists");
    assert_eq!(kind_of(&set(b"user.c", b"x", XattrMode::Replace).unwrap_err()), "NoAttribute");
    set(b"user.b", b"3", XattrMode::Replace).unwrap();
    assert_eq!(store.attributes(file).unwrap().ctime, at(7));
    assert_eq!(store.get_xattr(file, b"user.b").unwrap(), b"3");
    assert_eq!(store.get_xattr(file, b"user.a").unwrap(), b"");
    assert_eq!(store.list_xattrs(file).unwrap(), [b"user.a".to_vec(), b"user.b".to_vec()]);
    store.remove_xattr(file, b"user.b", at(8)).unwrap();
    assert_eq!(kind_of(&store.remove_xattr(file, b"user.b", at(8)).unwrap_err()), "NoAttribute");
    assert_eq!(kind_of(&store.get_xattr(file, b"user.b").unwrap_err()), "NoAttribute");
    assert_eq!(store.attributes(file).unwrap().ctime, at(8));
    assert_clean(&store);
}

#[test]
fn limits() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let set = |name: &[u8], bytes: usize| {
        store.set_xattr(file, name, &vec![1; bytes], XattrMode::Any, at(1)).map_err(|error| kind_of(&error))
    };
    set(&[b'n'; 255], 65536).unwrap();
    assert_eq!(set(&[b'n'; 256], 1).unwrap_err(), "NameTooLong");
    assert_eq!(set(b"user.x", 65537).unwrap_err(), "AttributeTooLarge");
    assert_eq!(set(b"", 1).unwrap_err(), "InvalidName");
    assert_eq!(set(b"a\0", 1).unwrap_err(), "InvalidName");
    let gone = Ino(99);
    assert_eq!(kind_of(&store.get_xattr(gone, b"user.x").unwrap_err()), "NotFound");
    assert_eq!(kind_of(&store.list_xattrs(gone).unwrap_err()), "NotFound");
    assert_eq!(kind_of(&store.remove_xattr(gone, b"user.x", at(1)).unwrap_err()), "NotFound");
}

#[test]
fn many_are_listed_in_pages_and_reclaimed_in_steps() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    for i in 0..300 {
        store.set_xattr(file, format!("user.{i:03}").as_bytes(), b"v", XattrMode::Any, at(1)).unwrap();
    }
    let names = store.list_xattrs(file).unwrap();
    assert_eq!((names.len(), names.is_sorted()), (300, true));
    store.unlink(Ino::ROOT, b"file", at(2)).unwrap();
    let mut steps = 1;
    while store.reclaim(&[unused(file)], at(2)).unwrap() == 0 {
        assert_clean(&store);
        steps += 1;
    }
    assert_eq!(steps, 3);
    assert_clean(&store);
}

#[test]
fn a_change_of_attributes_removes_a_capability_where_it_says_so() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let has_capability = || store.attributes_and_capability(file).unwrap().1;
    assert!(!has_capability());
    store.set_xattr(file, CAPABILITY_XATTR, b"any", XattrMode::Any, at(1)).unwrap();
    store.set_xattr(file, b"security.other", b"any", XattrMode::Any, at(1)).unwrap();
    let chmod = SetAttributes { mode: Some(0o700), ..SetAttributes::default() };
    store.set_attributes(file, &chmod).unwrap();
    assert_eq!(store.attributes_and_capability(file).unwrap(), (store.attributes(file).unwrap(), true));
    let chown = SetAttributes { uid: Some(7), removes_capability: true, ..SetAttributes::default() };
    for _ in 0..2 {
        store.set_attributes(file, &chown).unwrap();
        assert!(!has_capability());
    }
    assert_eq!(store.list_xattrs(file).unwrap(), [b"security.other".to_vec()]);
    assert_eq!(kind_of(&store.attributes_and_capability(Ino(99)).unwrap_err()), "NotFound");
    assert_clean(&store);
}
