use super::super::default_weight;
use super::*;
use crate::{format, open_store};
use weft_env::Env;
use weft_format::records::{NodeRecord, NodeState};

#[test]
fn the_note_is_as_it_was() {
    let node = NodeId(0x1011_1213_1415_1617_1819_1a1b_1c1d_1e1f).to_string();
    let text = serde_json::to_string(&Begun { version: VERSION, node }).expect("JSON");
    assert_eq!(text, r#"{"version":1,"node":"101112131415161718191a1b1c1d1e1f"}"#);
}

/// What a maker that is killed after any step leaves.
#[test]
fn a_place_that_was_made_and_not_added_is_gone_on_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let meta = weft_meta::MetaUrl::from(folder.path().join("meta.db"));
    format(&meta, &*weft_codes::parse("rs:4+2").expect("a code"), None, &Env::system()).expect("a volume");
    let store = open_store(&meta, &Env::system()).expect("opened");
    let url = NodeUrl::folder(&folder.path().join("node"));
    let make = |name| create(&store, name, &url, &Secret::default());
    let (id, _) = make("a").expect("made");
    let (again, space) = make("b").expect("gone on with");
    assert_eq!(again, id);
    let record = NodeRecord {
        name: "b".into(),
        url: url.to_string(),
        state: NodeState::Active,
        domain: "b".into(),
        weight: default_weight(space),
        secret: Secret::default(),
        limits: Default::default(),
    };
    store.add_node(id, &record).expect("added");
    // The note is still there, and is not believed while the node is in the table. Nodes have names.
    let error = make("c").expect_err("taken").to_string();
    assert!(error.contains("is node b of this volume already") && !error.contains(&id.to_string()), "{error}");
    // It is when the node has left: it may come back.
    let leaving = NodeRecord { state: NodeState::Draining, ..record.clone() };
    store.update_node(id, &record, &leaving).expect("changed");
    assert!(store.remove_node(id, true).expect("removed"));
    assert_eq!(make("c").expect("taken again").0, id);
    // A note whose place was never made, or was cleared away.
    let elsewhere = NodeUrl::folder(&folder.path().join("third"));
    let (id, _) = create(&store, "e", &elsewhere, &Secret::default()).expect("made");
    std::fs::remove_dir_all(folder.path().join("third")).expect("removed");
    assert_eq!(create(&store, "e", &elsewhere, &Secret::default()).expect("made").0, id);
}
