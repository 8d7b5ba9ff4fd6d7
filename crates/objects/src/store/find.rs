//! Looking for a name: the closest members first, then those further away.

use super::{ObjectStore, Stat};
use crate::care::is_short;
use crate::closest::closest;
use crate::error::ObjectError;
use crate::question::{Answer, Found, Question};
use crate::versions::{Findings, Version, places, versions};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::collections::BTreeSet;
use std::time::Duration;
use weft_cluster::gossip::Liveness;
use weft_format::records::{ObjectRecord, check_object_name, name_hash, record_key};
use weft_format::{NodeId, ShardKey};
use weft_nodes::node::SHARD_BYTES_MAX;
use weft_nodes::{NodeError, NodeErrorKind};

/// A member that does not say in this time what it has of a name is silent.
pub(super) const FIND_DEADLINE: Duration = Duration::from_secs(3);

/// Rounds in which late members are asked again, where an object cannot be read without them. Each waits twice as long as the one before:
/// 90 s in all.
const LATE_ROUNDS: u32 = 4;

/// The same of a record, which may be long.
const RECORD_DEADLINE: Duration = Duration::from_secs(60);

/// An object that was put with success, or removed, has its record at this many members at least, unless its code has one shard only: where
/// fewer are silent, one of the others knows the name.
pub(super) const RECORDS_MIN: usize = 2;

/// This many members are asked first: more than a common code has shards, so that what lies at alternates is found, too.
const FIRST_ASKED: usize = 24;

impl ObjectStore {
    /// What the members closest to a name say of it: at least the `width` closest.
    pub(crate) async fn find(&self, hash: u64, width: usize) -> Findings {
        let asked = width.saturating_mul(2).max(FIRST_ASKED);
        let near: Vec<NodeId> = closest(&self.view, hash, width.max(1)).all().take(asked).collect();
        self.find_at(hash, near, FIND_DEADLINE).await
    }

    /// Asks the `width` closest that were not asked yet; were there any?
    async fn find_close(&self, hash: u64, width: usize, findings: &mut Findings) -> bool {
        let is_new = |node: &NodeId| !findings.answers.contains_key(node) && !findings.silent.contains_key(node);
        let near: Vec<NodeId> = closest(&self.view, hash, width).nodes.into_iter().filter(is_new).collect();
        let are_there = !near.is_empty();
        findings.add(self.find_at(hash, near, FIND_DEADLINE).await);
        are_there
    }

    /// What all members say that were not asked yet, those that are dead by rumour included.
    pub(crate) async fn find_further(&self, hash: u64, findings: &mut Findings) {
        let asked: BTreeSet<NodeId> = findings.answers.keys().chain(findings.silent.keys()).copied().collect();
        let others = self.members.keys().copied().filter(|node| !asked.contains(node)).collect();
        findings.add(self.find_at(hash, others, FIND_DEADLINE).await);
    }

    /// What all members say now, those included that have answered before.
    pub(crate) async fn find_everywhere(&self, hash: u64) -> Findings {
        self.find_at(hash, self.members.keys().copied().collect(), FIND_DEADLINE).await
    }

    /// Asks late members again, in round `round` of those; `false`: there is none, or they were asked often enough.
    pub(crate) async fn find_late(&self, hash: u64, round: u32, findings: &mut Findings) -> bool {
        let late = findings.late();
        if late.is_empty() || round >= LATE_ROUNDS {
            return false;
        }
        let deadline = FIND_DEADLINE * 2u32.pow(round + 1);
        let until = self.env.clock.now() + deadline;
        findings.add(self.find_at(hash, late.clone(), deadline).await);
        // Who is busy says so at once.
        if findings.late() == late {
            self.env.clock.sleep_until(until).await;
        }
        true
    }

