//! The sessions of several mounts, as `weft session` shows them.

use super::cluster::Commander;
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

const COMMAND_DEADLINE: Duration = Duration::from_secs(20);

/// See the module's head.
#[derive(Clone)]
pub struct Sessions {
    commander: Commander,
    processes: Arc<Mutex<Processes>>,
}

#[derive(Default)]
struct Processes {
    /// Behind each mount that is there.
    living: BTreeMap<usize, u32>,
    /// Behind those that have ended.
    dead: BTreeSet<u32>,
}

impl Sessions {
    /// Of the volume that these commands are for.
    pub fn new(commander: Commander) -> Self {
        Self { commander, processes: Arc::default() }
    }

    /// This process is behind a mount now.
    pub fn note_life(&self, mount: usize, process: u32) {
        self.note_end(mount);
        self.processes.lock().living.insert(mount, process);
    }

    /// A mount ends.
    pub fn note_end(&self, mount: usize) {
        let mut processes = self.processes.lock();
        let process = processes.living.remove(&mount);
        processes.dead.extend(process);
    }

    /// Have the sessions of dead processes ended?
    ///
    /// # Errors
    /// The server cannot be asked.
    pub fn are_over(&self) -> anyhow::Result<bool> {
        let processes = self.all()?.into_iter().map(|(_, process)| process).collect::<BTreeSet<_>>();
        Ok(self.processes.lock().dead.is_disjoint(&processes))
    }

    /// Takes the place of a mount away. Had it one?
    ///
    /// # Errors
    /// The server cannot be asked.
    pub fn evict(&self, mount: usize) -> anyhow::Result<bool> {
        let Some(process) = self.processes.lock().living.get(&mount).copied() else { return Ok(false) };
        let Some((session, _)) = self.all()?.into_iter().find(|(_, of)| *of == process) else { return Ok(false) };
        let evicted = self.commander.ask(&["session", "evict"], &[&session.to_string()], COMMAND_DEADLINE)?;
        Ok(evicted.status.success())
    }

    /// Numbers of sessions with their processes.
    fn all(&self) -> anyhow::Result<Vec<(i64, u32)>> {
        let listed = self.commander.ask(&["session", "list", "--json"], &[], COMMAND_DEADLINE)?;
        if !listed.status.success() {
            anyhow::bail!("{}", String::from_utf8_lossy(&listed.stderr).trim());
        }
        let lines: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
        let session = |line: &Value| Some((line["id"].as_i64()?, u32::try_from(line["process"].as_u64()?).ok()?));
        Ok(lines.iter().filter_map(session).collect())
    }
}
