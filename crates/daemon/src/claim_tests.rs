//! Places that become nodes while those who asked for it have gone.

use super::*;
use async_trait::async_trait;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Semaphore;
use weft_nodes::folder::{FolderNode, Folders};
use weft_nodes::{About, Kind, NodeAt, UrlError};

/// Folders that become nodes when they are let to.
struct SlowFolders {
    folders: Folders,
    begun: AtomicU64,
    turns: Semaphore,
}

#[async_trait]
impl Kind for SlowFolders {
    fn about(&self) -> &'static About {
        self.folders.about()
    }

    fn parse(&self, scheme: &str, rest: &str) -> Result<NodeUrl, UrlError> {
        self.folders.parse(scheme, rest)
    }

    fn open(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.folders.open(node)
    }

    async fn create(&self, node: &NodeAt<'_>) -> Result<Arc<dyn Node>, NodeError> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        self.turns.acquire().await.unwrap().forget();
        self.folders.create(node).await
    }

    fn probe(&self, url: &NodeUrl) -> Result<Option<NodeIdentity>, NodeError> {
        self.folders.probe(url)
    }
}

async fn claim(url: DaemonUrl) -> Result<DaemonNode, NodeError> {
    DaemonNode::create(&url, "remote", IDENTITY, None, &Env::system()).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_becomes_a_node_though_who_asked_has_gone_and_asks_again() {
    let slow = SlowFolders { folders: Folders::default(), begun: AtomicU64::new(0), turns: Semaphore::new(0) };
    let (slow, folder) = (Arc::new(slow), TempDir::new_in("/dev/shm").unwrap());
    let kinds = Kinds::new(vec![slow.clone()]);
    let daemon = Daemon::open(kinds, NodeUrl::folder(folder.path()), None, &Env::system()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = DaemonUrl { authority: listener.local_addr().unwrap().to_string(), tls: None };
    let _running = start(daemon, listener);
    let gone = tokio::spawn(claim(url.clone()));
    until(async || slow.begun.load(Ordering::Relaxed) == 1).await;
    gone.abort();
    assert!(gone.await.is_err(), "it has no answer");
    let node = DaemonNode::open(&url, "remote", IDENTITY, None, &Env::system()).unwrap();
    assert_eq!(refusal(node.space().await).0, NodeErrorKind::WrongNode);
    let again = tokio::spawn(claim(url));
    slow.turns.add_permits(1);
    again.await.unwrap().unwrap().space().await.unwrap();
    assert_eq!(slow.begun.load(Ordering::Relaxed), 1, "nobody makes it beside who is making it");
}

#[tokio::test]
async fn a_place_that_is_the_node_already_is_taken_as_it_is() {
    let served = serve(None).await;
    FolderNode::create(served.folder.path(), "local", IDENTITY).unwrap();
    let sibling = NodeIdentity { node: NodeId(5), ..IDENTITY };
    let other = DaemonNode::create(&served.url(), "other", sibling, None, &Env::system()).await;
    assert_eq!(refusal(other).0, NodeErrorKind::Exists);
    served.node(None).await.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
}
