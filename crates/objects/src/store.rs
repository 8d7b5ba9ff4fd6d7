//! A client of the store: the members as gossip knows them, and what can be done with names.

mod find;
mod get;
mod list;
mod put;
mod remove;

use crate::error::ObjectError;
use crate::question::{Answer, Question};
use async_trait::async_trait;
use std::collections::BTreeMap;
use std::sync::Arc;
use weft_cluster::gossip::Liveness;
use weft_cluster::{Membership, View};
use weft_env::planted::{Planted, has_planted};
use weft_env::{Env, Runtime};
use weft_format::records::{NodeRecord, NodeState, PlacementRule, Stamp};
use weft_format::{NodeId, VolumeId};
use weft_nodes::{Node, NodeError};
use weft_transfer::{Fleet, Settings, Transfer};

use find::RECORDS_MIN;
pub use get::Got;
pub use list::Listing;
use put::SEGMENT_BYTES;
pub use put::{PutRequest, Stored};

/// Bytes of room that give a member one unit of weight.
const WEIGHT_BYTES: u64 = 1 << 30;

/// A way to ask a member what is no call of [`Node`].
#[async_trait]
pub trait Questions: Send + Sync {
    /// # Errors
    /// It does not answer, or refuses.
    async fn ask(&self, question: &Question) -> Result<Answer, NodeError>;
}

/// A member as it is known at a moment.
#[derive(Clone)]
pub struct MemberAt {
    /// Who it is.
    pub id: NodeId,
    /// Where its daemon is, for people.
    pub address: String,
    /// Is it there, by rumour?
    pub liveness: Liveness,
    /// What fails together with it; empty: it alone.
    pub domain: String,
    /// Bytes it can hold in all, as it says.
    pub total_bytes: u64,
    /// How busy it is, as it says.
    pub load_bytes: u64,
    /// Its shards.
    pub node: Arc<dyn Node>,
    /// What else it can be asked.
    pub questions: Arc<dyn Questions>,
}

/// What is known of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its name.
    pub name: String,
    /// Its newest version.
    pub version: Stamp,
    /// Length.
    pub bytes: u64,
    /// The code.
    pub code: String,
    /// BLAKE3 of its contents.
    pub digest: [u8; 32],
    /// Members that have its record.
    pub record_copies: usize,
    /// Of each segment: how many of its shards were found, of how many.
    pub shards: Vec<(usize, usize)>,
    /// Shards that were stored at alternates when it was put.
    pub at_alternates: usize,
    /// Members that did not answer.
    pub silent: usize,
}

/// A store as one client sees it: with the members that there were when it was opened.
pub struct ObjectStore {
    volume: VolumeId,
    members: BTreeMap<NodeId, MemberAt>,
    view: Arc<View>,
    transfer: Transfer,
    env: Env,
    /// By chance, for members that are alike.
    order: BTreeMap<NodeId, u64>,
    /// Data bytes of a segment that is put.
    segment_bytes: usize,
}

impl ObjectStore {
    /// The store `volume` on these members.
    #[must_use]
    pub fn new(
        volume: VolumeId,
        members: Vec<MemberAt>,
        settings: Settings,
        env: &Env,
        runtime: impl Into<Runtime>,
    ) -> Self {
        let fleet = fleet_of(&members.iter().collect::<Vec<_>>(), env);
        let view = fleet.view();
        let transfer = Transfer::new(volume, fleet, settings, runtime);
        let order = members.iter().map(|member| (member.id, env.rng.next_u64())).collect();
        let members = members.into_iter().map(|member| (member.id, member)).collect();
        Self { volume, members, view, transfer, env: env.clone(), order, segment_bytes: SEGMENT_BYTES }
    }

    /// With segments of another length than 16 MiB: histories of many segments are shorter so.
    #[must_use]
    pub fn with_segment_bytes(self, segment_bytes: usize) -> Self {
        Self { segment_bytes, ..self }
    }

