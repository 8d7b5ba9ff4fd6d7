//! Care over a catalogue in memory and nodes that fail on purpose.

mod attempts;
mod balance;
mod clocks;
mod collect;
mod convert;
#[path = "../../../codes/tests/it/effort.rs"]
mod effort;
mod harness;
mod incidents;
mod merge;
mod reaping;
mod repair;
mod scrub;
mod worker;
