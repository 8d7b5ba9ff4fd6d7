//! Rebuilding through a chain of daemons, one of which is faulty.

use crate::house::{VOLUME, bytes, node_record, segment};
use async_trait::async_trait;
use bytes::Bytes;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use weft_codes::{Matrix, Program};
use weft_daemon::{Daemon, DaemonNode, DaemonUrl, Key};
use weft_env::Env;
use weft_format::records::NodeState;
use weft_format::{NodeId, ShardIndex, ShardKey};
use weft_nodes::{
    Capability, Combination, Kinds, Link, Node, NodeError, NodeIdentity, NodeUrl, Page, ShardStat, Space,
};
use weft_transfer::{Fleet, Settings, SuspectKind, Transfer, WriteRequest};

/// A daemon that computes something else than it is asked for where others add to it; whatever else it does is right.
struct TwoFaced(Arc<dyn Node>);

#[async_trait]
impl Node for TwoFaced {
    fn capability(&self) -> &Capability {
        self.0.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.0.put(key, parts).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        self.0.get(key, range).await
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        self.0.combine(key, combination).await
    }

    fn link(&self, key: ShardKey, combination: &Combination, onward: Option<&Link>, timeout: Duration) -> Option<Link> {
        let right = combination.program.to_matrix().expect("a program");
        let wrong = Matrix::from_fn(right.rows(), right.columns(), |row, column| right.at(row, column) ^ 1);
        let lie = Combination { program: Program::from_matrix(&wrong), ..combination.clone() };
        self.0.link(key, &lie, onward, timeout)
    }

    async fn pull(&self, link: Link) -> Result<Bytes, NodeError> {
        self.0.pull(link).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        self.0.stat(key).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.0.list(after, limit).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.0.remove(key).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.0.space().await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.0.identity().await
    }
}

/// Daemons that ask each other, each on a folder of its own below `base`.
async fn daemons(base: &std::path::Path, count: usize) -> Vec<Arc<dyn Node>> {
    let mut nodes: Vec<Arc<dyn Node>> = Vec::new();
    for number in 0..count {
        let folder = base.join(number.to_string());
        std::fs::create_dir(&folder).expect("made");
        let key = Key::new([number as u8; 32]);
        let daemon = Daemon::open(
            Kinds::new(weft_nodes::kinds::local()),
            NodeUrl::folder(&folder),
            Some(key.clone()),
            &Env::system(),
        )
        .expect("a folder");
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("weft://{}", listener.local_addr().expect("bound"));
        tokio::spawn(Arc::new(daemon).serve(listener, std::future::pending()));
        let url: DaemonUrl = url.parse().expect("an address");
        let identity = NodeIdentity { volume: VOLUME, node: NodeId(100 + number as u128) };
        nodes.push(Arc::new(
            DaemonNode::create(&url, &format!("n{number}"), identity, Some(key), &Env::system()).await.expect("made"),
        ));
    }
    nodes
}

/// An engine over them, which has tried no chain yet.
fn engine(nodes: &[Arc<dyn Node>], faulty: Option<NodeId>) -> Transfer {
    let member = |(number, node): (usize, &Arc<dyn Node>)| {
        let id = NodeId(100 + number as u128);
        let node = if faulty == Some(id) { Arc::new(TwoFaced(node.clone())) } else { node.clone() };
        (id, node_record(number, NodeState::Active), node)
    };
    let fleet =
        Arc::new(Fleet::new(nodes.iter().enumerate().map(member).collect(), Default::default(), &Env::system()));
    let settings = Settings { cache_bytes: 0, ..Settings::default() };
    Transfer::new(VOLUME, fleet, settings, tokio::runtime::Handle::current())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_helper_that_lies_in_a_chain_is_found_out_wherever_it_stands() {
    let temporary = tempfile::tempdir().expect("a temporary folder");
    let nodes = daemons(temporary.path(), 7).await;
    let (segment, lost) = (segment(0), ShardIndex(0));
    let data = vec![bytes(3_000_001, 4).into()];
    let request = WriteRequest { segment, code: "rs:4+2".into(), write_margin: Some(1), cell_bytes: None, data };
    let record = engine(&nodes, None).write(request).await.expect("written").record;
    let honest = engine(&nodes, None).rebuild(segment, &record, &[lost]).await.expect("rebuilt");
    assert!(honest.also_lost.is_empty());
    let mut found_count = 0;
    for (index, location) in record.shards.iter().enumerate().skip(1) {
        let faulty = location.as_ref().expect("stored").node;
        let rebuilt = engine(&nodes, Some(faulty)).rebuild(segment, &record, &[lost]).await.expect("rebuilt");
        let digest = |record: &weft_format::records::SegmentRecord| record.shards[0].as_ref().map(|shard| shard.digest);
        assert_eq!(digest(&rebuilt.record), digest(&record), "nothing of the lie is stored");
        let found: Vec<_> = rebuilt.also_lost.iter().map(|suspect| (suspect.index.as_usize(), suspect.kind)).collect();
        // One of the five survivors is no helper.
        assert!(
            found.is_empty() || found == [(index, SuspectKind::Combination)],
            "shard {index} answered wrongly, not {found:?}"
        );
        found_count += found.len();
    }
    assert_eq!(found_count, 4);
}
