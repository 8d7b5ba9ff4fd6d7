//! The model allows what is promised and nothing else.

use super::{Change, Model};
use std::collections::BTreeMap;

fn found(files: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()
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
        assert_eq!(copy.recover(&found(&[("a", bytes)])), Ok(()));
        assert_eq!(copy.bytes("a"), Some(&bytes[..]), "it is the state from now on");
    }
    assert!(synced.recover(&found(&[])).is_err(), "the name is gone");
    assert!(synced.recover(&found(&[("a", b"on")])).is_err(), "it is short");
    assert!(synced.recover(&found(&[("a", b"onf")])).is_err(), "it is another byte");
}

#[test]
fn what_was_not_synced_may_be_gone_in_order_only() {
    for (files, is_allowed) in
        [(&[][..], true), (&[("a", &b""[..])], true), (&[("a", b"one"), ("b", b"")], true), (&[("b", b"")], false)]
    {
        let mut model = model();
        model.create("b");
        assert_eq!(model.recover(&found(files)).is_ok(), is_allowed, "{files:?}");
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
        assert_eq!(model.recover(if is_old { &with_a } else { &without }).is_ok(), is_allowed, "{bytes:?}");
    }
}

#[test]
fn two_names_of_one_file_show_the_same() {
    for (second, is_allowed) in [(&b"one"[..], true), (b"", false)] {
        let mut model = model();
        model.link("a", "b");
        assert_eq!(model.recover(&found(&[("a", b"one"), ("b", second)])).is_ok(), is_allowed, "{second:?}");
    }
}

/// A byte beyond a former end reads as zero in the version that was short, also after the file has grown again.
#[test]
fn what_was_cut_off_may_be_zero() {
    for (bytes, is_allowed) in [(&b"one"[..], true), (b"o\0\0", true), (b"ox\0", false), (b"o", true), (b"", false)] {
        let mut model = model();
        model.synced_all();
        model.write("a", Change::Size(1));
        model.write("a", Change::Size(3));
        assert_eq!(model.recover(&found(&[("a", bytes)])).is_ok(), is_allowed, "{bytes:?}");
    }
}
