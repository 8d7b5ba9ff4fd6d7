use super::super::fixture::*;
use super::*;
use crate::kv::{Batch, Kv};
use crate::types::{RenameFlags, SetAttributes};
use weft_format::records::PolicyRecord;

fn names_of(entries: &[Entry]) -> Vec<&str> {
    entries.iter().map(|entry| std::str::from_utf8(&entry.name).unwrap()).collect()
}

#[test]
fn a_new_inode_has_what_was_asked_and_what_it_inherits() {
    let (store, _) = volume();
    let file = store.create(Ino::ROOT, b"file", &new_inode(Kind::File), at(5)).unwrap();
    assert_eq!((file.kind, file.mode, file.uid, file.gid, file.nlink), (Kind::File, 0o644, 1000, 100, 1));
    assert_eq!([file.atime, file.mtime, file.ctime, file.btime], [at(5); 4]);
    assert_eq!((file.size, file.allocated_bytes, file.parent), (0, 0, Ino::ROOT));
    assert_eq!(store.lookup(Ino::ROOT, b"file").unwrap(), file);
    let root = store.attributes(Ino::ROOT).unwrap();
    assert_eq!((root.mtime, root.ctime, root.atime, root.nlink), (at(5), at(5), at(1), 2));

    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    assert_eq!(store.attributes(Ino::ROOT).unwrap().nlink, 3);
    let change = SetAttributes { mode: Some(0o2755), gid: Some(77), ..SetAttributes::default() };
    store.set_attributes(directory, &change).unwrap();
    let policy = store.set_policy(directory, &PolicyRecord { write_margin: None, ..default_policy() }, at(6)).unwrap();
    let inner = store.create(directory, b"inner", &new_inode(Kind::Directory), at(7)).unwrap();
    assert_eq!((inner.gid, inner.mode, inner.policy), (77, 0o2644, policy));
    let inner = store.create(directory, b"file", &new_inode(Kind::File), at(7)).unwrap();
    assert_eq!((inner.gid, inner.mode, inner.policy), (77, 0o644, policy));
    let device = NewInode { rdev: 259, ..new_inode(Kind::BlockDevice) };
    assert_eq!(store.create(directory, b"device", &device, at(7)).unwrap().rdev, 259);
    assert_clean(&store);
}

#[test]
fn names_that_are_not_allowed() {
    let (store, _) = volume();
    let create = |name: &[u8]| store.create(Ino::ROOT, name, &new_inode(Kind::File), at(1)).map_err(|e| kind_of(&e));
    create(b"x").unwrap();
    for name in [&b""[..], b".", b"..", b"a/b", b"a\0b"] {
        assert_eq!(create(name).unwrap_err(), "InvalidName");
        let flags = RenameFlags::default();
        let renamed = store.rename(Ino::ROOT, b"x", Ino::ROOT, name, flags, at(1));
        assert_eq!(kind_of(&renamed.unwrap_err()), "InvalidName");
    }
    assert_eq!(create(&[b'x'; 256]).unwrap_err(), "NameTooLong");
    create(&[b'x'; 255]).unwrap();
    create(b"\xff\xfe \n").unwrap();
    assert_eq!(create(b"\xff\xfe \n").unwrap_err(), "Exists");
    assert_clean(&store);
}

#[test]
fn what_is_no_directory_has_no_names() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let missing = Ino(12345);
    for (parent, expected) in [(file, "NotDirectory"), (missing, "NotFound")] {
        let errors = [
            store.lookup(parent, b"x").map(drop),
            store.create(parent, b"x", &new_inode(Kind::File), at(1)).map(drop),
            store.link(file, parent, b"x", at(1)).map(drop),
            store.unlink(parent, b"x", at(1)).map(drop),
            store.rmdir(parent, b"x", at(1)).map(drop),
            store.rename(parent, b"x", Ino::ROOT, b"y", RenameFlags::default(), at(1)).map(drop),
            store.read_directory(parent, 0, 10).map(drop),
        ];
        assert_eq!(errors.map(|error| kind_of(&error.unwrap_err())), [expected; 7]);
    }
}

