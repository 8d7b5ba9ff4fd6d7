//! Noticing loss and undoing it: repair queue, rebuild, scrub, balance, collect; and giving segments the code that is wanted of them.
//!
//! What it never does: open metadata (it sees the catalogue of segments through [`catalogue::Catalogue`]), encode bytes
//! (transfer does), or delete on the strength of silence.
//!
//! The loop of every job: `take the next by risk -> transfer -> verify -> commit through the catalogue -> report`.
//!
//! Start reading at `catalogue.rs`, then `standing.rs` (the verdict on a shard), `state.rs` (and on a segment), `queue.rs`, `mend.rs` (one segment),
//! `repair.rs`, `balance.rs`, `scrub.rs`, `convert.rs`, `collect.rs`.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod balance;
pub mod board;
pub mod catalogue;
pub mod census;
mod clock;
pub mod collect;
pub mod convert;
pub mod damage;
pub mod faulty_helpers;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod glance;
pub mod job;
pub mod lease;
pub mod look;
pub mod margin;
mod marks;
pub mod mend;
pub mod openings;
pub mod queue;
pub mod record;
pub mod repair;
pub mod roster;
mod run;
pub mod scrub;
pub mod standing;
pub mod state;
pub mod watch;
pub mod worker;

pub use board::Board;
pub use catalogue::{Catalogue, CatalogueError, Renewed, Summed, Surveyed};
pub use census::{CareError, CodeTally, DEGRADED_NAMED, Dead, Tally};
pub use damage::noted_standings;
pub use faulty_helpers::{Faults, FaultyHelpers};
pub use glance::{glance, glance_with_dead};
pub use job::{Job, Progress};
pub use margin::Margins;
pub use record::{ConvertRecord, JobRecord};
pub use roster::{Away, NodeFacts, Reach, Roster};
pub use run::Failure;
pub use standing::{Loss, Misplacement, Standing, standings};
