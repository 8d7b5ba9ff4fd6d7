//! What befalls devices: image files, and a loop device where the machine has them.

use super::*;
use crate::conformance::{self, key, shard};
use crate::error::NodeErrorKind;
use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use weft_format::{NodeId, VolumeId};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const SIBLING: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(3) };
const STRANGER: NodeIdentity = NodeIdentity { volume: VolumeId(9), node: NodeId(2) };

fn image(bytes: u64) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("image");
    File::create(&path).unwrap().set_len(bytes).unwrap();
    (folder, path)
}

fn node(bytes: u64) -> (TempDir, PathBuf, BlockNode) {
    let (folder, path) = image(bytes);
    let node = BlockNode::create(&path, "disk", IDENTITY).unwrap();
    (folder, path, node)
}

fn refusal<T>(result: Result<T, NodeError>) -> (NodeErrorKind, String) {
    let error = result.err().expect("refused");
    (error.kind, error.detail)
}

#[tokio::test]
async fn conforms_on_an_image_file() {
    // The folders must outlive the nodes.
    let folders = parking_lot::Mutex::new(Vec::new());
    conformance::check_all(|| async {
        let (folder, _, node) = node(16 << 20);
        folders.lock().push(folder);
        Arc::new(node) as Arc<dyn Node>
    })
    .await;
}

/// Needs root and a free loop device.
#[tokio::test]
async fn conforms_on_a_loop_device() {
    let (_folder, path) = image(16 << 20);
    let attached = Command::new("losetup").args(["--find", "--show"]).arg(&path).output().expect("losetup runs");
    assert!(
        attached.status.success(),
        "this test attaches a loop device: run it as root ({})",
        String::from_utf8_lossy(&attached.stderr)
    );
    let device = PathBuf::from(String::from_utf8(attached.stdout).unwrap().trim());
    let path = device.clone();
    let outcome = tokio::spawn(async move {
        conformance::check_all(|| async {
            File::options().write(true).open(&path).unwrap().write_all(&[0; 128 << 10]).unwrap();
            Arc::new(BlockNode::create(&path, "disk", IDENTITY).unwrap()) as Arc<dyn Node>
        })
        .await;
    })
    .await;
    Command::new("losetup").arg("--detach").arg(&device).status().unwrap();
    outcome.unwrap();
}

#[tokio::test]
async fn what_was_put_is_there_when_opened_again() {
    let (_folder, path, node) = node(8 << 20);
    let bytes = shard(IDENTITY.volume, key(1, 0), 500_000, 1);
    node.put(key(1, 0), std::slice::from_ref(&bytes)).await.unwrap();
    let (before, space) = (node.stat(key(1, 0)).await.unwrap(), node.space().await.unwrap());
    drop(node);
    let node = BlockNode::open(&path, "disk", IDENTITY);
    assert_eq!(node.get(key(1, 0), 0..u64::MAX).await.unwrap(), bytes);
    assert_eq!((node.stat(key(1, 0)).await.unwrap(), node.space().await.unwrap()), (before, space));
}

