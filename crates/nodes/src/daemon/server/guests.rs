//! How many connections each address has.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Connections of one address at once; more are closed, so that others get some.
pub(super) const PEER_CONNECTIONS_MAX: usize = 512;

/// One of an address's connections, until it is dropped.
pub(super) struct Guest {
    address: IpAddr,
    of: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Guest {
    /// `None`: the address has enough.
    pub(super) fn of(peers: &Arc<Mutex<HashMap<IpAddr, usize>>>, address: IpAddr) -> Option<Self> {
        let mut counts = peers.lock();
        let count = counts.entry(address).or_default();
        if *count == PEER_CONNECTIONS_MAX {
            return None;
        }
        *count += 1;
        Some(Self { address, of: Arc::clone(peers) })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut counts = self.of.lock();
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}
