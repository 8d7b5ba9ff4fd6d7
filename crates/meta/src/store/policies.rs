//! Policies: few, shared by many directories, never changed and never removed.

use weft_format::records::{PolicyRecord, Timestamp};
use weft_format::{Ino, PolicyId};

use super::Store;
use super::txn::Txn;
use super::values::damaged;
use crate::MetaError;
use crate::keys::{Key, Table, printable};

/// Different policies of one volume.
const MAX_POLICIES: usize = 10_000;

impl Store {
    /// A policy.
    ///
    /// # Errors
    /// `Damaged` if there is none: ids come from inodes only.
    pub fn policy(&self, policy: PolicyId) -> Result<PolicyRecord, MetaError> {
        let key = Key::Policy(policy);
        let found = self.view(|txn| txn.get(key))?.ok_or_else(|| damaged(&key, "it is missing"))?;
        PolicyRecord::decode(&found).map_err(|error| damaged(&key, error))
    }

    /// All policies, by id.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn policies(&self) -> Result<Vec<(PolicyId, PolicyRecord)>, MetaError> {
        self.view(|txn| txn.policies())
    }

    /// Has what is made in `directory` from now on kept as `record` says. Equal records have one id.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Refused` (too many policies).
    pub fn set_policy(&self, directory: Ino, record: &PolicyRecord, now: Timestamp) -> Result<PolicyId, MetaError> {
        self.transact(|txn| {
            let mut attributes = txn.directory(directory)?;
            let policies = txn.policies()?;
            let policy = match policies.iter().find(|(_, known)| known == record) {
                Some((policy, _)) => *policy,
                None if policies.len() >= MAX_POLICIES => {
                    let sentence =
                        format!("the volume has {MAX_POLICIES} policies, and can have no more: use one of them");
                    return Err(MetaError::Refused(sentence));
                }
                None => {
                    let policy = PolicyId(policies.last().map_or(0, |(policy, _)| policy.0.saturating_add(1)));
                    txn.put(Key::Policy(policy), record.encode());
                    policy
                }
            };
            attributes.policy = policy;
            attributes.ctime = now;
            txn.put_inode(&attributes);
            Ok(policy)
        })
    }
}

impl Txn<'_> {
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
