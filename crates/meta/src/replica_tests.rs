use super::*;
use weft_format::{Ino, NodeId};

#[test]
fn what_an_idle_volume_renews_is_no_reason() {
    assert!(is_passing(&Key::Lease(b"care").encode()) && is_passing(&Key::Job(b"care").encode()));
    assert!(
        !is_passing(&Key::Inode(Ino(7)).encode()) && !is_passing(&Key::Node(NodeId(7)).encode()) && !is_passing(b"")
    );
}

#[test]
fn the_keys_of_nodes_stay() {
    let secret = Secret(b"nobody knows".to_vec());
    let record = NodeRecord { secret, ..NodeRecord::of("lab", "weft://lab:9700") };
    let key = Key::Node(NodeId(7)).encode();
    let (same_key, public) = without_secrets((key.clone(), Some(record.encode())));
    assert_eq!(same_key, key);
    let found = NodeRecord::decode(&public.expect("a record")).expect("it is one");
    assert_eq!(found, NodeRecord { secret: Secret::default(), ..record });
    assert_eq!(without_secrets((key.clone(), Some(b"damaged".to_vec()))), (key.clone(), Some(Vec::new())));
    assert_eq!(without_secrets((key.clone(), None)), (key, None));
    let inode = (Key::Inode(Ino(7)).encode(), Some(b"as it is".to_vec()));
    assert_eq!(without_secrets(inode.clone()), inode);
}
