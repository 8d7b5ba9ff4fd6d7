//! How far an fsync goes: by default until the engine has everything; where somebody chose so, until the volume's nodes have the metadata, too.

use super::Store;
use super::values;
use crate::MetaError;
use crate::keys::Key;

/// Waits until nodes have everything that was committed before; or why they have not.
pub(super) type Wait = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

impl Store {
    /// Does an fsync wait until nodes have the metadata?
    ///
    /// # Errors
    /// Those of the engine.
    pub fn is_in_step(&self) -> Result<bool, MetaError> {
        self.view(|txn| Ok(txn.look(Key::Protection)?.is_some()))
    }

    /// Chooses that, for all processes from now on.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn set_in_step(&self, is_in_step: bool) -> Result<(), MetaError> {
        self.transact_shared(|txn| {
            txn.free_room();
            match is_in_step {
                true => txn.put(Key::Protection, values::mark()),
                false => txn.remove(Key::Protection),
            }
            Ok(())
        })?;
        self.flush()
    }

    /// Who waits for the nodes, in a process that keeps the replica.
    pub fn wait_by(&self, wait: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        // There is one keeper.
        let _ = self.nodes_have_it.set(Box::new(wait));
    }

    /// Everything committed before is durable, and on the nodes where this process keeps the replica.
    ///
    /// # Errors
    /// The engine's; [`MetaError::Behind`].
    pub fn sync_to_nodes(&self) -> Result<(), MetaError> {
        self.flush()?;
        self.nodes_have_it.get().map_or(Ok(()), |wait| wait().map_err(MetaError::Behind))
    }

    /// What a program's fsync asks for: everything committed before is durable, and on the nodes if that was chosen.
    ///
    /// # Errors
    /// The engine's; [`MetaError::Behind`].
    pub fn sync(&self) -> Result<(), MetaError> {
        if self.nodes_have_it.get().is_some() && self.is_in_step()? { self.sync_to_nodes() } else { self.flush() }
    }
}
