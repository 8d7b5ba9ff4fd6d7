//! Decoders that are nobody else's business, for `crates/fuzz`, and a member of an object store for the daemon that is asked there.

use crate::object_member::Own;
use crate::{dump, nodes, replica};
use std::sync::Arc;
use weft_daemon::ObjectHost;
use weft_format::NodeIdentity;
use weft_nodes::{Node, NodeError};
use weft_objects::Host;

/// What lies beside the metadata or in it for this crate: how far its replica is, a node that is being made, a dump. The first byte says
/// which.
pub fn note(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match what % 3 {
        0 => replica::check_note(bytes),
        1 => nodes::check_note(bytes),
        _ => dump::check(bytes),
    }
}

/// One of each.
#[must_use]
pub fn note_seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![[&[0][..], &replica::note_seed()].concat(), [&[1][..], &nodes::note_seed()].concat()];
    seeds.extend(dump::check_seeds().iter().map(|dump| [&[2][..], dump].concat()));
    seeds
}

/// `node` as a member: as others store there, and what answers them.
///
/// # Errors
/// It cannot be listed.
pub async fn member(
    identity: NodeIdentity,
    node: Arc<dyn Node>,
) -> Result<(Arc<dyn Node>, Arc<dyn ObjectHost>), NodeError> {
    let host = Host::open(identity, "memory", node).await?;
    Ok((host.node(), Arc::new(Own(host))))
}
