//! What a process knows of its part in the house.

use std::sync::atomic::AtomicBool;
use weft_env::sync::Mutex;
use weft_format::Ino;
use weft_meta::{Holding, MetaError, Store};

/// What a process knows of the house.
#[derive(Default)]
pub(crate) struct House {
    /// It falls to this process.
    pub keeps: AtomicBool,
    /// What it has noted.
    pub holding: Mutex<Holding>,
}

impl House {
    /// This process has an inode without a name open from now on.
    pub fn hold(&self, store: &Store, ino: Ino) -> Result<(), MetaError> {
        store.hold(&mut self.holding.lock(), ino)
    }
}