    /// What these members say.
    pub(crate) async fn find_at(&self, hash: u64, nodes: Vec<NodeId>, deadline: Duration) -> Findings {
        let question = &Question::Find { hash };
        let ask = |node: NodeId| async move { (node, self.ask_until(node, question, deadline).await) };
        let mut asked: FuturesUnordered<_> = nodes.into_iter().map(ask).collect();
        let mut findings = Findings::default();
        while let Some((node, answer)) = asked.next().await {
            match answer {
                Ok(Answer::Found(found)) => drop(findings.answers.insert(node, found)),
                Ok(_) => drop(findings.silent.insert(node, self.cannot_say(node, "its answer is to another question"))),
                Err(error) => drop(findings.silent.insert(node, error)),
            }
        }
        findings
    }

    fn cannot_say(&self, node: NodeId, why: &str) -> NodeError {
        NodeError::new(NodeErrorKind::Unavailable, &self.address(node), why)
    }

    pub(crate) async fn ask(&self, node: NodeId, question: &Question) -> Result<Answer, NodeError> {
        self.ask_until(node, question, FIND_DEADLINE).await
    }

    async fn ask_until(&self, node: NodeId, question: &Question, deadline: Duration) -> Result<Answer, NodeError> {
        let Some(member) = self.members.get(&node) else { return Err(self.cannot_say(node, "it is no member")) };
        match self.env.clock.timeout(deadline, member.questions.ask(question)).await {
            Ok(answer) => answer,
            Err(_) => {
                let detail = format!("it did not answer within {} s", deadline.as_secs());
                Err(NodeError::new(NodeErrorKind::TimedOut, &member.address, detail))
            }
        }
    }

    /// A record, from a member.
    ///
    /// # Errors
    /// Why it cannot be had there; a clause.
    pub(crate) async fn fetch(&self, node: NodeId, key: ShardKey) -> Result<ObjectRecord, String> {
        let Some(at) = self.transfer.fleet().get(node) else { return Err("it is no member".to_owned()) };
        // A node has hours for the longest shard that there can be.
        match self.env.clock.timeout(RECORD_DEADLINE, at.get(key, 0..SHARD_BYTES_MAX)).await {
            Ok(Ok(object)) => ObjectRecord::unseal(self.volume, key, &object).map_err(|error| error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("{} did not answer within {} s", self.address(node), RECORD_DEADLINE.as_secs())),
        }
    }

    /// The record of a version, from a member that has it.
    pub(crate) async fn record(&self, name: &str, version: &Version) -> Result<ObjectRecord, ObjectError> {
        if let Some(record) = &version.record {
            return Ok(record.clone());
        }
        let key = record_key(name_hash(name), version.stamp);
        let mut why = "no member has it".to_owned();
        for node in &version.holders {
            match self.fetch(*node, key).await {
                Ok(record) if record.name == name => return Ok(record),
                Ok(_) => why = format!("{} has a record of another name", self.address(*node)),
                Err(error) => why = error,
            }
        }
        Err(ObjectError::NoRecord { name: name.to_owned(), version: version.stamp.to_string(), why })
    }

    /// The versions of a name, the newest first, and what was found; all members are asked where the closest know nothing. Where nobody
    /// knows it, and silent members may hide an object that has its record at `records` members, those that are late are waited for; `None`: that
    /// makes no difference.
    pub(crate) async fn look(
        &self,
        name: &str,
        width: usize,
        records: Option<usize>,
    ) -> Result<(Vec<Version>, Findings), ObjectError> {
        check_object_name(name)?;
        let hash = name_hash(name);
        let mut findings = self.find(hash, width).await;
        let mut found = versions(name, &findings);
        if found.is_empty() {
            self.find_further(hash, &mut findings).await;
            found = versions(name, &findings);
        }
        for round in 0.. {
            let is_open = found.is_empty() && records.is_some_and(|records| self.may_hide(hash, &findings, records));
            if !is_open || !self.is_any_late(&findings) || !self.find_late(hash, round, &mut findings).await {
                break;
            }
            found = versions(name, &findings);
        }
        if findings.answers.is_empty() {
            return Err(ObjectError::Silent { why: findings.why_silent() });
        }
        Ok((found, findings))
    }