    /// Members that there are, by rumour.
    #[must_use]
    pub fn member_count(&self) -> usize {
        self.members.values().filter(|member| member.liveness != Liveness::Dead).count()
    }

    /// The members as placement sees them. Those that are dead by rumour are given nothing.
    pub(crate) fn view(&self) -> &Arc<View> {
        &self.view
    }

    /// All members, as if those were there that are dead by rumour.
    fn everyone(&self) -> Arc<View> {
        let living = |member: &MemberAt| (member.id, NodeRecord { state: NodeState::Active, ..record_of(member) });
        Membership::new(self.members.values().map(living), PlacementRule::default()).view()
    }

    pub(crate) fn transfer(&self) -> &Transfer {
        &self.transfer
    }

    pub(crate) fn members(&self) -> &BTreeMap<NodeId, MemberAt> {
        &self.members
    }

    /// What a request to a member costs others, by rumour; of those that cost the same each client has an order of its own.
    fn cost(&self, node: NodeId) -> (u64, u64) {
        let load_bytes = self.members.get(&node).map_or(u64::MAX, |member| member.load_bytes);
        (load_bytes, self.order.get(&node).copied().unwrap_or(u64::MAX))
    }

    /// A version later than `newest`, whatever the clock says.
    fn version_after(&self, newest: Option<Stamp>) -> Stamp {
        let newest = newest.filter(|_| !has_planted(Planted::VersionByClock));
        Stamp::after(newest, self.env.clock.unix_ms(), self.env.rng.next_u64())
    }

    /// Where a member is, for people.
    pub(crate) fn address(&self, node: NodeId) -> String {
        self.members.get(&node).map_or_else(|| node.to_string(), |member| member.address.clone())
    }
}

/// Members as transfer asks them, with the load that each says it has.
pub(crate) fn fleet_of(members: &[&MemberAt], env: &Env) -> Arc<Fleet> {
    let of_fleet = |member: &&MemberAt| (member.id, record_of(member), Arc::clone(&member.node));
    let fleet = Fleet::new(members.iter().map(of_fleet).collect(), PlacementRule::default(), env);
    members.iter().for_each(|member| fleet.set_load(member.id, member.load_bytes));
    Arc::new(fleet)
}

fn record_of(member: &MemberAt) -> NodeRecord {
    let domain = if member.domain.is_empty() { &member.address } else { &member.domain };
    NodeRecord {
        name: member.address.clone(),
        url: member.address.clone(),
        state: if member.liveness == Liveness::Dead { NodeState::Lost } else { NodeState::Active },
        domain: domain.clone(),
        weight: (member.total_bytes / WEIGHT_BYTES).max(1),
        secret: Default::default(),
        limits: Default::default(),
    }
}

/// The spec of a code as records have it, with its numbers.
struct Code {
    spec: String,
    /// Shards.
    n: usize,
    /// Any this many decode.
    enough: usize,
}

impl Code {
    fn parse(spec: &str) -> Result<Self, ObjectError> {
        let refused = |detail: String| ObjectError::Code { code: spec.to_owned(), detail };
        let code = weft_codes::parse(spec).map_err(|error| refused(error.to_string()))?;
        let shape = code.shape();
        if shape.n > usize::from(u16::MAX) {
            return Err(refused(format!("it has {} shards", shape.n)));
        }
        Ok(Self { spec: code.spec().to_owned(), n: shape.n, enough: shape.n - shape.tolerance })
    }

    /// This many members have the record before a put is answered: their shards suffice to decode, and one member's record can be lost at once,
    /// where the code allows for any loss.
    fn records(&self) -> usize {
        self.enough.max(RECORDS_MIN.min(self.n))
    }

    /// This many shards are durable before a put is answered: one can be lost at once, where the code allows for any.
    fn least(&self) -> usize {
        (self.enough + 1).min(self.n)
    }
}
