//! A node that fails on purpose.

use super::{Operation, split_mix};
use crate::combine::Combination;
use crate::error::{NodeError, NodeErrorKind};
use crate::node::{Capability, Node, NodeIdentity, Page, ShardStat, Space};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use weft_format::ShardKey;

/// A call that may be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// How many calls there were before.
    pub number: u64,
    /// Which method.
    pub operation: Operation,
    /// Of which shard, if of one.
    pub key: Option<ShardKey>,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    None,
    /// It fails and nothing is done.
    Fail(NodeErrorKind),
    /// It is done, and still answered with an error, as when the answer is lost.
    FailAfter(NodeErrorKind),
    /// The last so many bytes are missing: from what a get or a combination brings, or from what a put stores.
    Short {
        /// How many.
        bytes: usize,
    },
    /// One bit is flipped: in what a get or a combination brings, or in what a put stores.
    FlipBit {
        /// Which; counted round where there are fewer.
        bit: usize,
    },
    /// A get brings the bytes of this shard instead.
    Other(ShardKey),
    /// It takes this much longer.
    Delay(Duration),
    /// It never answers.
    Silence,
    /// A put or remove says that it is done, and nothing is.
    Lie,
}

/// Decides what goes wrong with each call, in the order of the calls.
pub type Script = Box<dyn FnMut(&Call) -> Fault + Send>;

/// How often what goes wrong in a seeded script, in thousandths of all calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    /// [`Fault::Fail`] with `Io`, half of them [`Fault::FailAfter`].
    pub fail_per_mille: u64,
    /// [`Fault::FlipBit`]
    pub flip_per_mille: u64,
    /// [`Fault::Short`]
    pub short_per_mille: u64,
    /// [`Fault::Lie`]
    pub lie_per_mille: u64,
}

/// A script that `seed` decides.
pub fn seeded(seed: u64, rates: Rates) -> Script {
    let mut state = seed;
    Box::new(move |_| {
        let die = split_mix(&mut state) % 1000;
        let detail = split_mix(&mut state);
        let fail = rates.fail_per_mille;
        let flip = fail + rates.flip_per_mille;
        let short = flip + rates.short_per_mille;
        let lie = short + rates.lie_per_mille;
        if die < fail {
            let kind = NodeErrorKind::Io;
            if detail.is_multiple_of(2) { Fault::Fail(kind) } else { Fault::FailAfter(kind) }
        } else if die < flip {
            Fault::FlipBit { bit: detail as usize }
        } else if die < short {
            // Up to a little more than a frame.
            Fault::Short { bytes: 1 + (detail % 5000) as usize }
        } else if die < lie {
            Fault::Lie
        } else {
            Fault::None
        }
    })
}

/// A node that does what its script says.
pub struct FaultNode {
    node: Arc<dyn Node>,
    name: String,
    state: Mutex<State>,
}

struct State {
    script: Script,
    calls: u64,
}

impl FaultNode {
    /// `node`, called `name` in errors, failing as `script` says.
    pub fn new(node: Arc<dyn Node>, name: impl Into<String>, script: Script) -> Self {
        Self { node, name: name.into(), state: Mutex::new(State { script, calls: 0 }) }
    }

    /// From now on it fails otherwise.
    pub fn set_script(&self, script: Script) {
        self.state.lock().script = script;
    }

    /// Decides, and does what comes before the call itself.
    async fn begin(&self, operation: Operation, key: Option<ShardKey>) -> Result<Fault, NodeError> {
        let fault = {
            let mut state = self.state.lock();
            let call = Call { number: state.calls, operation, key };
            state.calls += 1;
            (state.script)(&call)
        };
        match fault {
            Fault::Fail(kind) => return Err(self.failed(kind)),
            Fault::Delay(delay) => tokio::time::sleep(delay).await,
            Fault::Silence => std::future::pending().await,
            _ => {}
        }
        Ok(fault)
    }

    /// Does what comes after a call that needs nothing in between.
    fn end<T>(&self, fault: Fault, result: Result<T, NodeError>) -> Result<T, NodeError> {
        match fault {
            Fault::FailAfter(kind) => Err(self.failed(kind)),
            _ => result,
        }
    }

    fn failed(&self, kind: NodeErrorKind) -> NodeError {
        NodeError::new(kind, &self.name, "failed on purpose: take the fault away")
    }
}

fn spoil(fault: Fault, bytes: Bytes) -> Bytes {
    match fault {
        Fault::Short { bytes: missing } => bytes.slice(..bytes.len().saturating_sub(missing)),
        Fault::FlipBit { bit } if !bytes.is_empty() => {
            let mut bytes = bytes.to_vec();
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            Bytes::from(bytes)
        }
        _ => bytes,
    }
}

#[async_trait]
impl Node for FaultNode {
    fn capability(&self) -> &Capability {
        self.node.capability()
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let fault = self.begin(Operation::Put, Some(key)).await?;
        let result = match fault {
            Fault::Lie => Ok(()),
            Fault::Short { .. } | Fault::FlipBit { .. } => {
                self.node.put(key, &[spoil(fault, Bytes::from(parts.concat()))]).await
            }
            _ => self.node.put(key, parts).await,
        };
        self.end(fault, result)
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let fault = self.begin(Operation::Get, Some(key)).await?;
        let key = if let Fault::Other(other) = fault { other } else { key };
        let result = self.node.get(key, range).await;
        self.end(fault, result.map(|bytes| spoil(fault, bytes)))
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        let fault = self.begin(Operation::Combine, Some(key)).await?;
        let result = self.node.combine(key, combination).await;
        self.end(fault, result.map(|bytes| spoil(fault, bytes)))
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        let fault = self.begin(Operation::Stat, Some(key)).await?;
        self.end(fault, self.node.stat(key).await)
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let fault = self.begin(Operation::List, None).await?;
        self.end(fault, self.node.list(after, limit).await)
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        let fault = self.begin(Operation::Remove, Some(key)).await?;
        let result = if fault == Fault::Lie { Ok(()) } else { self.node.remove(key).await };
        self.end(fault, result)
    }

    async fn space(&self) -> Result<Space, NodeError> {
        let fault = self.begin(Operation::Space, None).await?;
        self.end(fault, self.node.space().await)
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        let fault = self.begin(Operation::Identity, None).await?;
        self.end(fault, self.node.identity().await)
    }
}
