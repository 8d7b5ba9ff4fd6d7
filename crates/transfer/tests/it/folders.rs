//! The same over real folders, damaged as people and disks damage them.

use crate::house::{VOLUME, bytes, node_record, segment};
use std::path::PathBuf;
use std::sync::Arc;
use weft_env::Env;
use weft_format::records::{NodeState, SegmentRecord};
use weft_format::{NodeId, ShardIndex};
use weft_nodes::{FolderNode, Node, NodeErrorKind, NodeIdentity};
use weft_transfer::{Fleet, Settings, ShardHealth, SuspectKind, Transfer, WriteRequest};

struct Folders {
    root: tempfile::TempDir,
    transfer: Transfer,
}

impl Folders {
    fn new(count: usize) -> Self {
        let root = tempfile::tempdir().unwrap();
        let member = |i: usize| {
            let id = NodeId(i as u128);
            let path = root.path().join(i.to_string());
            let node = FolderNode::create(&path, &format!("n{i}"), NodeIdentity { volume: VOLUME, node: id }).unwrap();
            (id, node_record(i, NodeState::Active), Arc::new(node) as Arc<dyn Node>)
        };
        let fleet = Arc::new(Fleet::new((0..count).map(member).collect(), Default::default(), &Env::system()));
        let runtime = tokio::runtime::Handle::current();
        Self { root, transfer: Transfer::new(VOLUME, fleet, Settings::default(), runtime) }
    }

    async fn write(&self, data: &[u8]) -> Arc<SegmentRecord> {
        let data = vec![bytes::Bytes::copy_from_slice(data)];
        let request =
            WriteRequest { segment: segment(0), code: "rs:4+2".into(), write_margin: Some(1), cell_bytes: None, data };
        Arc::new(self.transfer.write(request).await.unwrap().record)
    }

    fn folder_of(&self, record: &SegmentRecord, index: usize) -> PathBuf {
        self.root.path().join(record.shards[index].as_ref().unwrap().node.0.to_string())
    }

    /// The file of a shard.
    fn file_of(&self, record: &SegmentRecord, index: usize) -> PathBuf {
        let name = record.shard_key(segment(0), ShardIndex(index as u16)).unwrap().to_string();
        let folders = std::fs::read_dir(self.folder_of(record, index)).unwrap();
        let files = folders.map(|folder| folder.unwrap().path().join(&name));
        files.into_iter().find(|file| file.exists()).expect("the shard has a file")
    }
}

#[tokio::test]
async fn deleted_cut_and_flipped_files_are_read_around_seen_and_rebuilt() {
    let folders = Folders::new(7);
    let data = bytes(3 << 20, 1);
    let record = folders.write(&data).await;
    std::fs::remove_file(folders.file_of(&record, 0)).unwrap();
    let cut = folders.file_of(&record, 3);
    let object = std::fs::read(&cut).unwrap();
    std::fs::remove_file(&cut).unwrap();
    std::fs::write(&cut, &object[..object.len() - 1]).unwrap();

    let mut out = vec![0; data.len()];
    let report = folders.transfer.read(segment(0), &record, 0..data.len() as u64, &mut out).await.unwrap();
    assert!(out == data);
    let mut kinds: Vec<_> = report.suspects.iter().map(|suspect| (suspect.index.0, suspect.kind)).collect();
    kinds.sort_by_key(|(index, _)| *index);
    assert_eq!(kinds, [(0, SuspectKind::NotFound), (3, SuspectKind::Length)]);
    let health = folders.transfer.verify(segment(0), &record).await;
    assert_eq!(health.shards[0], ShardHealth::Missing);
    assert!(matches!(health.shards[3], ShardHealth::Damaged(_)));

    let lost = [ShardIndex(0), ShardIndex(3)];
    let rebuilt = folders.transfer.rebuild(segment(0), &record, &lost).await.unwrap();
    let health = folders.transfer.verify(segment(0), &rebuilt.record).await;
    assert!(health.shards.iter().all(|shard| *shard == ShardHealth::Sound), "{health:?}");
}

#[tokio::test]
async fn a_folder_that_went_away_has_lost_nothing() {
    let folders = Folders::new(6);
    let data = bytes(300_000, 2);
    let record = folders.write(&data).await;
    let (folder, aside) = (folders.folder_of(&record, 1), folders.root.path().join("aside"));
    std::fs::rename(&folder, &aside).unwrap();
    let (read, report) = folders.transfer.read_bytes(segment(0), &record, 0..300_000).await.unwrap();
    assert!(read == data);
    assert_eq!(report.suspects[0].kind, SuspectKind::Unknown(NodeErrorKind::Unavailable));
    let health = folders.transfer.census(segment(0), &record).await;
    assert_eq!(health.shards[1], ShardHealth::Unknown(NodeErrorKind::Unavailable));
    std::fs::rename(&aside, &folder).unwrap();
    let health = folders.transfer.verify(segment(0), &record).await;
    assert!(health.shards.iter().all(|shard| *shard == ShardHealth::Sound));
}
