//! Every kind of source upon every kind of target, with every flag, within one directory and across two. The random
//! sequences against the model of a tree are in `store_tests.rs`.

use super::super::fixture::*;
use super::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Thing {
    Nothing,
    File,
    Symlink,
    Empty,
    Full,
    /// The other name of the other thing.
    SameInode,
}

use Thing::*;

impl Thing {
    fn is_directory(self) -> bool {
        matches!(self, Empty | Full)
    }
}

const ROOT: Owner = Owner { uid: 0, gid: 0 };

const FLAGS: [RenameFlags; 5] = [
    RenameFlags { no_replace: false, exchange: false, whiteout: None },
    RenameFlags { no_replace: true, exchange: false, whiteout: None },
    RenameFlags { no_replace: false, exchange: true, whiteout: None },
    RenameFlags { no_replace: false, exchange: false, whiteout: Some(ROOT) },
    RenameFlags { no_replace: true, exchange: false, whiteout: Some(ROOT) },
];

fn place(store: &Store, parent: Ino, name: &str, thing: Thing) -> Option<Ino> {
    let kind = match thing {
        Nothing | SameInode => return None,
        File => Kind::File,
        Symlink => Kind::Symlink,
        Empty | Full => Kind::Directory,
    };
    let ino = make(store, parent, name, kind);
    if thing == Full {
        make(store, ino, "child", Kind::File);
    }
    Some(ino)
}

fn expected(source: Thing, target: Thing, flags: RenameFlags) -> Result<(), &'static str> {
    match (source, target) {
        (Nothing, _) => Err("NotFound"),
        (_, Nothing) if flags.exchange => Err("NotFound"),
        (_, Nothing) => Ok(()),
        _ if flags.no_replace => Err("Exists"),
        (_, SameInode) => Ok(()),
        _ if flags.exchange => Ok(()),
        (source, target) if source.is_directory() && !target.is_directory() => Err("NotDirectory"),
        (source, target) if !source.is_directory() && target.is_directory() => Err("IsDirectory"),
        (_, Full) => Err("NotEmpty"),
        _ => Ok(()),
    }
}

fn subdirectories(store: &Store, ino: Ino) -> u32 {
    let entries = store.read_directory(ino, 0, 100).unwrap().entries;
    entries.iter().filter(|entry| entry.attributes.kind == Kind::Directory).count() as u32
}

fn try_case(source: Thing, target: Thing, flags: RenameFlags, across: bool) {
    let (store, _) = volume();
    let left = make(&store, Ino::ROOT, "left", Kind::Directory);
    let right = if across { make(&store, Ino::ROOT, "right", Kind::Directory) } else { left };
    let from = place(&store, left, "from", source);
    let mut to = place(&store, right, "to", target);
    if let (SameInode, Some(from)) = (target, from) {
        if source.is_directory() {
            return;
        }
        store.link(from, right, b"to", at(2)).unwrap();
        to = Some(from);
    }
    let inodes_before = store.statistics().unwrap().inodes;
    let context = format!("{source:?} to {target:?}, {flags:?}, across {across}");
    let got = store.rename(left, b"from", right, b"to", flags, at(9));
    let outcome = got.as_ref().map(drop).map_err(kind_of);
    assert_eq!(outcome, expected(source, target, flags).map_err(str::to_string), "{context}");
    let find = |parent, name: &[u8]| store.lookup(parent, name).ok().map(|attributes| attributes.ino);
    let after = (find(left, b"from"), find(right, b"to"));
    for directory in [left, right] {
        let attributes = store.attributes(directory).unwrap();
        assert_eq!(attributes.nlink, 2 + subdirectories(&store, directory), "{context}");
        let changed = got.is_ok() && target != SameInode;
        assert_eq!(attributes.mtime == at(9) && attributes.ctime == at(9), changed, "{context}");
    }
    match got {
        Err(_) => assert_eq!(after, (from, to), "{context}"),
        Ok(outcome) if target == SameInode => {
            assert_eq!((after, outcome.replaced), ((from, to), None), "{context}");
        }
        Ok(outcome) => {
            assert_eq!(Some(outcome.moved), from, "{context}");
            assert_eq!(after.1, from, "{context}");
            let moved = store.attributes(outcome.moved).unwrap();
            assert_eq!((moved.parent, moved.ctime), (right, at(9)), "{context}");
            if flags.exchange {
                assert_eq!((after.0, outcome.replaced), (to, None), "{context}");
                let other = store.attributes(to.unwrap()).unwrap();
                assert_eq!((other.parent, other.ctime), (left, at(9)), "{context}");
            } else {
                let replaced = outcome.replaced.map(|replaced| replaced.attributes);
                let replaced = replaced.map(|attributes| (attributes.ino, attributes.nlink, attributes.ctime));
                assert_eq!(replaced, to.map(|to| (to, 0, at(9))), "{context}");
                assert_eq!(store.orphans(10).unwrap(), to.into_iter().collect::<Vec<_>>(), "{context}");
            }
            if flags.whiteout.is_some() {
                let whiteout = store.lookup(left, b"from").unwrap();
                assert_eq!((whiteout.kind, whiteout.rdev, whiteout.mode), (Kind::CharDevice, 0, 0), "{context}");
                assert_eq!(store.statistics().unwrap().inodes, inodes_before + 1, "{context}");
            } else if !flags.exchange {
                assert_eq!(after.0, None, "{context}");
            }
        }
    }
    assert_clean(&store);
}

