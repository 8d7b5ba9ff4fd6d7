//! The model allows what is promised and nothing else.

use super::{Attributes, Change, Contents, Found, Kind, Loss, Model};

/// Each name is that of a file of its own.
fn found(files: &[(&str, &[u8])]) -> Contents {
    let file = |(ino, (name, bytes)): (u64, &(&str, &[u8]))| ((*name).to_owned(), file(ino, bytes));
    (0..).zip(files).map(file).collect()
}

fn file(ino: u64, bytes: &[u8]) -> Found {
    Found { ino, kind: Kind::File, attributes: Attributes::new(Kind::File), links: 1, bytes: bytes.to_vec() }
}

fn model() -> Model {
    let mut model = Model::default();
    model.create("a");
    model.write("a", Change::Write(0, b"one".to_vec()));
    model
}

#[test]
fn what_was_synced_must_be_there() {
    let mut synced = model();
    synced.synced_all();
    synced.write("a", Change::Write(0, vec![b'O']));
    for bytes in [b"one", b"One"] {
        let mut copy = model();
        copy.synced_all();
        copy.write("a", Change::Write(0, vec![b'O']));
        assert_eq!(copy.recover(&found(&[("a", bytes)]), Loss::Crash), Ok(()));
        assert_eq!(copy.bytes("a"), Some(&bytes[..]), "it is the state from now on");
    }
    assert!(synced.recover(&found(&[]), Loss::Crash).is_err(), "the name is gone");
    assert!(synced.recover(&found(&[("a", b"on")]), Loss::Crash).is_err(), "it is short");
    assert!(synced.recover(&found(&[("a", b"onf")]), Loss::Crash).is_err(), "it is another byte");
}

#[test]
fn what_was_refused_is_as_it_was() {
    let mut model = model();
    model.write("a", Change::Size(9));
    model.take_back_write("a");
    assert_eq!((model.bytes("a"), model.version("a")), (Some(&b"one"[..]), 1));
    assert_eq!(model.check_now(&found(&[("a", b"one")])), Ok(()));
    assert!(model.check_now(&found(&[("a", b"one\0\0\0\0\0\0")])).is_err());
}

#[test]
fn what_was_not_synced_may_be_gone_in_order_only() {
    for (files, is_allowed) in
        [(&[][..], true), (&[("a", &b""[..])], true), (&[("a", b"one"), ("b", b"")], true), (&[("b", b"")], false)]
    {
        let mut model = model();
        model.create("b");
        assert_eq!(model.recover(&found(files), Loss::Crash).is_ok(), is_allowed, "{files:?}");
    }
}

#[test]
fn what_replaces_a_file_has_its_bytes() {
    for (bytes, is_allowed) in [(&b"old"[..], true), (b"one", true), (b"", false)] {
        let mut model = Model::default();
        model.create("b");
        model.write("b", Change::Write(0, b"old".to_vec()));
        model.synced_all();
        model.create("a");
        model.write("a", Change::Write(0, b"one".to_vec()));
        model.rename("a", "b");
        let with_a = found(&[("a", b""), ("b", bytes)]);
        let without = found(&[("b", bytes)]);
        let is_old = bytes == b"old";
        assert_eq!(
            model.recover(if is_old { &with_a } else { &without }, Loss::Crash).is_ok(),
            is_allowed,
            "{bytes:?}"
        );
    }
}

#[test]
fn two_names_of_one_file_are_that_of_one() {
    for (is_one, is_linked) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut model = model();
        if is_linked {
            model.link("a", "b");
        } else {
            model.create("b");
            model.write("b", Change::Write(0, b"one".to_vec()));
        }
        model.synced_all();
        let mut found = found(&[("a", b"one"), ("b", b"one")]);
        if is_one {
            found.get_mut("b").expect("it is there").ino = found["a"].ino;
            found.values_mut().for_each(|found| found.links = 2);
        }
        assert_eq!(model.check_now(&found).is_ok(), is_one == is_linked);
        assert_eq!(model.recover(&found, Loss::Crash).is_ok(), is_one == is_linked);
    }
}

/// A name that was unlinked and linked to another file before the crash: which of both is there only the file's number says, if both
/// hold the same.
#[test]
fn a_crash_leaves_the_links_of_one_moment() {
    let mut model = model();
    model.create("b");
    model.write("b", Change::Write(0, b"one".to_vec()));
    model.synced_all();
    model.unlink("b");
    model.link("a", "b");
    model.recover(&found(&[("a", b"one"), ("b", b"one")]), Loss::Crash).expect("neither was done");
    model.write("a", Change::Write(0, b"two".to_vec()));
    assert_eq!(model.bytes("b"), Some(&b"one"[..]));
}

/// A byte beyond a former end reads as zero in the version that was short, also after the file has grown again.
#[test]
fn what_was_cut_off_may_be_zero() {
    for (bytes, is_allowed) in [(&b"one"[..], true), (b"o\0\0", true), (b"ox\0", false), (b"o", true), (b"", false)] {
        let mut model = model();
        model.synced_all();
        model.write("a", Change::Size(1));
        model.write("a", Change::Size(3));
        assert_eq!(model.recover(&found(&[("a", bytes)]), Loss::Crash).is_ok(), is_allowed, "{bytes:?}");
    }
}

