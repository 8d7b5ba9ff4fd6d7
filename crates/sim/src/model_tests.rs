//! The model allows what is promised and nothing else.

use super::Model;
use std::collections::BTreeMap;

fn found(files: &[(&str, &[u8])]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()
}

fn model() -> Model {
    let mut model = Model::default();
    model.create("a");
    model.write("a", |bytes| bytes.extend(b"one"));
    model
}

#[test]
fn what_was_synced_must_be_there() {
    let mut synced = model();
    synced.synced_all();
    synced.write("a", |bytes| bytes[0] = b'O');
    for bytes in [b"one", b"One"] {
        let mut copy = model();
        copy.synced_all();
        copy.write("a", |bytes| bytes[0] = b'O');
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
        model.write("b", |held| held.extend(b"old"));
        model.synced_all();
        model.create("a");
        model.write("a", |held| held.extend(b"one"));
        model.rename("a", "b");
        let with_a = found(&[("a", b""), ("b", bytes)]);
        let without = found(&[("b", bytes)]);
        let is_old = bytes == b"old";
        assert_eq!(model.recover(if is_old { &with_a } else { &without }).is_ok(), is_allowed, "{bytes:?}");
    }
}