    /// The newest version, if that has contents.
    pub(crate) async fn newest(&self, name: &str) -> Result<(ObjectRecord, Vec<Version>, Findings), ObjectError> {
        let (mut found, mut findings) = self.look(name, 1, Some(RECORDS_MIN)).await?;
        if let Some(newest) = found.first() {
            let mut record = self.record(name, newest).await?;
            // How many members are close depends on the code. Of those that were not asked yet one may have a newer version.
            if self.find_close(name_hash(name), usize::from(record.width), &mut findings).await {
                found = versions(name, &findings);
                if let Some(newest) = found.first().filter(|newest| newest.stamp != record.stamp) {
                    record = self.record(name, newest).await?;
                }
            }
            if record.contents().is_some() {
                return Ok((record, found, findings));
            }
        }
        let is_hidden = found.is_empty() && self.may_hide(name_hash(name), &findings, RECORDS_MIN);
        Err(self.absent(name, is_hidden, &findings))
    }

    /// The error for a name of which no contents were found. `is_hidden`: silent members may have it.
    pub(crate) fn absent(&self, name: &str, is_hidden: bool, findings: &Findings) -> ObjectError {
        let (name, answered, silent) = (name.to_owned(), findings.answers.len(), findings.silent.len());
        match is_hidden {
            true => ObjectError::Unknown { name, answered, silent, why: findings.why_silent() },
            false => ObjectError::NotFound { name, answered },
        }
    }

    /// May the silent members be all that know an object which has its record at `records` members at least? Those that are dead by rumour
    /// may know it as well. An object of another code may have fewer records, but after two rounds of keepers those closest to the name have
    /// one.
    pub(crate) fn may_hide(&self, hash: u64, findings: &Findings, records: usize) -> bool {
        let closest = closest(&self.everyone(), hash, RECORDS_MIN).nodes;
        let is_silent = |node: &NodeId| findings.silent.contains_key(node);
        findings.silent.len() >= records || (closest.len() == RECORDS_MIN && closest.iter().all(is_silent))
    }

    /// Is a late member there, by rumour?
    fn is_any_late(&self, findings: &Findings) -> bool {
        let is_there = |node: &NodeId| self.members.get(node).is_some_and(|member| member.liveness != Liveness::Dead);
        findings.late().iter().any(is_there)
    }

    /// What is known of an object.
    ///
    /// # Errors
    /// It is not there, or nobody says so.
    pub async fn stat(&self, name: &str) -> Result<Stat, ObjectError> {
        let (mut record, mut found, mut findings) = self.newest(name).await?;
        if is_short(&record, &findings) {
            // Members that came later are closer now.
            self.find_further(name_hash(name), &mut findings).await;
            found = versions(name, &findings);
            if let Some(newest) = found.first().filter(|newest| newest.stamp != record.stamp) {
                record = self.record(name, newest).await?;
            }
        }
        let Some(contents) = record.contents() else { return Err(self.absent(name, false, &findings)) };
        let hash = name_hash(name);
        let there = |number: usize| places(hash, record.stamp, number as u32, &findings).len();
        let shards = (0..contents.segments.len()).map(|number| (there(number), usize::from(record.width)));
        Ok(Stat {
            name: name.to_owned(),
            version: record.stamp,
            bytes: contents.bytes,
            code: contents.code.clone(),
            digest: contents.digest,
            record_copies: found.first().map_or(0, |version| version.holders.len()),
            shards: shards.collect(),
            at_alternates: contents.alternates.iter().filter(|alternate| alternate.node.is_some()).count(),
            silent: findings.silent.len(),
        })
    }

    /// How many answers with something of a name there are, for those who write about it.
    pub(crate) fn holders(findings: &Findings) -> BTreeSet<NodeId> {
        let has_something = |found: &Found| !found.records.is_empty() || !found.shards.is_empty();
        findings.answers.iter().filter(|(_, found)| has_something(found)).map(|(node, _)| *node).collect()
    }
}
