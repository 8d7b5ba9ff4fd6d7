//! Policies: few, shared by many directories and files, never changed, removed when nothing has them any more and there are many; and
//! what they say of a segment.

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{BTreeMap, BTreeSet};

use weft_format::records::{Attributes, Kind, PolicyRecord, Timestamp, Wanted, wanted};
use weft_format::{Ino, PolicyId, SegmentId};

use super::txn::Txn;
use super::values::{damaged, decode_number, number};
use super::{Store, milliseconds};
use crate::MetaError;
use crate::keys::{Counter, Key, Table, after, printable, users_of};
use crate::types::PolicyMaker;

/// Different policies of one volume, ...
const MAX_POLICIES: usize = 10_000;
/// ... and how many there are while others than root may make more, so that nobody can use up the table for those who run the volume.
const USER_POLICIES_MAX: usize = 1_000;

/// Inodes looked at in one go, and policies removed in one.
const INODES_PAGE: usize = 1024;
const REMOVED_MAX: usize = 900;

/// All inodes are looked at no sooner again, whoever asks.
const LOOK_AGAIN_S: u64 = 60;

/// Files of a segment looked at in one go.
const USERS_PAGE: usize = 1024;

impl Store {
    /// A policy.
    ///
    /// # Errors
    /// `Damaged` if there is none: ids come from inodes only.
    pub fn policy(&self, policy: PolicyId) -> Result<PolicyRecord, MetaError> {
        self.view(|txn| txn.policy(policy))
    }

    /// All policies, by id.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn policies(&self) -> Result<Vec<(PolicyId, PolicyRecord)>, MetaError> {
        self.view(|txn| txn.policies())
    }

    /// Has what is made in a directory from now on, or what is written to a file, kept as `record` says. Equal records have one
    /// id. What a file has already is for [`Store::wanted_code`] to tell.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory` (neither that nor a file), `TooManyPolicies`.
    pub fn set_policy(&self, ino: Ino, record: &PolicyRecord, now: Timestamp) -> Result<PolicyId, MetaError> {
        self.set_policy_as(PolicyMaker::Administrator, ino, record, now)
    }

    /// The same for a maker. Where there are too many, those go that nothing has.
    ///
    /// # Errors
    /// As [`Store::set_policy`].
    pub fn set_policy_as(
        &self,
        maker: PolicyMaker,
        ino: Ino,
        record: &PolicyRecord,
        now: Timestamp,
    ) -> Result<PolicyId, MetaError> {
        let policies_max = match maker {
            PolicyMaker::Administrator => MAX_POLICIES,
            PolicyMaker::User => USER_POLICIES_MAX,
        };
        match self.try_set_policy(policies_max, ino, record, now) {
            Err(MetaError::TooManyPolicies { .. }) if self.remove_unused_policies(now)? > 0 => {
                self.try_set_policy(policies_max, ino, record, now)
            }
            set => set,
        }
    }

    /// Removes policies that no inode has, some at a time: how many. The newest stays, so that no number is given out twice.
    fn remove_unused_policies(&self, now: Timestamp) -> Result<usize, MetaError> {
        let before = self.policies_looked_at.lock().replace(now);
        if before.is_some_and(|before| now.seconds.abs_diff(before.seconds) < LOOK_AGAIN_S) {
            *self.policies_looked_at.lock() = before;
            return Ok(0);
        }
        let default = self.volume().default_policy;
        self.transact(|txn| {
            // Checked at commit: a policy that something is given meanwhile is used.
            txn.counter(Counter::Policy)?;
            let mut unused: BTreeSet<PolicyId> = txn.policies()?.into_iter().map(|(policy, _)| policy).collect();
            unused.pop_last();
            unused.remove(&default);
            let mut range = Table::Inode.range();
            loop {
                let pairs = txn.look_through(&range, INODES_PAGE)?;
                for (key, value) in &pairs {
                    let attributes = Attributes::decode(value)
                        .map_err(|error| MetaError::Damaged { key: printable(key), detail: error.to_string() })?;
                    unused.remove(&attributes.policy);
                }
                match pairs.last().filter(|_| pairs.len() == INODES_PAGE) {
                    Some((last, _)) => range = after(range, Key::parse(last)),
                    None => break,
                }
            }
            unused.iter().take(REMOVED_MAX).for_each(|policy| txn.remove(Key::Policy(*policy)));
            Ok(unused.len().min(REMOVED_MAX))
        })
    }

    fn try_set_policy(
        &self,
        policies_max: usize,
        ino: Ino,
        record: &PolicyRecord,
        now: Timestamp,
    ) -> Result<PolicyId, MetaError> {
        self.transact(|txn| {
            let mut attributes = txn.inode(ino)?;
            if !matches!(attributes.kind, Kind::Directory | Kind::File) {
                return Err(MetaError::NotDirectory);
            }
            let policies = txn.policies()?;
            let policy = match policies.iter().find(|(_, known)| known == record) {
                Some((policy, _)) => *policy,
                None if policies.len() >= policies_max => {
                    return Err(MetaError::TooManyPolicies { count: policies.len() });
                }
                None => {
                    let policy = PolicyId(policies.last().map_or(0, |(policy, _)| policy.0.saturating_add(1)));
                    txn.put(Key::Policy(policy), record.encode());
                    policy
                }
            };
            let given_count = txn.counter(Counter::Policy)?;
            txn.put(Key::Counter(Counter::Policy), number(given_count.wrapping_add(1)));
            attributes.policy = policy;
            attributes.ctime = now;
            txn.put_inode(&attributes);
            Ok(policy)
        })
    }

    /// How a living segment is to be kept at `now`, going by the policies of the files with bytes in it. Their bytes are as old as
    /// the segment, or as the file's last change, if that is later.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn wanted_code(&self, segment: SegmentId, now: Timestamp) -> Result<Wanted, MetaError> {
        self.view(|txn| {
            let Some(record) = txn.segment(segment)? else { return Ok(Wanted::AsIs) };
            // The index may name files that have left the segment: only where that matters are extents looked at.
            match txn.wanted_code(segment, &record.code, now, |_, _| Ok(true))? {
                Wanted::AsIs => Ok(Wanted::AsIs),
                _ => txn.wanted_code(segment, &record.code, now, |txn, ino| txn.uses(ino, segment)),
            }
        })
    }

    /// Those of some living segments whose files want unlike codes at `now`: a file is looked up once, and one policy is never unlike.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn divided(&self, segments: &[SegmentId], now: Timestamp) -> Result<BTreeSet<SegmentId>, MetaError> {
        let shared = self.view(|txn| {
            let mut of_files = HashMap::new();
            let mut shared = Vec::new();
            for segment in segments {
                if txn.has_unlike_users(*segment, &mut of_files)? {
                    shared.push(*segment);
                }
            }
            Ok(shared)
        })?;
        let mut divided = BTreeSet::new();
        for segment in shared {
            if self.wanted_code(segment, now)? == Wanted::Divided {
                divided.insert(segment);
            }
        }
        Ok(divided)
    }

    /// Does any policy want files to have another code later?
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn has_age_rules(&self) -> Result<bool, MetaError> {
        Ok(self.policies()?.iter().any(|(_, policy)| policy.later.is_some()))
    }
}