#[test]
fn a_removed_directory_takes_no_names_and_is_reclaimed() {
    let (store, _) = volume();
    let gone = make(&store, Ino::ROOT, "gone", Kind::Directory);
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let outcome = store.rmdir(Ino::ROOT, b"gone", at(9)).unwrap();
    assert_eq!((outcome.attributes.ino, outcome.attributes.nlink, outcome.attributes.ctime), (gone, 0, at(9)));
    assert_eq!(store.attributes(Ino::ROOT).unwrap().nlink, 2);
    let errors = [
        store.create(gone, b"x", &new_inode(Kind::File), at(1)).map(drop),
        store.link(file, gone, b"x", at(1)).map(drop),
        store.rename(Ino::ROOT, b"file", gone, b"x", RenameFlags::default(), at(1)).map(drop),
    ];
    assert_eq!(errors.map(|error| kind_of(&error.unwrap_err())), ["NotFound"; 3]);
    assert_eq!(store.read_directory(gone, 0, 10).unwrap().entries, []);
    assert_eq!(store.path_of(gone).unwrap(), None);
    assert_clean(&store);
    assert_eq!(store.reclaim(&[unused(gone)], at(10)).unwrap(), 1);
    assert_eq!(kind_of(&store.attributes(gone).unwrap_err()), "NotFound");
    assert_clean(&store);
}

#[test]
fn hard_links_count() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "one", Kind::File);
    assert_eq!(store.link(file, Ino::ROOT, b"two", at(5)).unwrap().nlink, 2);
    assert_eq!(kind_of(&store.link(file, Ino::ROOT, b"two", at(5)).unwrap_err()), "Exists");
    assert_eq!(kind_of(&store.link(Ino::ROOT, Ino::ROOT, b"loop", at(5)).unwrap_err()), "IsDirectory");
    assert_eq!(store.unlink(Ino::ROOT, b"one", at(6)).unwrap().attributes.nlink, 1);
    assert_eq!(store.orphans(10).unwrap(), []);
    assert_eq!(store.unlink(Ino::ROOT, b"two", at(7)).unwrap().attributes.nlink, 0);
    assert_eq!(store.orphans(10).unwrap(), [file]);
    assert_eq!(kind_of(&store.link(file, Ino::ROOT, b"back", at(8)).unwrap_err()), "NotFound");
    assert_clean(&store);
}

#[test]
fn symbolic_links() {
    let (store, _) = volume();
    let link = |target: &[u8]| NewInode { symlink_target: target.to_vec(), ..new_inode(Kind::Symlink) };
    let made = store.create(Ino::ROOT, b"link", &link(b"../x"), at(1)).unwrap();
    assert_eq!((made.size, store.readlink(made.ino).unwrap()), (4, b"../x".to_vec()));
    assert_eq!(kind_of(&store.readlink(Ino::ROOT).unwrap_err()), "Invalid");
    assert_eq!(kind_of(&store.readlink(Ino(99)).unwrap_err()), "NotFound");
    for target in [vec![], vec![b'x'; 4096]] {
        let refused = store.create(Ino::ROOT, b"bad", &link(&target), at(1)).unwrap_err();
        assert_eq!(kind_of(&refused), "Invalid");
    }
    store.create(Ino::ROOT, b"long", &link(&[b'x'; 4095]), at(1)).unwrap();
    assert_clean(&store);
}

#[test]
fn a_listing_goes_on_whatever_changes() {
    let (store, _) = volume();
    for i in 0..10 {
        make(&store, Ino::ROOT, &format!("{i}"), Kind::File);
    }
    let first = store.read_directory(Ino::ROOT, 0, 4).unwrap().entries;
    assert_eq!(names_of(&first), ["0", "1", "2", "3"]);
    assert!(first[0].cookie >= 16);
    // Removed: the last one listed, one listed, one to come. Renamed: one listed, one to come. Replaced: one to come.
    for name in ["3", "1", "5"] {
        store.unlink(Ino::ROOT, name.as_bytes(), at(1)).unwrap();
    }
    let rename = |from: &str, to: &str| {
        store.rename(Ino::ROOT, from.as_bytes(), Ino::ROOT, to.as_bytes(), RenameFlags::default(), at(1)).unwrap()
    };
    rename("0", "zero");
    rename("6", "six");
    rename("9", "8");
    make(&store, Ino::ROOT, "new", Kind::File);
    let rest = store.read_directory(Ino::ROOT, first[3].cookie, 100).unwrap().entries;
    assert_eq!(names_of(&rest), ["4", "six", "7", "8", "new"]);
    assert_eq!(store.read_directory(Ino::ROOT, rest[4].cookie, 100).unwrap().entries, []);
    assert_eq!(store.read_directory(Ino::ROOT, u64::MAX, 100).unwrap().entries, []);
    assert_clean(&store);
}

