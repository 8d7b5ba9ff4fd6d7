//! Daemons as members of an object store: how they are asked, and what one of them needs to be one.

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::{Arc, Weak};
use weft_cluster::gossip::{Facts, Liveness};
use weft_daemon::{Cables, Counter, Daemon, DaemonNode, DaemonUrl, Grant, Key, LinkedNode, ObjectHost};
use weft_env::Env;
use weft_format::records::ObjectId;
use weft_format::{NodeId, NodeIdentity, ShardKey, VolumeId};
use weft_nodes::{NodeError, NodeErrorKind};
use weft_objects::{Answer, Host, MemberAt, Neighbourhood, Question, Questions, Rebuilds};

/// The store of the cluster with this key: all daemons with `--objects` and the key are its members.
pub(crate) fn store_of(key: &Key) -> VolumeId {
    VolumeId::from_bytes(key.derived("weft 2026-11-26 the object store of a cluster"))
}

/// Where a member is, if it is known at two places: the greater one counts.
pub(crate) type Precedence = (bool, u64);

/// It is where it is alive, and of two such places where it was started last. The clock may have been behind at that start.
pub(crate) fn precedence(facts: &Facts, liveness: Liveness) -> Precedence {
    (liveness == Liveness::Alive, facts.started_ms)
}

/// The member that these facts are of; `None`: they are of a daemon that is none of this store.
pub(crate) fn identity_of(facts: &Facts, store: VolumeId) -> Option<NodeIdentity> {
    let volume = facts.volume.parse().ok().filter(|volume| *volume == store)?;
    Some(NodeIdentity { volume, node: facts.node.parse().ok()? })
}

/// With which key members are asked.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The cluster's, or that of the grant.
    pub(crate) key: Key,
    /// What it is for; `None`: everything.
    pub(crate) grant: Option<Arc<Grant>>,
}

impl Access {
    /// Which store it is for.
    pub(crate) fn store(&self) -> VolumeId {
        self.grant.as_ref().map_or_else(|| store_of(&self.key), |grant| grant.store)
    }
}

/// A connection to a member.
pub(crate) struct Asked(LinkedNode, String);

impl Asked {
    /// `None`: what it says of itself is no address.
    pub(crate) fn open(
        facts: &Facts,
        identity: NodeIdentity,
        access: &Access,
        cables: &Cables,
        env: &Env,
    ) -> Option<Arc<Self>> {
        let url = DaemonUrl::of_rumour(&facts.address)?;
        let node = DaemonNode::open(&url, &facts.address, identity, Some(access.key.clone()), env).ok()?;
        let node = LinkedNode::new(node.with_grant(access.grant.clone()), &facts.further, cables);
        Some(Arc::new(Self(node, facts.address.clone())))
    }

    /// The member, as its facts and rumours say.
    pub(crate) fn member(self: &Arc<Self>, facts: &Facts, id: NodeId, liveness: Liveness) -> MemberAt {
        let Facts { address, domain, total_bytes, load_bytes, .. } = facts;
        MemberAt {
            id,
            address: address.clone(),
            liveness,
            domain: domain.clone(),
            total_bytes: *total_bytes,
            load_bytes: *load_bytes,
            node: Arc::new(self.0.clone()),
            questions: Arc::clone(self) as Arc<dyn Questions>,
        }
    }
}

#[async_trait]
impl Questions for Asked {
    async fn ask(&self, question: &Question) -> Result<Answer, NodeError> {
        let answer = self.0.ask_objects(question.encode().into()).await?;
        let refused = |error| NodeError::new(NodeErrorKind::WrongNode, &self.1, format!("its answer: {error}"));
        Answer::decode(&answer).map_err(refused)
    }
}

/// This process's own member, for others and for its keeper.
pub(crate) struct Own(pub(crate) Arc<Host>);

