//! The nodes of a volume as metadata has them, and every change that people make to them.

use super::error::{NodesError, ProbeError};
use super::{Moved, create, default_weight, emptied, forget, is_replaced, lost, succeed, take_back};
use crate::error::EngineError;
use crate::keeper::Keeper;
use crate::key_file;
use crate::kinds::{kinds, opener};
use crate::open_store;
use crate::reports::{NodeLine, node_lines};
use crate::runtime::runtime;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_care::balance::Estimate;
use weft_env::Env;
use weft_format::NodeId;
use weft_format::records::{NodeLimits, NodeRecord, NodeState, Secret};
use weft_meta::{MetaUrl, Store};
use weft_nodes::{NodeAt, NodeIdentity, NodeUrl};

/// Segments are counted up to this many for a sentence.
const COUNT_LIMIT: usize = 1000;

/// A mount follows the node table within a second, and what it was writing then is mostly done in another few.
const SETTLED_WITHIN: Duration = Duration::from_secs(10);
const SETTLED_PAUSE: Duration = Duration::from_millis(100);

/// A node that takes longer than this to identify itself is taken for gone.
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

/// The nodes of a volume. Changes are durable when a call returns; mounts follow within a second.
pub struct NodeTable {
    store: Store,
    meta: MetaUrl,
}

/// A place for a node, as people write it.
#[derive(Clone, Copy, Debug)]
pub struct Place<'p> {
    /// A folder, a device or an address.
    pub address: &'p str,
    /// The file with the secret that the place asks of its users.
    pub key_file: Option<&'p Path>,
    /// Where the volume is mounted on this machine: no node may lie there.
    pub mountpoints: &'p [PathBuf],
}

/// A node to be added.
#[derive(Clone, Copy, Debug)]
pub struct NewNode<'p> {
    /// Unique in the volume.
    pub name: &'p str,
    /// Empty, or not there yet.
    pub place: Place<'p>,
    /// Nodes of one domain fail together; `None`: the node is its own.
    pub domain: Option<&'p str>,
    /// Share of the data beside others; `None`: its size in GiB.
    pub weight: Option<u64>,
}

/// How a replacement went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// The new place.
    pub url: String,
    /// The old place.
    pub old_place: String,
    /// How to treat the shards of the old one.
    pub old: OldNode,
    /// The weight of the old one, if that of the new one, its size in GiB, is another.
    pub old_weight: Option<u64>,
}

/// The state of a node that was replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldNode {
    /// Nothing: no segment refers to it.
    Gone,
    /// It does not answer: repair rebuilds its shards.
    Lost,
    /// It answers: repair moves its shards, and until then it must stay.
    Emptied,
}

/// The result of a move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedTo {
    /// Where the node is now.
    pub url: String,
    /// The node that should have been there.
    pub displaced: Option<Displaced>,
    /// The node was given up before, and is not taken back by this.
    pub is_given_up: bool,
}

/// A node that another was found in the place of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Displaced {
    /// Its name.
    pub name: String,
    /// Where it is now; `None`: unknown.
    pub url: Option<String>,
}

/// Changes of a node; `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Changes<'c> {
    /// Its failure domain.
    pub domain: Option<&'c str>,
    /// Share of the data that it takes beside others.
    pub weight: Option<u64>,
    /// It takes no new shards, and keeps those it has.
    pub is_read_only: Option<bool>,
}

impl NodeTable {
    /// Opens the metadata at `meta`, beside the owner of the volume.
    ///
    /// # Errors
    /// Metadata is missing, not ours or of another format.
    pub fn open(meta: &MetaUrl) -> Result<Self, NodesError> {
        Ok(Self { store: open_store(meta, &Env::system())?, meta: meta.clone() })
    }

