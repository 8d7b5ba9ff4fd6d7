use super::*;
use std::fs;

fn read(text: &str) -> Result<NodesFile> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nodes.json");
    fs::write(&path, text).expect("written");
    NodesFile::read(&path)
}

#[test]
fn a_file_says_what_it_knows_and_the_rest_is_assumed() {
    let file = read(r#"{"client_speed": "10M", "nodes": [{"name": "a", "room": "1T", "speed": "80M", "domain": "home"}, {"name": "b", "room": "2T"}]}"#)
        .expect("read");
    let mut assumed = Assumed::default();
    let nodes = file.to_nodes(&mut assumed).expect("nodes");
    assert_eq!((nodes[0].bytes_per_second, nodes[0].domain.as_str()), (f64::from(80 << 20), "home"));
    assert_eq!((nodes[1].bytes_per_second, nodes[1].domain.as_str()), (10e6, "b"));
    assert_eq!(file.client_bytes_per_second().expect("a rate"), f64::from(10 << 20));
    let notes = assumed.notes().join("\n");
    assert!(notes.contains("assumed a speed of 10 MB/s: b\n") && notes.contains("fail in a year: a, b"), "{notes}");
}

#[test]
fn what_a_file_gets_wrong_is_named() {
    let refused = |text: &str| {
        format!("{:#}", read(text).and_then(|file| file.to_nodes(&mut Assumed::default())).expect_err(text))
    };
    assert!(refused(r#"{"nodes": [{"name": "a", "price": 1}]}"#).contains("unknown field `price`"));
    assert!(
        refused(r#"{"nodes": [{"name": "a", "speed": "fast"}]}"#).contains("speed of node a: `fast` is not a rate")
    );
    assert!(refused(r#"{"nodes": [{"name": "a"}, {"name": "a"}]}"#).contains("two nodes a"));
    assert!(refused(r#"{"nodes": [{"name": "a"}]}"#).contains("\"room\": \"4T\""));
}

#[test]
fn a_file_counts_more_than_what_was_measured() {
    let file = read(r#"{"nodes": [{"name": "a", "latency_ms": 3, "price_per_gib_month": 0.5}]}"#).expect("read");
    let known = |name: &str| weft_engine::NodeFigures {
        name: name.to_owned(),
        latency_ms: Some(1.0),
        bytes_per_second: Some(5e6),
        room_bytes: 7.0,
        ..weft_engine::NodeFigures::default()
    };
    let mut assumed = Assumed::default();
    let (a, b) = (file.completed(known("a"), &mut assumed), file.completed(known("b"), &mut assumed));
    assert_eq!((a.latency_ms, a.price_per_gib_month, a.bytes_per_second, a.room_bytes), (3.0, 0.5, 5e6, 7.0));
    assert_eq!((b.latency_ms, b.price_per_gib_month), (1.0, 0.0));
}