impl ObjectHost for Own {
    fn answer(&self, question: &[u8], grant: Option<&Grant>) -> Result<Vec<u8>, NodeError> {
        let refused = |error| NodeError::new(NodeErrorKind::Unsupported, "this member", format!("{error}"));
        let question = Question::decode(question).map_err(refused)?;
        let Some(grant) = grant else { return Ok(self.0.answer(&question)?.encode()) };
        let is_granted = match question {
            // Who writes looks for the version before.
            Question::Find { .. } => grant.may_read || grant.may_write,
            Question::List { .. } => grant.may_list,
            Question::Compare { .. } => false,
        };
        if !is_granted {
            let why = format!("the grant for names that begin with `{}` does not allow this question", grant.prefix);
            return Err(NodeError::new(NodeErrorKind::Denied, "this member", why));
        }
        Ok(self.0.answer_within(&question, &grant.prefix)?.encode())
    }

    fn may_get(&self, key: ShardKey, grant: &Grant) -> bool {
        self.0.name_of(key).is_some_and(|name| name.starts_with(&grant.prefix))
    }

    fn may_put(&self, key: ShardKey, object: &[Bytes], grant: &Grant) -> bool {
        match ObjectId::of(key.segment).is_data {
            // A shard comes before the record of its version. Without one it is a leftover, and never read.
            true => self.0.name_of(key).is_none_or(|name| name.starts_with(&grant.prefix)),
            false => self.0.name_in(key, &object.concat()).is_some_and(|name| name.starts_with(&grant.prefix)),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        let Rebuilds { shards, bytes_read, bytes_written } = self.0.rebuilds();
        let counter = |name, help, value| Counter { name, help, value };
        vec![
            counter("weft_objects_rebuilt_shards_total", "Shards of objects that this member rebuilt.", shards),
            counter("weft_objects_rebuild_read_bytes_total", "Bytes that members sent for these.", bytes_read),
            counter("weft_objects_rebuild_written_bytes_total", "Bytes that were stored of these.", bytes_written),
        ]
    }
}

#[async_trait]
impl Questions for Own {
    async fn ask(&self, question: &Question) -> Result<Answer, NodeError> {
        self.0.answer(question)
    }
}

/// The members that a daemon hears of.
pub(crate) struct Heard {
    pub(crate) daemon: Weak<Daemon>,
    pub(crate) host: Arc<Host>,
    pub(crate) access: Access,
    pub(crate) cables: Cables,
    pub(crate) env: Env,
    pub(crate) asked: Mutex<HashMap<(NodeId, String), Arc<Asked>>>,
}

impl Neighbourhood for Heard {
    fn members(&self) -> Vec<MemberAt> {
        let Some(daemon) = self.daemon.upgrade() else { return Vec::new() };
        let (own, mut open) = (self.host.identity(), self.asked.lock());
        let mut members: HashMap<NodeId, (Precedence, MemberAt)> = HashMap::new();
        for (position, heard) in daemon.heard().into_iter().enumerate() {
            let facts = &heard.facts;
            let is_own = position == 0;
            let identity = if is_own { Some(own) } else { identity_of(facts, own.volume) };
            let Some(identity) = identity.filter(|identity| is_own || identity.node != own.node) else { continue };
            let at = (identity.node, facts.address.clone());
            let connection = match open.get(&at) {
                Some(known) => Arc::clone(known),
                None => {
                    let Some(made) = Asked::open(facts, identity, &self.access, &self.cables, &self.env) else {
                        continue;
                    };
                    open.insert(at, Arc::clone(&made));
                    made
                }
            };
            let mut member = connection.member(facts, identity.node, heard.liveness);
            if is_own {
                member.node = self.host.node_of_keeper();
                member.questions = Arc::new(Own(Arc::clone(&self.host)));
            }
            let precedence = precedence(facts, heard.liveness);
            if members.get(&identity.node).is_none_or(|(before, _)| *before < precedence) {
                members.insert(identity.node, (precedence, member));
            }
        }
        open.retain(|(node, address), _| members.get(node).is_some_and(|(_, member)| member.address == *address));
        members.into_values().map(|(_, member)| member).collect()
    }
}