    /// The names of all nodes, sorted.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn names(&self) -> Result<BTreeSet<String>, NodesError> {
        Ok(self.store.nodes()?.into_iter().map(|(_, node)| node.name).collect())
    }

    /// All nodes by name, after they were asked for their room.
    ///
    /// # Errors
    /// Metadata cannot be read, or this program cannot open a node of it.
    pub fn list(&self) -> Result<Vec<NodeLine>, NodesError> {
        Ok(node_lines(&self.store)?)
    }

    /// Nodes of this machine that are elsewhere than metadata has them, as far as that can be found at once.
    ///
    /// # Errors
    /// Metadata cannot be read.
    pub fn moved(&self) -> Result<Vec<Moved>, NodesError> {
        Ok(super::moved(&self.store)?)
    }

    /// The moves needed for every node to hold its share; `None`: nothing is stored yet.
    ///
    /// # Errors
    /// Metadata cannot be read, or this program cannot open a node of it.
    pub fn balance(&self) -> Result<Option<Estimate>, NodesError> {
        if self.store.statistics()?.live_bytes == 0 {
            return Ok(None);
        }
        Ok(Some(Keeper::open(&self.meta, &Env::system())?.estimate_balance()?))
    }

    /// Makes a place a node of the volume.
    ///
    /// # Errors
    /// The name is taken or none; the place is taken, inside the volume, or cannot be made a node.
    pub fn add(&self, new: &NewNode<'_>) -> Result<(), NodesError> {
        let name = new.name;
        check_name(name)?;
        let (url, secret) = new.place.read()?;
        if self.store.nodes()?.iter().any(|(_, node)| node.name == name) {
            return Err(NodesError::Taken(name.to_owned()));
        }
        new.place.refuse_unfit(name, &url)?;
        let (node, space) = create(&self.store, name, &url, &secret)?;
        let record = NodeRecord {
            name: name.to_owned(),
            url: url.to_string(),
            state: NodeState::Active,
            domain: new.domain.unwrap_or(name).to_owned(),
            weight: new.weight.unwrap_or_else(|| default_weight(space)),
            secret,
            limits: NodeLimits::default(),
        };
        self.store.add_node(node, &record)?;
        Ok(self.store.flush()?)
    }

    /// Makes another place the node `name`. The old one stays, under another name, until repair has moved or rebuilt its shards.
    ///
    /// # Errors
    /// As of [`NodeTable::add`]; [`NodesError::WouldLose`], unless `force`.
    pub fn replace(&self, name: &str, place: &Place<'_>, force: bool) -> Result<Replaced, NodesError> {
        let (url, secret) = place.read()?;
        let (old_id, old) = self.find(name)?;
        if is_replaced(old_id, &old) {
            return Err(NodesError::AlreadyReplaced { meta: self.meta.clone(), name: name.to_owned() });
        }
        place.refuse_unfit(name, &url)?;
        let answers = self.answers(old_id)?;
        if !answers && !force {
            self.refuse_loss(&[old_id])?;
        }
        let (id, space) = create(&self.store, name, &url, &secret)?;
        let replaced = if answers { emptied(old_id, &old) } else { lost(old_id, &old, &url) };
        let new = NodeRecord {
            name: name.to_owned(),
            url: url.to_string(),
            state: NodeState::Active,
            domain: old.domain.clone(),
            weight: default_weight(space),
            secret,
            limits: old.limits,
        };
        let is_empty = succeed(&self.store, (old_id, &old), &replaced, (id, &new))?;
        let left = match replaced.state {
            _ if is_empty => OldNode::Gone,
            NodeState::Lost => OldNode::Lost,
            _ => OldNode::Emptied,
        };
        let old_weight = (old.weight != new.weight).then_some(old.weight);
        Ok(Replaced { url: url.to_string(), old_place: place_of(&old), old: left, old_weight })
    }

    /// Notes where the node is now, after it has identified itself there. Where another node of the volume should be at that place the
    /// two were swapped, and both are noted.
    ///
    /// # Errors
    /// [`NodesError::NotThere`], [`NodesError::SamePlace`]; as of [`NodeTable::add`].
    pub fn move_to(&self, name: &str, place: &Place<'_>) -> Result<MovedTo, NodesError> {
        let url = kinds().parse(place.address)?;
        let (id, old) = self.find(name)?;
        let secret = match place.key_file {
            Some(_) => key_file::secret(&url, place.key_file)?,
            None => old.secret.clone(),
        };
        let new = NodeRecord { url: url.to_string(), secret, ..old.clone() };
        if new == old {
            return Err(NodesError::SamePlace { name: name.to_owned(), url: url.to_string() });
        }
        place.refuse_unfit(name, &url)?;
        let probed = self.probe(id, name, &url, &new.secret);
        probed.map_err(|why| NodesError::NotThere {
            name: name.to_owned(),
            url: url.to_string(),
            why: Box::new(why),
        })?;
        let there = self.store.nodes()?.into_iter().find(|(other, record)| *other != id && record.url == new.url);
        let displaced = match there {
            None => {
                self.store.update_node(id, &old, &new)?;
                None
            }
            Some((other_id, other)) => {
                let previous = kinds().parse(&old.url)?;
                let is_swapped = self.probe(other_id, &other.name, &previous, &other.secret).is_ok();
                let other_url = if is_swapped { old.url.clone() } else { url.former(&other_id.to_string()[..8]) };
                let moved = NodeRecord { url: other_url, ..other.clone() };
                self.store.update_nodes(&[(id, &old, &new), (other_id, &other, &moved)])?;
                Some(Displaced { name: other.name, url: is_swapped.then(|| previous.to_string()) })
            }
        };
        self.store.flush()?;
        Ok(MovedTo { url: url.to_string(), displaced, is_given_up: new.state == NodeState::Lost })
    }

    /// Takes a node back that was given up and answers again. Returns its state: [`NodeState::Draining`] if another node has its place.
    ///
    /// # Errors
    /// [`NodesError::NotGivenUp`], [`NodesError::Silent`].
    pub fn restore(&self, name: &str) -> Result<NodeState, NodesError> {
        let (id, record) = self.find(name)?;
        if record.state != NodeState::Lost {
            return Err(NodesError::NotGivenUp(name.to_owned()));
        }
        let url = kinds().parse(&record.url)?;
        let probed = self.probe(id, name, &url, &record.secret);
        probed.map_err(|why| NodesError::Silent {
            meta: self.meta.clone(),
            name: name.to_owned(),
            why: Box::new(why),
        })?;
        Ok(take_back(&self.store, id)?.unwrap_or(NodeState::Active))
    }

    /// Changes the limits that are given, 0 for none; the others stay. All limits of the node now.
    ///
    /// # Errors
    /// [`NodesError::Unknown`].
    pub fn limit(
        &self,
        name: &str,
        bytes_per_second: Option<u64>,
        requests: Option<u32>,
    ) -> Result<NodeLimits, NodesError> {
        let (id, old) = self.find(name)?;
        let limits = NodeLimits {
            bytes_per_second: bytes_per_second.unwrap_or(old.limits.bytes_per_second),
            requests: requests.unwrap_or(old.limits.requests),
        };
        self.update(id, &old, NodeRecord { limits, ..old.clone() })?;
        Ok(limits)
    }

    /// Has a node emptied, or with `undo` no more.
    ///
    /// # Errors
    /// [`NodesError::TooFewLeft`], [`NodesError::State`].
    pub fn drain(&self, name: &str, undo: bool) -> Result<(), NodesError> {
        let (id, record) = self.find(name)?;
        let state = match (record.state, undo) {
            (NodeState::Active | NodeState::ReadOnly, false) => {
                self.keep_enough(name)?;
                NodeState::Draining
            }
            (NodeState::Draining, true) => NodeState::Active,
            (NodeState::Lost, _) => {
                return Err(refused(name, format!("lost: `weft repair {}` rebuilds its shards", self.meta)));
            }
            (NodeState::Active | NodeState::ReadOnly, true) => return Err(refused(name, "not draining")),
            (NodeState::Draining, false) => return Err(refused(name, "draining already")),
        };
        self.update(id, &record, NodeRecord { state, ..record.clone() })
    }

    /// Changes how a node is used. The node as it is now.
    ///
    /// # Errors
    /// [`NodesError::TooFewLeft`], [`NodesError::State`].
    pub fn set(&self, name: &str, changes: &Changes<'_>) -> Result<NodeRecord, NodesError> {
        let (id, record) = self.find(name)?;
        let state = match (changes.is_read_only, record.state) {
            (None, state) => state,
            (Some(true), NodeState::Active) => {
                self.keep_enough(name)?;
                NodeState::ReadOnly
            }
            (Some(true), NodeState::ReadOnly) => return Err(refused(name, "read-only already")),
            (Some(false), NodeState::ReadOnly) => NodeState::Active,
            (Some(false), NodeState::Active) => return Err(refused(name, "not read-only")),
            (Some(_), NodeState::Draining) => {
                let end = format!("`weft node drain {} {name} --undo`", self.meta);
                return Err(refused(name, format!("draining: end that first with {end}")));
            }
            (Some(_), NodeState::Lost) => {
                return Err(refused(name, "lost: it is neither read nor written"));
            }
        };
        let new = NodeRecord {
            domain: changes.domain.map_or_else(|| record.domain.clone(), str::to_owned),
            weight: changes.weight.unwrap_or(record.weight),
            state,
            ..record.clone()
        };
        self.update(id, &record, new.clone())?;
        Ok(new)
    }

    /// Forgets a node that holds no shards. Its place, which can be deleted now.
    ///
    /// # Errors
    /// [`NodesError::StillNeeded`], [`NodesError::TooFewLeft`], [`NodesError::BeingWritten`].
    pub fn remove(&self, name: &str) -> Result<String, NodesError> {
        let (id, record) = self.find(name)?;
        let segments = self.store.segments_on_node(id, None, COUNT_LIMIT)?;
        if !segments.is_empty() {
            let mut segment_count = 0;
            for segment in &segments {
                segment_count += u64::from(self.store.live_bytes(*segment)? > 0);
            }
            return Err(NodesError::StillNeeded {
                meta: self.meta.clone(),
                name: name.to_owned(),
                state: record.state,
                segment_count,
                is_counted: segments.len() < COUNT_LIMIT,
            });
        }
        let leaving = NodeRecord { state: NodeState::Draining, ..record.clone() };
        if !record.state.is_leaving() {
            self.keep_enough(name)?;
            self.update(id, &record, leaving.clone())?;
        }
        if self.forget(id)? {
            return Ok(place_of(&record));
        }
        if !record.state.is_leaving() {
            self.update(id, &leaving, record)?;
        }
        Err(NodesError::BeingWritten(name.to_owned()))
    }

    /// Waits a while until the node can go. False: it cannot.
    fn forget(&self, id: NodeId) -> Result<bool, NodesError> {
        let clock = &self.store.env().clock;
        let began = clock.now();
        while !forget(&self.store, &self.meta, id)? {
            let is_used = !self.store.segments_on_node(id, None, 1)?.is_empty();
            if is_used || clock.elapsed(began) >= SETTLED_WITHIN {
                return Ok(false);
            }
            clock.block(SETTLED_PAUSE);
        }
        Ok(true)
    }

    /// Gives up nodes that do not answer: they are lost from now on, and repair rebuilds their shards. With `dry_run` only looks.
    ///
    /// # Errors
    /// [`NodesError::Answers`]; [`NodesError::WouldLose`], unless `force`.
    pub fn give_up(&self, names: &[String], force: bool, dry_run: bool) -> Result<BTreeSet<NodeId>, NodesError> {
        if names.is_empty() {
            return Ok(BTreeSet::new());
        }
        let roster = Keeper::open(&self.meta, &Env::system())?.probe()?;
        let mut nodes = Vec::new();
        for name in names {
            let (id, record) = self.find(name)?;
            if roster.nodes.get(&id).is_some_and(|facts| facts.answers()) {
                return Err(NodesError::Answers { meta: self.meta.clone(), name: name.clone() });
            }
            nodes.push((id, record));
        }
        let ids: Vec<NodeId> = nodes.iter().map(|(id, _)| *id).collect();
        if !dry_run {
            if !force {
                self.refuse_loss(&ids)?;
            }
            for (id, record) in &nodes {
                self.store.update_node(*id, record, &NodeRecord { state: NodeState::Lost, ..record.clone() })?;
            }
            self.store.flush()?;
        }
        Ok(ids.into_iter().collect())
    }

    fn find(&self, name: &str) -> Result<(NodeId, NodeRecord), NodesError> {
        let found = self.store.nodes()?.into_iter().find(|(_, node)| node.name == name);
        let known = self.names()?.into_iter().collect();
        found.ok_or_else(|| NodesError::Unknown { meta: self.meta.clone(), name: name.to_owned(), known })
    }

    fn update(&self, id: NodeId, old: &NodeRecord, new: NodeRecord) -> Result<(), NodesError> {
        self.store.update_node(id, old, &new)?;
        Ok(self.store.flush()?)
    }

    /// Is its place there, and its own?
    fn answers(&self, id: NodeId) -> Result<bool, NodesError> {
        let members = opener(&self.store).members(&self.store)?;
        let Some((_, _, node)) = members.into_iter().find(|(member, ..)| *member == id) else { return Ok(false) };
        let answer = runtime()?.block_on(async { Env::system().clock.timeout(PROBE_DEADLINE, node.space()).await });
        Ok(answer.is_ok_and(|space| space.is_ok()))
    }

    /// Is this very node at `url`?
    fn probe(&self, id: NodeId, name: &str, url: &NodeUrl, secret: &Secret) -> Result<(), ProbeError> {
        let identity = NodeIdentity { volume: self.store.volume().volume, node: id };
        let node = kinds().open(&NodeAt { url, name, identity, secret })?;
        let answer = runtime()?.block_on(async { Env::system().clock.timeout(PROBE_DEADLINE, node.space()).await });
        answer.map_err(|_| ProbeError::Silent(PROBE_DEADLINE))??;
        Ok(())
    }

    fn refuse_loss(&self, nodes: &[NodeId]) -> Result<(), NodesError> {
        let loss = Keeper::open(&self.meta, &Env::system())?.loss_without(nodes)?;
        match loss.paths.is_empty() {
            true => Ok(()),
            false => Err(NodesError::WouldLose { meta: self.meta.clone(), loss }),
        }
    }

    /// Refuses to go below the number that a policy in use needs.
    fn keep_enough(&self, name: &str) -> Result<(), NodesError> {
        let (nodes, rule) = (self.store.nodes()?, self.store.placement_rule()?);
        for (_, policy) in self.store.policies()? {
            let code = weft_codes::parse(&policy.code).map_err(EngineError::from)?;
            let others = nodes.iter().map(|(_, node)| node).filter(|node| node.name != name);
            let (left, needed) = (super::places(others, &rule, &*code), code.shape().n);
            if left < needed {
                let (meta, name) = (self.meta.clone(), name.to_owned());
                return Err(NodesError::TooFewLeft { meta, name, left, code: policy.code, needed });
            }
        }
        Ok(())
    }
}