#[test]
fn paths() {
    let (store, _) = volume();
    let a = make(&store, Ino::ROOT, "a", Kind::Directory);
    let b = make(&store, a, "b", Kind::Directory);
    let file = make(&store, b, "file", Kind::File);
    let path = |ino| store.path_of(ino).unwrap().map(|path| String::from_utf8(path).unwrap());
    assert_eq!(path(Ino::ROOT).unwrap(), "/");
    assert_eq!(path(file).unwrap(), "/a/b/file");
    // Where the first name is gone the others are looked for everywhere.
    store.link(file, Ino::ROOT, b"other", at(1)).unwrap();
    store.unlink(b, b"file", at(1)).unwrap();
    assert_eq!(path(file).unwrap(), "/other");
    store.rename(Ino::ROOT, b"other", a, b"moved", RenameFlags::default(), at(1)).unwrap();
    assert_eq!(path(file).unwrap(), "/a/moved");
    store.unlink(a, b"moved", at(1)).unwrap();
    assert_eq!(path(file), None);
    assert_eq!(path(Ino(4711)), None);
}

/// Puts records as a hostile volume may have them.
fn forge(kv: &StrictKv, records: Vec<(Key<'_>, Vec<u8>)>) {
    let writes = records.into_iter().map(|(key, value)| (key.encode(), Some(value))).collect();
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
}

#[test]
fn finding_12_names_that_lead_elsewhere_are_damage() {
    for name in [&b""[..], b".", b"..", b"../../etc/passwd", b"/etc/passwd", b"a\0b", &[b'x'; 256]] {
        let (store, kv) = volume();
        let file = make(&store, Ino::ROOT, "file", Kind::File);
        store.set_keep_ms(1000).unwrap();
        let dirent = Dirent { ino: file, kind: Kind::File, cookie: 99 };
        forge(
            &kv,
            vec![
                (Key::Dirent(Ino::ROOT, name), dirent.encode()),
                (Key::Entry(Ino::ROOT, 99), values::entry(file, name)),
                (Key::UnreferencedFile(5, file), values::entry(Ino::ROOT, name)),
            ],
        );
        let shown = name.escape_ascii();
        assert_eq!(kind_of(&store.read_directory(Ino::ROOT, 0, 100).unwrap_err()), "Damaged", "{shown}");
        assert_eq!(kind_of(&store.deleted(None, 100).unwrap_err()), "Damaged", "{shown}");
        assert_eq!(kind_of(&store.restore(5, file, at(9)).unwrap_err()), "Damaged", "{shown}");
        assert!(!crate::fsck::check(&store, &mut |_| {}).unwrap().is_clean());
    }
}

#[test]
fn finding_12_a_directory_within_itself_is_damage() {
    let (store, kv) = volume();
    let outer = make(&store, Ino::ROOT, "outer", Kind::Directory);
    let inner = make(&store, outer, "inner", Kind::Directory);
    let lead = |parent, ino, cookie| {
        let dirent = Dirent { ino, kind: Kind::Directory, cookie };
        forge(
            &kv,
            vec![
                (Key::Dirent(parent, b"again"), dirent.encode()),
                (Key::Entry(parent, cookie), values::entry(ino, b"again")),
            ],
        );
    };
    lead(inner, outer, 98);
    lead(Ino::ROOT, Ino::ROOT, 99);
    for directory in [inner, Ino::ROOT] {
        assert_eq!(kind_of(&store.lookup(directory, b"again").unwrap_err()), "Damaged");
        assert_eq!(kind_of(&store.read_directory(directory, 0, 100).unwrap_err()), "Damaged");
    }
    // And where the parents say the same.
    let mut attributes = store.attributes(outer).unwrap();
    attributes.parent = inner;
    forge(&kv, vec![(Key::Inode(outer), attributes.encode().to_vec())]);
    assert_eq!(kind_of(&store.path_of(inner).unwrap_err()), "Damaged");
    assert_eq!(kind_of(&store.lookup(Ino::ROOT, b"outer").unwrap_err()), "Damaged");
}
