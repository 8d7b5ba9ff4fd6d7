//! The example that shows how small another face can be really runs, on a volume that the engine alone has made.

use std::path::Path;
use std::process::Command;
use weft_engine::nodes::{NewNode, NodeTable, Place};
use weft_engine::{Env, MetaUrl, format};

/// A volume of three folders.
pub fn make_volume(folder: &Path) -> std::path::PathBuf {
    let meta = folder.join("meta.db");
    let url = MetaUrl::from(meta.as_path());
    format(&url, &*weft_codes::parse("rs:2+1").expect("a code"), None, &Env::system()).expect("a volume");
    let nodes = NodeTable::open(&url).expect("the volume");
    for number in 1..=3 {
        let (name, folder) = (number.to_string(), folder.join(format!("node{number}")));
        let place = Place { address: folder.to_str().expect("UTF-8"), key_file: None, mountpoints: &[] };
        nodes.add(&NewNode { name: &name, place, domain: None, weight: None }).expect("a node");
    }
    meta
}

#[test]
fn a_second_face_writes_reads_and_tells_how_safe_everything_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let meta = make_volume(folder.path());
    // Examples are built beside tests.
    let test = std::env::current_exe().expect("the test's program");
    let face = test.parent().and_then(Path::parent).expect("its folder").join("examples/second_face");
    let output = Command::new(&face).arg(&meta).output().expect("it is built with the tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(said, "hello, second face\n3 of 3 nodes answer\nfurther losses of nodes that every file survives: 1\n");
}
