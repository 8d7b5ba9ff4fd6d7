//! How safe everything is.

use super::sessions::{self, SessionLine};
use crate::error::EngineError;
use crate::keeper::Keeper;
use crate::nodes::{self, Moved};
use crate::replica::{ReplicaStatus, replica_status};
use serde::Serialize;
use std::collections::BTreeSet;
use weft_care::collect::{GRACE_MS, Kept, kept};
use weft_care::record::{REPAIR, SCRUB};
use weft_care::{
    Away, Catalogue, ConvertRecord, Dead, Faults, FaultyHelpers, JobRecord, NodeFacts, Reach, Roster, Tally,
};
use weft_cluster::usable_room;
use weft_codes::analysis;
use weft_format::removal::{Item, Queued};
use weft_format::{Ino, NodeId};
use weft_vfs::open::refusal;

/// Marks of damage counted.
const COUNT_LIMIT: usize = 100_000;
/// Trash entries read at once.
const TRASH_PAGE: usize = 1024;

/// How many more nodes may fail, which data is degraded, which nodes answer.
#[derive(Clone, Debug, Serialize)]
pub struct StatusReport {
    /// Further losses of nodes that every file survives; missing where some file cannot be read, or there is none.
    pub survives_losses: Option<usize>,
    /// The same of failure units, each lost with all its nodes.
    pub survives_unit_losses: Option<usize>,
    /// The volume's id.
    pub volume: String,
    /// Why nothing may be changed by this metadata: nodes know of later metadata. Missing: those that answer do not.
    pub superseded: Option<String>,
    /// The process that has it open for writing; missing: there is none.
    pub in_use_by: Option<String>,
    /// The processes that change the volume, where its metadata engine lets several.
    pub sessions: Vec<SessionLine>,
    /// Files, directories and others, deleted ones that are still open among them.
    pub inode_count: u64,
    /// Bytes that files refer to.
    pub live_bytes: u64,
    /// The room for files with the root directory's policy.
    pub room: Room,
    /// By name.
    pub nodes: Vec<NodeStatus>,
    /// Segments counted by their state.
    pub tally: Tally,
    /// Segments marked as damaged.
    pub marked_count: usize,
    /// Deleted data whose room is not free yet.
    pub trash: Waiting,
    /// The repair under way, or the last one.
    pub last_repair: Option<JobRecord>,
    /// The same of scrubs, ...
    pub last_scrub: Option<JobRecord>,
    /// ... and of conversions.
    pub last_conversion: Option<ConvertRecord>,
    /// How far the replica of the metadata on nodes is; missing: the metadata engine keeps copies itself.
    pub replica: Option<ReplicaStatus>,
    /// Previous generations of converted and moved segments.
    pub kept: Kept,
    /// Nodes that are elsewhere than metadata has them.
    pub moved: Vec<Moved>,
    /// Nodes that cannot be asked, and why; other nodes by name in it.
    pub away: Vec<Away>,
}

/// Dead segments, which are not free room yet.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Waiting {
    /// How many, and their bytes.
    #[serde(flatten)]
    pub dead: Dead,
    /// From then on (milliseconds since 1970) a collection removes all of them; missing if there are none.
    pub due_ms: Option<u64>,
}

/// The part of the nodes' room that files with the root directory's policy can use, in data bytes.
#[derive(Clone, Debug, Serialize)]
pub struct Room {
    /// The policy's code.
    pub policy: String,
    /// That fit in all.
    pub total_bytes: u64,
    /// Bytes that fit beside the stored ones.
    pub free_bytes: u64,
}

/// A node as it answers now.
#[derive(Clone, Debug, Serialize)]
pub struct NodeStatus {
    /// Unique in the volume.
    pub name: String,
    /// Its place.
    pub url: String,
    /// `active`, `read-only`, `draining` or `lost`.
    pub state: &'static str,
    /// Its failure domain.
    pub domain: String,
    /// The failure unit that it is in: the part of its domain that fails as one.
    pub unit: String,
    /// It says how much room it has.
    pub answers: bool,
    /// It is there, and does not let this user in.
    pub refuses: bool,
    /// Silent for so long that its shards are rebuilt on others.
    pub is_given_up: bool,
    /// Missing where it does not answer.
    pub total_bytes: Option<u64>,
    /// Likewise.
    pub free_bytes: Option<u64>,
    /// Why it does not answer.
    pub trouble: Option<String>,
    /// Repairs of the last 30 days to which it sent wrong combinations.
    pub faults: Option<Faults>,
}

