use super::super::fixture::*;
use super::*;
use crate::kv::{Batch, Kv};
use crate::types::RenameFlags;

fn kept(store: &Store) -> Vec<(u64, Ino)> {
    let deleted = store.deleted(None, usize::MAX).unwrap();
    deleted.iter().map(|deleted| (deleted.deleted_ms, deleted.attributes.ino)).collect()
}

#[test]
fn nothing_is_kept_unless_it_is_said() {
    let (store, _) = volume();
    assert_eq!(store.keep_ms().unwrap(), 0);
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    assert!(!store.unlink(Ino::ROOT, b"file", at(2)).unwrap().is_kept);
    assert_eq!((kept(&store), store.orphans(9).unwrap()), (vec![], vec![file]));
}

#[test]
fn a_deleted_file_has_its_bytes_until_it_is_let_go() {
    let (store, _) = volume();
    store.set_keep_ms(1000).unwrap();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    let before = store.attributes(file).unwrap();
    let outcome = store.unlink(Ino::ROOT, b"file", at(2)).unwrap();
    assert!(outcome.is_kept && outcome.attributes.nlink == 0);
    assert_clean(&store);
    assert_eq!(store.orphans(9).unwrap(), []);
    let deleted = store.deleted(None, 9).unwrap().remove(0);
    assert_eq!((deleted.deleted_ms, deleted.parent, deleted.name.as_slice()), (2000, Ino::ROOT, &b"file"[..]));
    assert_eq!(store.deleted(Some((2000, file)), 9).unwrap(), []);

    let back = store.restore(2000, file, at(3)).unwrap().attributes;
    assert_eq!((back.nlink, back.size, back.allocated_bytes), (1, before.size, before.allocated_bytes));
    assert_eq!(store.lookup(Ino::ROOT, b"file").unwrap(), back);
    assert_eq!(kind_of(&store.restore(2000, file, at(3)).unwrap_err()), "NotFound");
    assert_clean(&store);

    store.unlink(Ino::ROOT, b"file", at(4)).unwrap();
    make(&store, Ino::ROOT, "file", Kind::File);
    assert_eq!(kind_of(&store.restore(4000, file, at(5)).unwrap_err()), "Exists");
    assert!(store.let_go(purged(4000, file)).unwrap());
    assert!(!store.let_go(purged(4000, file)).unwrap());
    assert_eq!((kept(&store), store.orphans(9).unwrap()), (vec![], vec![file]));
    assert_clean(&store);
    assert_eq!(store.reclaim(&[unused(file)], at(6)).unwrap(), 1);
    assert_clean(&store);
    assert_eq!(store.live_bytes(segment_id(1)).unwrap(), 0);
}

#[test]
fn what_a_rename_replaces_is_kept_unless_it_has_another_name() {
    let (store, _) = volume();
    store.set_keep_ms(1000).unwrap();
    let [file, other, third] = ["file", "other", "third"].map(|name| make(&store, Ino::ROOT, name, Kind::File));
    let over = |name: &[u8], at_s| {
        store.rename(Ino::ROOT, name, Ino::ROOT, b"file", RenameFlags::default(), at(at_s)).unwrap().replaced.unwrap()
    };
    store.link(file, Ino::ROOT, b"link", at(1)).unwrap();
    assert!(!over(b"other", 2).is_kept, "it has another name");
    let replaced = over(b"third", 3);
    assert_eq!((replaced.attributes.ino, replaced.attributes.nlink, replaced.is_kept), (other, 0, true));
    assert_eq!((kept(&store), store.orphans(9).unwrap()), (vec![(3000, other)], vec![]));
    assert_clean(&store);
    assert_eq!(kind_of(&store.restore(3000, other, at(4)).unwrap_err()), "Exists");
    store.rename(Ino::ROOT, b"file", Ino::ROOT, b"new", RenameFlags::default(), at(4)).unwrap();
    store.restore(3000, other, at(5)).unwrap();
    assert_eq!(store.lookup(Ino::ROOT, b"file").unwrap().ino, other);
    assert_eq!(store.lookup(Ino::ROOT, b"new").unwrap().ino, third);
    assert_clean(&store);
    // A directory, too, as by rmdir.
    let [empty, full] = ["empty", "full"].map(|name| make(&store, Ino::ROOT, name, Kind::Directory));
    store.rename(Ino::ROOT, b"full", Ino::ROOT, b"empty", RenameFlags::default(), at(6)).unwrap();
    assert_eq!((kept(&store), store.lookup(Ino::ROOT, b"empty").unwrap().ino), (vec![(6000, empty)], full));
    assert_clean(&store);
}

#[test]
fn a_tree_comes_back_from_the_top() {
    let (store, _) = volume();
    store.set_keep_ms(1000).unwrap();
    let folder = make(&store, Ino::ROOT, "folder", Kind::Directory);
    let file = make(&store, folder, "file", Kind::File);
    store.link(file, Ino::ROOT, b"other name", at(1)).unwrap();
    let link = make(&store, folder, "link", Kind::Symlink);
    assert!(!store.unlink(folder, b"file", at(2)).unwrap().is_kept, "it has another name");
    store.unlink(folder, b"link", at(2)).unwrap();
    store.rmdir(Ino::ROOT, b"folder", at(3)).unwrap();
    assert_eq!(kept(&store), [(2000, link), (3000, folder)]);
    assert_clean(&store);
    assert_eq!(kind_of(&store.restore(2000, link, at(4)).unwrap_err()), "NotFound");
    assert_eq!(store.restore(3000, folder, at(4)).unwrap().attributes.nlink, 2);
    store.restore(2000, link, at(4)).unwrap();
    assert_eq!(store.lookup(folder, b"link").unwrap().ino, link);
    assert_eq!((kept(&store), store.attributes(Ino::ROOT).unwrap().nlink), (vec![], 3));
    assert_clean(&store);
}

/// A record that cannot be read keeps no other file from being let go, wherever a page ends.
#[test]
fn a_deleted_file_whose_record_is_damaged_is_passed_over() {
    let (store, kv) = volume();
    store.set_keep_ms(1000).unwrap();
    let names = ["one", "two", "three"];
    let files = names.map(|name| make(&store, Ino::ROOT, name, Kind::File));
    for (name, second) in names.iter().zip(2..) {
        store.unlink(Ino::ROOT, name.as_bytes(), at(second)).unwrap();
    }
    let writes = vec![(Key::Inode(files[0]).encode(), Some(b"nonsense".to_vec()))];
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
    assert_eq!(kept(&store), [(3000, files[1]), (4000, files[2])]);
    for (limit, inos) in [(1, &files[1..2]), (2, &files[1..])] {
        let page: Vec<Ino> = store.deleted(None, limit).unwrap().iter().map(|deleted| deleted.attributes.ino).collect();
        assert_eq!(page, inos);
    }
}
