//! Connections of a daemon to others.

use super::address::DaemonUrl;
use super::auth::Key;
use super::client::{DaemonNode, members_over};
use super::dial::Dial;
use super::link_set::LinkSet;
use super::loads::Loads;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use weft_cluster::gossip::Heard;
use weft_env::Env;
use weft_nodes::error::NodeError;

/// Daemons that were spoken to, by address, with their connections.
pub(super) struct PeerPool {
    key: Option<Key>,
    dial: Arc<dyn Dial>,
    env: Env,
    loads: Arc<Loads>,
    open: Mutex<HashMap<String, Arc<LinkSet>>>,
}

impl PeerPool {
    /// What is asked of them is signed with `key`, and `dial` makes the connections.
    pub(super) fn new(key: Option<Key>, dial: Arc<dyn Dial>, env: &Env) -> Self {
        Self { key, dial, env: env.clone(), loads: Arc::default(), open: Mutex::default() }
    }

    /// Whatever daemon is there, and by rumour at the addresses `further`, too; `None`: it is no address of one.
    pub(super) fn get(&self, address: &str, further: &[String]) -> Option<Arc<LinkSet>> {
        let mut open = self.open.lock();
        if let Some(peer) = open.get(address) {
            peer.hear_of(further);
            return Some(Arc::clone(peer));
        }
        let url = DaemonUrl::of_rumour(address)?;
        let peer = LinkSet::with_further(self.made(&url, address)?, further, &self.loads);
        open.insert(address.to_owned(), Arc::clone(&peer));
        Some(peer)
    }

    fn made(&self, url: &DaemonUrl, address: &str) -> Option<DaemonNode> {
        let node = DaemonNode::open_unidentified(url, address, None, self.key.clone(), &self.env).ok()?;
        Some(node.dialed_by(Arc::clone(&self.dial)))
    }

    /// Asks a daemon for those that it knows; it need not be one that was spoken to.
    pub(super) async fn members(&self, url: &DaemonUrl) -> Result<Vec<Heard>, NodeError> {
        members_over(&self.dial, url, None, self.key.clone(), &self.env).await
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// Forgets those to other addresses than these.
    pub(super) fn keep(&self, is_kept: impl Fn(&str) -> bool) {
        self.open.lock().retain(|address, _| is_kept(address));
    }
}