#[test]
fn every_source_upon_every_target() {
    for source in [Nothing, File, Symlink, Empty, Full] {
        for target in [Nothing, File, Symlink, Empty, Full, SameInode] {
            for flags in FLAGS {
                for across in [false, true] {
                    try_case(source, target, flags, across);
                }
            }
        }
    }
}

#[test]
fn an_old_name_that_is_missing_is_told_before_a_new_one_that_is_too_long() {
    let (store, _) = volume();
    make(&store, Ino::ROOT, "there", Kind::File);
    let rename = |name: &[u8], new_name: &[u8]| {
        let outcome = store.rename(Ino::ROOT, name, Ino::ROOT, new_name, RenameFlags::default(), at(1));
        kind_of(&outcome.unwrap_err())
    };
    let too_long = [b'n'; 256];
    assert_eq!(rename(b"missing", &too_long), "NotFound");
    assert_eq!(rename(b"there", &too_long), "NameTooLong");
    assert_eq!(rename(&too_long, &too_long), "NameTooLong");
    assert_clean(&store);
}

#[test]
fn flags_that_contradict_each_other() {
    let (store, _) = volume();
    make(&store, Ino::ROOT, "a", Kind::File);
    make(&store, Ino::ROOT, "b", Kind::File);
    for (no_replace, whiteout) in [(true, None), (false, Some(ROOT)), (true, Some(ROOT))] {
        let flags = RenameFlags { exchange: true, no_replace, whiteout };
        let refused = store.rename(Ino::ROOT, b"a", Ino::ROOT, b"b", flags, at(1)).unwrap_err();
        assert_eq!(kind_of(&refused), "Invalid");
    }
}

#[test]
fn a_directory_does_not_move_into_itself() {
    let (store, _) = volume();
    let a = make(&store, Ino::ROOT, "a", Kind::Directory);
    let b = make(&store, a, "b", Kind::Directory);
    let c = make(&store, b, "c", Kind::Directory);
    let file = make(&store, c, "file", Kind::File);
    let plain = RenameFlags::default();
    let exchange = RenameFlags { exchange: true, ..plain };
    let error = |got: Result<RenameOutcome, MetaError>| kind_of(&got.unwrap_err());
    for place in [a, b, c] {
        assert_eq!(error(store.rename(Ino::ROOT, b"a", place, b"x", plain, at(1))), "Invalid");
    }
    assert_eq!(error(store.rename(Ino::ROOT, b"a", c, b"file", exchange, at(1))), "Invalid");
    // And the other way round: what is above comes down.
    assert_eq!(error(store.rename(c, b"file", Ino::ROOT, b"a", exchange, at(1))), "Invalid");
    assert_eq!(error(store.rename(b, b"c", Ino::ROOT, b"a", exchange, at(1))), "Invalid");
    assert_eq!(error(store.rename(b, b"c", Ino::ROOT, b"a", plain, at(1))), "NotEmpty");
    store.rename(b, b"c", Ino::ROOT, b"c", plain, at(1)).unwrap();
    store.rename(Ino::ROOT, b"a", c, b"a", plain, at(1)).unwrap();
    assert_eq!(store.path_of(b).unwrap().unwrap(), b"/c/a/b");
    assert_eq!(store.path_of(file).unwrap().unwrap(), b"/c/file");
    assert_clean(&store);
}

#[test]
fn a_replaced_hard_link_keeps_its_inode() {
    let (store, _) = volume();
    let kept = make(&store, Ino::ROOT, "kept", Kind::File);
    store.link(kept, Ino::ROOT, b"target", at(2)).unwrap();
    make(&store, Ino::ROOT, "new", Kind::File);
    let outcome = store.rename(Ino::ROOT, b"new", Ino::ROOT, b"target", RenameFlags::default(), at(3)).unwrap();
    assert_eq!(outcome.replaced.map(|replaced| (replaced.attributes.ino, replaced.attributes.nlink)), Some((kept, 1)));
    assert_eq!(store.orphans(10).unwrap(), []);
    assert_clean(&store);
}