impl Txn<'_> {
    /// Shows `look` the files that may have bytes in a segment, until it says no.
    fn each_user(
        &mut self,
        segment: SegmentId,
        mut look: impl FnMut(&mut Self, Ino) -> Result<bool, MetaError>,
    ) -> Result<(), MetaError> {
        let mut range = users_of(segment);
        loop {
            let pairs = self.scan(&range, USERS_PAGE)?;
            for (key, _) in &pairs {
                if let Some(Key::UsedBy(_, ino)) = Key::parse(key)
                    && !look(self, ino)?
                {
                    return Ok(());
                }
            }
            match pairs.last().filter(|_| pairs.len() == USERS_PAGE) {
                Some((last, _)) => range = after(range, Key::parse(last)),
                None => return Ok(()),
            }
        }
    }

    /// Have files that may be in the segment unlike policies? `of_files`: those of files that were looked up.
    fn has_unlike_users(
        &mut self,
        segment: SegmentId,
        of_files: &mut HashMap<Ino, Option<PolicyId>>,
    ) -> Result<bool, MetaError> {
        let mut policies = BTreeSet::new();
        self.each_user(segment, |txn, ino| {
            policies.extend(match of_files.entry(ino) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(unknown) => *unknown.insert(txn.find_inode(ino)?.map(|attributes| attributes.policy)),
            });
            Ok(policies.len() < 2)
        })?;
        Ok(policies.len() > 1)
    }

    fn wanted_code(
        &mut self,
        segment: SegmentId,
        code: &str,
        now: Timestamp,
        mut counts: impl FnMut(&mut Self, Ino) -> Result<bool, MetaError>,
    ) -> Result<Wanted, MetaError> {
        let mut oldest_ms: BTreeMap<PolicyId, u64> = BTreeMap::new();
        self.each_user(segment, |txn, ino| {
            if let Some(attributes) = txn.find_inode(ino)?
                && counts(txn, ino)?
            {
                let changed_ms = milliseconds(attributes.mtime).max(segment.created_ms());
                let oldest_ms = oldest_ms.entry(attributes.policy).or_insert(changed_ms);
                *oldest_ms = changed_ms.min(*oldest_ms);
            }
            Ok(true)
        })?;
        let mut users = Vec::new();
        for (policy, changed_ms) in oldest_ms {
            users.push((self.policy(policy)?, milliseconds(now).saturating_sub(changed_ms)));
        }
        Ok(wanted(code, &users))
    }

    /// A counter that counts from 0; absent: 0.
    fn counter(&mut self, counter: Counter) -> Result<u64, MetaError> {
        let key = Key::Counter(counter);
        Ok(self.get(key)?.map(|bytes| decode_number(&key, &bytes)).transpose()?.unwrap_or(0))
    }

    fn policy(&mut self, policy: PolicyId) -> Result<PolicyRecord, MetaError> {
        let key = Key::Policy(policy);
        let found = self.get(key)?.ok_or_else(|| damaged(&key, "it is missing"))?;
        PolicyRecord::decode(&found).map_err(|error| damaged(&key, error))
    }

    fn policies(&mut self) -> Result<Vec<(PolicyId, PolicyRecord)>, MetaError> {
        let mut policies = Vec::new();
        for (key, value) in self.scan(&Table::Policy.range(), MAX_POLICIES)? {
            let Some(key @ Key::Policy(policy)) = Key::parse(&key) else {
                return Err(MetaError::Damaged { key: printable(&key), detail: "it is no policy".into() });
            };
            policies.push((policy, PolicyRecord::decode(&value).map_err(|error| damaged(&key, error))?));
        }
        Ok(policies)
    }
}

#[cfg(test)]
#[path = "policies_tests.rs"]
mod tests;
