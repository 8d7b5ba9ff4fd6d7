//! Objects without a catalogue: a client needs some daemons of the cluster, its key, and a name. See `weft-objects`.

use crate::EngineError;
use crate::cluster::{ClusterMember, report_by};
use crate::key_file;
use crate::object_member::{Access, Asked, Precedence, identity_of, precedence, store_of};
use crate::runtime::{Threads, runtime};
use crate::serving::{ServeError, read_key};
use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use weft_daemon::{Cables, Grant};
use weft_env::Env;
use weft_format::NodeId;
use weft_objects::{MemberAt, ObjectStore};
use weft_transfer::Settings;

pub use weft_objects::{Got, KeeperSettings, ListedName, Listing, ObjectError, PutRequest, Stat, Stored};

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ObjectStoreError {
    /// An address, or the key file.
    #[error(transparent)]
    Settings(#[from] ServeError),
    /// Threads.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Nobody answers.
    #[error("no daemon answered: {}", .refused.join("; "))]
    Silent {
        /// Why each did not; a sentence each.
        refused: Vec<String>,
    },
    /// Daemons answer, and hold no objects.
    #[error(
        "none of the {daemons} daemons of this cluster holds objects: start some with `weft node serve --objects --cluster-key FILE`"
    )]
    NoMembers {
        /// Daemons that are known.
        daemons: usize,
    },
}

/// Who may do what with which names, and until when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantRequest {
    /// What the names begin with; empty: all names.
    pub prefix: String,
    /// Read objects.
    pub may_read: bool,
    /// Put and remove objects.
    pub may_write: bool,
    /// List names.
    pub may_list: bool,
    /// For how long from now.
    pub lasts: Duration,
}

/// A line for a file that gives its holder the rights of `request`: it takes the place of the cluster's key.
///
/// # Errors
/// The key file cannot be used.
pub fn grant(request: &GrantRequest, cluster_key: &Path, env: &Env) -> Result<String, ServeError> {
    let key = read_key(cluster_key)?;
    let GrantRequest { prefix, may_read, may_write, may_list, lasts } = request.clone();
    let until_ms = env.clock.unix_ms().saturating_add(lasts.as_millis() as u64);
    Ok(Grant { store: store_of(&key), may_read, may_write, may_list, until_ms, prefix }.to_line(&key))
}

/// The cluster's key or the grant that a file holds.
fn read_access(path: &Path) -> Result<Access, ServeError> {
    match Grant::of_line(&key_file::read(path)?) {
        Ok((grant, key)) => Ok(Access { key, grant: Some(Arc::new(grant)) }),
        Err(_) => Ok(Access { key: read_key(path)?, grant: None }),
    }
}

/// The store of a cluster, open for one client.
pub struct Objects {
    runtime: Threads,
    store: ObjectStore,
}

impl Objects {
    /// Asks each of `from` (`HOST:PORT` or URLs) for the members, with the cluster's key or the grant in the file `cluster_key`; one that answers
    /// is enough.
    ///
    /// # Errors
    /// [`ObjectStoreError`].
    pub fn open(
        from: &[String],
        cluster_key: &Path,
        bytes_per_second: Option<NonZeroU64>,
        env: &Env,
    ) -> Result<Self, ObjectStoreError> {
        let (runtime, access) = (runtime()?, read_access(cluster_key)?);
        let report = runtime.block_on(report_by(from, Some(access.clone()), env))?;
        if report.members.is_empty() {
            return Err(ObjectStoreError::Silent { refused: report.refused });
        }
        let cables = Cables::default();
        let mut members: BTreeMap<NodeId, (Precedence, MemberAt)> = BTreeMap::new();
        for ClusterMember { facts, state, .. } in &report.members {
            let Some(identity) = identity_of(facts, access.store()) else { continue };
            let Some(asked) = Asked::open(facts, identity, &access, &cables, env) else { continue };
            let precedence = precedence(facts, *state);
            if members.get(&identity.node).is_none_or(|(before, _)| *before < precedence) {
                members.insert(identity.node, (precedence, asked.member(facts, identity.node, *state)));
            }
        }
        if members.is_empty() {
            return Err(ObjectStoreError::NoMembers { daemons: report.members.len() });
        }
        let members = members.into_values().map(|(_, member)| member).collect();
        let settings = Settings { cache_bytes: 0, bytes_per_second, ..Settings::default() };
        let store = ObjectStore::new(access.store(), members, settings, env, runtime.handle());
        Ok(Self { runtime, store })
    }

    /// Stores what `source` gives.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn put(&self, request: &PutRequest, source: &mut (dyn std::io::Read + Send)) -> Result<Stored, ObjectError> {
        self.runtime.block_on(self.store.put(request, source))
    }

    /// Gives an object's contents to `sink`, in order.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn get(
        &self,
        name: &str,
        sink: &mut (dyn FnMut(&[u8]) -> std::io::Result<()> + Send),
    ) -> Result<Got, ObjectError> {
        self.runtime.block_on(self.store.get(name, sink))
    }

    /// What is known of an object.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn stat(&self, name: &str) -> Result<Stat, ObjectError> {
        self.runtime.block_on(self.store.stat(name))
    }

    /// Objects whose names begin with `prefix`.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn list(&self, prefix: &str) -> Result<Listing, ObjectError> {
        self.runtime.block_on(self.store.list(prefix))
    }

    /// Removes an object.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub fn remove(&self, name: &str) -> Result<(), ObjectError> {
        self.runtime.block_on(self.store.remove(name)).map(drop)
    }
}