#[tokio::test]
async fn a_full_device_says_so_and_takes_more_when_something_goes() {
    let (_folder, _, node) = node(4 << 20);
    let bytes = |number| shard(IDENTITY.volume, key(number, 0), 300_000, number);
    let mut stored = 0;
    let full = loop {
        match node.put(key(stored, 0), &[bytes(stored)]).await {
            Ok(()) => stored += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind, NodeErrorKind::Full, "{full}");
    assert!((5..14).contains(&stored), "{stored}");
    node.remove(key(0, 0)).await.unwrap();
    node.put(key(100, 0), &[bytes(100)]).await.unwrap();
    for number in (1..stored).chain([100]) {
        assert_eq!(node.get(key(number, 0), 0..u64::MAX).await.unwrap(), bytes(number), "{number}");
    }
}

#[tokio::test]
async fn away_is_not_absent() {
    let (_folder, path, node) = node(8 << 20);
    node.put(key(1, 0), &[shard(IDENTITY.volume, key(1, 0), 100, 1)]).await.unwrap();
    let elsewhere = path.with_extension("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    for absent in [key(1, 0), key(2, 0)] {
        assert_eq!(refusal(node.get(absent, 0..1).await).0, NodeErrorKind::Unavailable);
        assert_eq!(refusal(node.stat(absent).await).0, NodeErrorKind::Unavailable);
        assert_eq!(refusal(node.remove(absent).await).0, NodeErrorKind::Unavailable);
    }
    assert_eq!(refusal(node.list(None, 1).await).0, NodeErrorKind::Unavailable);
    fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(node.stat(key(1, 0)).await.unwrap().bytes, node.get(key(1, 0), 0..9999).await.unwrap().len() as u64);
    assert_eq!(refusal(node.stat(key(2, 0)).await).0, NodeErrorKind::NotFound);
}

#[tokio::test]
async fn another_device_in_its_place_is_the_wrong_node() {
    let (_folder, path, node) = node(8 << 20);
    node.space().await.unwrap();
    for (identity, words) in [(SIBLING, "of the same volume"), (STRANGER, "is a node of volume")] {
        fs::remove_file(&path).unwrap();
        File::create(&path).unwrap().set_len(8 << 20).unwrap();
        BlockNode::create(&path, "other", identity).unwrap();
        let (kind, detail) = refusal(node.stat(key(1, 0)).await);
        assert_eq!(kind, NodeErrorKind::WrongNode, "{detail}");
        assert!(detail.contains(words), "{detail}");
    }
    fs::write(&path, vec![7; 8 << 20]).unwrap();
    let (kind, detail) = refusal(node.stat(key(1, 0)).await);
    assert_eq!(kind, NodeErrorKind::WrongNode, "{detail}");
}

#[tokio::test]
async fn create_refuses_what_is_in_use_and_what_is_too_small() {
    let (_folder, path, _node) = node(8 << 20);
    assert_eq!(refusal(BlockNode::create(&path, "disk", SIBLING)).0, NodeErrorKind::Exists);
    assert_eq!(refusal(BlockNode::create(&path, "disk", STRANGER)).0, NodeErrorKind::WrongNode);
    let (_folder, path) = image(8 << 20);
    File::options().write(true).open(&path).unwrap().write_all(b"somebody's").unwrap();
    let (kind, detail) = refusal(BlockNode::create(&path, "disk", IDENTITY));
    assert!(kind == NodeErrorKind::Exists && detail.contains("blank"), "{detail}");
    let (_folder, path) = image(100_000);
    assert_eq!(refusal(BlockNode::create(&path, "disk", IDENTITY)).0, NodeErrorKind::Full);
    let missing = path.with_extension("missing");
    assert_eq!(refusal(BlockNode::create(&missing, "disk", IDENTITY)).0, NodeErrorKind::Unavailable);
    let folder = path.parent().unwrap();
    assert!(BlockNode::create(folder, "disk", IDENTITY).is_err());
}

#[tokio::test]
async fn a_lost_superblock_is_read_from_its_copy() {
    let (_folder, path, node) = node(8 << 20);
    let bytes = shard(IDENTITY.volume, key(1, 0), 100, 1);
    node.put(key(1, 0), std::slice::from_ref(&bytes)).await.unwrap();
    drop(node);
    let mut file = File::options().write(true).open(&path).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
    assert_eq!(BlockNode::open(&path, "disk", IDENTITY).get(key(1, 0), 0..u64::MAX).await.unwrap(), bytes);
    file.seek(SeekFrom::Start((8 << 20) - 4096)).unwrap();
    file.write_all(&[0xff; 4096]).unwrap();
    let (kind, _) = refusal(BlockNode::open(&path, "disk", IDENTITY).stat(key(1, 0)).await);
    assert_eq!(kind, NodeErrorKind::WrongNode);
}

#[tokio::test]
async fn a_damaged_entry_is_reported_and_its_slot_left_alone() {
    let (_folder, path, node) = node(8 << 20);
    node.put(key(1, 0), &[shard(IDENTITY.volume, key(1, 0), 100, 1)]).await.unwrap();
    let free_bytes = node.space().await.unwrap().free_bytes;
    drop(node);
    let mut file = File::options().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(layout::Superblock::entry_offset(0) + 3)).unwrap();
    file.write_all(&[0x5a]).unwrap();
    let node = BlockNode::open(&path, "disk", IDENTITY);
    let page = node.list(None, 10).await.unwrap();
    assert_eq!((page.keys.len(), page.foreign), (0, vec!["slot 0 (its entry is damaged)".to_owned()]));
    assert_eq!(node.space().await.unwrap().free_bytes, free_bytes);
}
