//! Every kind of node passes the conformance suite.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use weft_format::{NodeId, NodeIdentity, VolumeId};
use weft_nodes::{FolderNode, MemoryNode, Node, conformance};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };

fn memory() -> Arc<dyn Node> {
    Arc::new(MemoryNode::new("memory", IDENTITY, 1 << 30))
}

async fn check_folders_in(place: &Path) {
    let temporary = tempfile::tempdir_in(place).expect("a temporary folder");
    let count = AtomicU32::new(0);
    conformance::check_all(|| async {
        let path = temporary.path().join(count.fetch_add(1, Ordering::Relaxed).to_string());
        Arc::new(FolderNode::create(&path, "folder", IDENTITY).expect("an empty folder")) as Arc<dyn Node>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_node_conforms() {
    conformance::check_all(|| async { memory() }).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_memory_node_that_combines_conforms() {
    conformance::check_all(|| async {
        Arc::new(MemoryNode::new("memory", IDENTITY, 1 << 30).that_combines()) as Arc<dyn Node>
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_on_disk_conforms() {
    check_folders_in(&std::env::temp_dir()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_in_memory_conforms() {
    check_folders_in(Path::new("/dev/shm")).await;
}