impl Keeper {
    /// How safe everything is, after all nodes were asked whether they are there.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn status(&self) -> Result<StatusReport, EngineError> {
        let looks = async {
            tokio::join!(Roster::look(&*self.catalogue, &self.transfer), refusal(&self.store, &self.transfer))
        };
        let (roster, superseded) = self.runtime.block_on(looks);
        let roster = roster?;
        let (tally, dead) = weft_care::glance_with_dead(&*self.catalogue, &roster)?;
        let statistics = self.store.statistics()?;
        let all_can_be_read = tally.lost_count + tally.out_of_reach_count == 0;
        let away = roster.out_of_reach().into_iter();
        Ok(StatusReport {
            survives_losses: tally.margin.filter(|_| all_can_be_read),
            survives_unit_losses: tally.unit_margin.filter(|_| all_can_be_read),
            volume: self.store.volume().volume.to_string(),
            superseded: superseded?,
            in_use_by: self.owner(),
            sessions: match self.meta.has_sessions() {
                true => sessions::lines(&self.meta, &self.store.lock_counts()?)?,
                false => Vec::new(),
            },
            inode_count: statistics.inodes,
            live_bytes: statistics.live_bytes,
            room: self.room()?,
            nodes: node_states(
                &roster,
                &self.given_up()?,
                &FaultyHelpers::load(&*self.catalogue, self.store.env().clock.unix_ms())?,
            ),
            marked_count: self.catalogue.damaged(None, COUNT_LIMIT)?.len(),
            trash: waiting(&*self.catalogue, dead)?,
            last_repair: JobRecord::load(&*self.catalogue, REPAIR)?,
            last_scrub: JobRecord::load(&*self.catalogue, SCRUB)?,
            last_conversion: ConvertRecord::load(&*self.catalogue)?,
            replica: replica_status(&self.store, &self.meta)?,
            kept: kept(&*self.catalogue)?,
            moved: nodes::moved(&self.store)?,
            away: away.map(|away| Away { why: with_names(&roster, away.why), ..away }).collect(),
            tally,
        })
    }

    /// All nodes, after they were asked whether they are there.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn look(&self) -> Result<Roster, EngineError> {
        Ok(self.runtime.block_on(Roster::look(&*self.catalogue, &self.transfer))?)
    }

    fn owner(&self) -> Option<String> {
        match self.meta.current_owner(&*self.store.env().clock) {
            Ok(holder) => holder.map(|holder| holder.to_string()),
            Err(_) => Some("a process that did not identify itself".into()),
        }
    }

    /// If nodes have unlike room, only the part that the code's width can use counts.
    fn room(&self) -> Result<Room, EngineError> {
        let root = self.store.attributes(Ino::ROOT)?;
        let policy = self.store.policy(root.policy)?.code;
        let code = weft_codes::parse(&policy)?;
        let factor = analysis::storage_factor(code.shape());
        let view = self.transfer.fleet().view();
        let usable = usable_room(&view, code.shape().n, view.rule.unit_shards_of(code.shape().tolerance));
        let data = |bytes: u64| (bytes as f64 / factor) as u64;
        Ok(Room { policy, total_bytes: data(usable.total_bytes), free_bytes: data(usable.free_bytes) })
    }
}

fn waiting(catalogue: &dyn Catalogue, dead: Dead) -> Result<Waiting, EngineError> {
    let (mut after, mut last_ms) = (None, None);
    while after < Some(Item::BEFORE_GENERATIONS) {
        let page = catalogue.unreferenced(after, TRASH_PAGE)?;
        let Some(end) = page.last() else { break };
        after = Some(end.item());
        let dead = page.iter().filter(|entry| matches!(entry, Queued::Segment { .. }));
        last_ms = last_ms.max(dead.map(Queued::since_ms).max());
    }
    let due_ms = last_ms.filter(|_| dead.segment_count > 0).map(|last_ms| last_ms.saturating_add(GRACE_MS));
    Ok(Waiting { dead, due_ms })
}

/// A sentence with nodes by name.
fn with_names(roster: &Roster, text: String) -> String {
    let known: Vec<_> = roster.nodes.iter().map(|(id, facts)| (*id, facts.record.clone())).collect();
    nodes::with_names(&known, text)
}

fn node_states(roster: &Roster, given_up: &BTreeSet<NodeId>, faulty_helpers: &FaultyHelpers) -> Vec<NodeStatus> {
    let node = |(id, facts): (&NodeId, &NodeFacts)| {
        let (space, trouble) = match &facts.reach {
            Reach::Answers(space) => (Some(space), None),
            Reach::OutOfReach(why) | Reach::Refuses(why) | Reach::Wiped(why) => {
                (None, Some(with_names(roster, why.clone())))
            }
        };
        NodeStatus {
            name: facts.record.name.clone(),
            url: facts.record.url.clone(),
            state: nodes::state_name(facts.record.state),
            domain: facts.record.domain.clone(),
            unit: roster.rule.unit(&facts.record.domain).to_owned(),
            answers: facts.answers(),
            refuses: facts.refuses(),
            // As a worker reported it some seconds ago.
            is_given_up: given_up.contains(id) && !facts.answers(),
            total_bytes: space.map(|space| space.total_bytes),
            free_bytes: space.map(|space| space.free_bytes),
            trouble,
            faults: faulty_helpers.of(*id).cloned(),
        }
    };
    let mut states: Vec<NodeStatus> = roster.nodes.iter().map(node).collect();
    states.sort_by(|a, b| a.name.cmp(&b.name));
    states
}
