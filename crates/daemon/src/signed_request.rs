//! Sums of combinations, passed from node to node: a chain.
//!
//! What a repair needs is a sum over its helpers. Asked in a chain, the last helper sends its combination to the one before it,
//! which adds its own, and so on (Li et al., Repair pipelining for erasure-coded storage, USENIX ATC 2017): to whoever repairs come
//! as many bytes as were lost, instead of `k` times as many. Requests for further pieces follow at once, so all links are busy
//! together.
//!
//! ```text
//! user -- combine + link 1 --> helper -- combine + link 2 --> helper -- combine --> helper
//!      <--- a + b + c ---------       <--- b + c ----------        <--- c --------
//! ```
//!
//! A link is the next helper's whole request, signed by the user, who has the keys of all nodes; a helper has only its own, and can
//! neither change the request nor make it twice. What comes back is checked by the user alone, against a digest from elsewhere.

use super::address::DaemonUrl;
use super::auth::Proof;
use super::tls::Trust;
use super::wire::OnwardBody;
use bytes::Bytes;
use std::time::Duration;
use weft_format::{NodeIdentity, ShardKey};
use weft_nodes::rate::Class;

/// A combination that a node is asked for by another, on behalf of the user of both.
#[derive(Clone, Debug)]
pub(super) struct SignedRequest {
    pub(super) url: DaemonUrl,
    pub(super) node: NodeIdentity,
    pub(super) shard: ShardKey,
    pub(super) class: Class,
    /// None: the node has no key.
    pub(super) proof: Option<Proof>,
    pub(super) body: Bytes,
    pub(super) answer_bytes: u64,
    /// How long the answer may take.
    pub(super) timeout: Duration,
}

impl SignedRequest {
    /// Can it be made from another machine? An authority in a file of this one is not known there.
    pub(super) fn leads(url: &DaemonUrl) -> bool {
        !matches!(url.tls, Some(Trust::Authority(_)))
    }

    /// As it stands in the request of the node before; its body follows that.
    pub(super) fn head(&self) -> OnwardBody {
        OnwardBody {
            url: self.url.to_string(),
            volume: self.node.volume.to_string(),
            node: self.node.node.to_string(),
            shard: self.shard.to_string(),
            in_background: self.class == Class::Background,
            proof: self.proof.map(|proof| proof.encode()),
            timeout_ms: self.timeout.as_millis() as u64,
            body_bytes: self.body.len() as u64,
        }
    }

    /// The inverse of [`Self::head`]; `None`: it is none.
    pub(super) fn of(head: OnwardBody, body: Bytes, answer_bytes: u64) -> Option<Self> {
        let url: DaemonUrl = head.url.parse().ok()?;
        let node = NodeIdentity { volume: head.volume.parse().ok()?, node: head.node.parse().ok()? };
        let proof = match &head.proof {
            Some(proof) => Some(Proof::decode(proof)?),
            None => None,
        };
        let is_whole = body.len() as u64 == head.body_bytes && Self::leads(&url);
        is_whole.then_some(Self {
            url,
            node,
            shard: head.shard.parse().ok()?,
            class: if head.in_background { Class::Background } else { Class::Foreground },
            proof,
            body,
            answer_bytes,
            timeout: Duration::from_millis(head.timeout_ms),
        })
    }
}