/// Nodes had the first write and its name. The second was durable on the disk only, and so were the second name and what a crash left of it.
#[test]
fn what_nodes_are_known_to_have_survives_the_metadatas_disk() {
    for (loss, files, is_allowed) in [
        (Loss::Crash, &[("a", b"two"), ("b", b"new")][..], true),
        (Loss::Crash, &[("a", b"two")], false),
        (Loss::Crash, &[("a", b"one"), ("b", b"new")], false),
        (Loss::MetadataDisk, &[("a", b"two"), ("b", b"new")], true),
        (Loss::MetadataDisk, &[("a", b"two")], true),
        (Loss::MetadataDisk, &[("a", b"one")], true),
        (Loss::MetadataDisk, &[("a", b"tne")], true),
        (Loss::MetadataDisk, &[("a", b"onf")], false),
        (Loss::MetadataDisk, &[], false),
    ] {
        let mut model = Model::default();
        model.let_nodes_be_behind();
        model.create("a");
        model.write("a", Change::Write(0, b"one".to_vec()));
        model.made();
        model.synced_bytes("a", 1);
        model.synced_names(1);
        let durable = model.durable();
        model.on_nodes_is(&durable);
        model.write("a", Change::Write(0, b"two".to_vec()));
        model.synced_bytes("a", 2);
        model.create("b");
        model.made();
        model.synced_names(2);
        model.recover(&found(&[("a", b"two"), ("b", b"new")]), Loss::Crash).expect_err("b holds nothing");
        model.write("b", Change::Write(0, b"new".to_vec()));
        model.synced_bytes("b", 1);
        model.recover(&found(&[("a", b"two"), ("b", b"new")]), Loss::Crash).expect("all of it");
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (*name, &bytes[..])).collect();
        assert_eq!(model.recover(&found(&files), loss).is_ok(), is_allowed, "{loss:?} {files:?}");
    }
}

#[test]
fn a_hole_that_nobody_made_is_none_of_what_a_file_held() {
    for (bytes, is_allowed) in [(&b"one"[..], true), (b"onemo", true), (b"onemore", true), (b"one\0\0re", false)] {
        let mut model = model();
        model.synced_all();
        model.write("a", Change::Write(3, b"more".to_vec()));
        assert_eq!(model.recover(&found(&[("a", bytes)]), Loss::Crash).is_ok(), is_allowed, "{bytes:?}");
    }
}

fn directory(ino: u64, links: u64) -> Found {
    Found { ino, kind: Kind::Directory, attributes: Attributes::new(Kind::Directory), links, bytes: Vec::new() }
}

/// A directory takes along what is in it, at once.
#[test]
fn a_directory_and_what_is_in_it_move_together() {
    let [before, after, half] = [["t", "t/u", "t/u/a"], ["v", "v/u", "v/u/a"], ["v", "v/u", "t/u/a"]];
    for (names, is_allowed) in [(before, true), (after, true), (half, false)] {
        let mut model = Model::default();
        model.make_directory("t");
        model.make_directory("t/u");
        model.create("t/u/a");
        model.synced_all();
        model.rename("t", "v");
        let [top, below, a] = names.map(str::to_owned);
        let found = Contents::from([(top, directory(1, 3)), (below, directory(2, 2)), (a, file(3, b""))]);
        assert_eq!(model.check_now(&found).is_ok(), names == after, "{names:?}");
        assert_eq!(model.recover(&found, Loss::Crash).is_ok(), is_allowed, "{names:?}");
    }
}

#[test]
fn directories_swap_with_what_is_in_them() {
    let mut model = Model::default();
    model.make_directory("t");
    model.create("t/a");
    model.create("u");
    model.exchange("t", "u");
    let found = Contents::from([
        ("t".to_owned(), file(1, b"")),
        ("u".to_owned(), directory(2, 2)),
        ("u/a".to_owned(), file(3, b"")),
    ]);
    assert_eq!(model.check_now(&found), Ok(()));
    assert!(!model.is_empty_directory("u") && !model.is_empty_directory("t"));
    model.unlink("u/a");
    assert!(model.is_empty_directory("u"));
}

/// Attributes are those of a moment of names: a later name is not there with earlier attributes.
#[test]
fn attributes_change_in_the_order_of_names() {
    let old = Attributes { mode: 0o644, note: None };
    let new = Attributes { mode: 0o600, note: Some(vec![7]) };
    for (attributes, has_later, is_allowed) in
        [(&old, false, true), (&new, false, true), (&new, true, true), (&old, true, false)]
    {
        let attributes = attributes.clone();
        let mut model = model();
        model.synced_all();
        model.set_attributes("a", |attributes| attributes.mode = 0o600);
        model.set_attributes("a", |attributes| attributes.note = Some(vec![7]));
        model.make_symlink("later", "a");
        let mut found = Contents::from([("a".to_owned(), Found { attributes, ..file(1, b"one") })]);
        if has_later {
            let attributes = Attributes::new(Kind::Symlink);
            found.insert("later".to_owned(), Found { kind: Kind::Symlink, attributes, ..file(2, b"a") });
        }
        assert_eq!(model.recover(&found, Loss::Crash).is_ok(), is_allowed, "{found:?}");
    }
}