impl Place<'_> {
    fn read(&self) -> Result<(NodeUrl, Secret), NodesError> {
        let url = kinds().parse(self.address)?;
        let secret = key_file::secret(&url, self.key_file)?;
        Ok((url, secret))
    }

    /// A node inside the volume would hold data that is needed to read it, and a node in memory would end with one command.
    fn refuse_unfit(&self, name: &str, url: &NodeUrl) -> Result<(), NodesError> {
        if kinds().about_of(url).is_some_and(|about| !about.is_lasting) {
            return Err(NodesError::InMemory { name: name.to_owned(), url: url.to_string() });
        }
        let Some(path) = url.path() else { return Ok(()) };
        let path = real(path);
        match self.mountpoints.iter().find(|mountpoint| path.starts_with(mountpoint)) {
            None => Ok(()),
            Some(mountpoint) => {
                Err(NodesError::InsideVolume { name: name.to_owned(), path, mountpoint: mountpoint.clone() })
            }
        }
    }
}

/// Absolute and without symbolic links, as far as the path is there.
fn real(path: &Path) -> PathBuf {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = absolute.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let joined = there.and_then(|(above, real)| Some(real.join(absolute.strip_prefix(above).ok()?)));
    // Without the slash that joining nothing leaves.
    joined.unwrap_or(absolute).components().collect()
}

fn check_name(name: &str) -> Result<(), NodesError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || name.len() > 64 || !name.chars().all(allowed) || name.starts_with('-') {
        return Err(NodesError::Name(name.to_owned()));
    }
    Ok(())
}

fn refused(name: &str, what: impl Into<String>) -> NodesError {
    NodesError::State { name: name.to_owned(), what: what.into() }
}

/// A folder as a path, anything else as its address.
fn place_of(record: &NodeRecord) -> String {
    let url = kinds().parse(&record.url).ok();
    url.as_ref().and_then(NodeUrl::files).map_or_else(|| record.url.clone(), |folder| folder.display().to_string())
}
