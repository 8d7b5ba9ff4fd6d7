//! WeftFS whole, in one process, under one seeded scheduler: a mount, a worker, metadata and places for shards, programs that use
//! them, and faults that strike between any two steps. The code that runs is the product's own.
//!
//! A seed gives one history, to the byte. What the programs see is compared with a model of what SEMANTICS.md promises.
//!
//! What it never does: read a clock, start a thread, or be imported by anything. Only `chaos/` does the first two: it has real processes.
//!
//! The loop: `a seed -> a world -> steps and faults -> the faults end -> everything is there and whole, or a complaint`.
//!
//! Start reading at `history.rs`, then `world.rs` (who takes part), `faults.rs`, `ambush.rs`, `sequences.rs`, `recovery.rs`, `commands.rs`, `checks.rs`, `workload.rs` and `client.rs` (what
//! programs do), `meddling.rs`, `model.rs` (what is promised to them) and `scheduler.rs`; `many.rs` and `many_care.rs` have several mounts, `engine/mod.rs` is the metadata engine by itself, `gossip.rs` the daemons'
//! membership, `objects.rs` the store without a catalogue; `place.rs` and `metadata.rs` are the disks, `node.rs` and `http.rs` the ways to places.

pub mod ambush;
pub mod chaos;
pub mod checks;
pub mod client;
pub mod commands;
#[cfg(test)]
#[path = "../../codes/tests/it/effort.rs"]
mod effort;
mod ending;
pub mod engine;
pub mod faults;
pub mod gossip;
pub mod history;
pub mod length;
pub mod linear;
pub mod many;
pub mod many_care;
pub mod meddling;
pub mod metadata;
pub mod model;
mod names;
mod node;
pub mod objects;
pub mod place;
pub mod product_log;
pub mod recovery;
pub mod scheduler;
mod sequences;
mod shared_files;
pub mod shrink;
pub mod volume_files;
mod weights;
pub mod workload;
pub mod world;

/// A history asks for memory more often than it does anything else: with this one it takes a tenth less time.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;
