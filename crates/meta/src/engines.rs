//! The engines: [`memory`] for tests and as the oracle, [`sqlite`] the default. Both pass `conformance.rs`.

pub mod memory;
mod memtable;
pub mod sqlite;

pub use memory::MemoryKv;
pub(crate) use sqlite::WITNESS_BYTES;
pub use sqlite::{OpenError, SqliteKv, is_written_through};
