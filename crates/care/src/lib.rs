//! Noticing loss and undoing it: repair queue, rebuild, scrub, collect.
//!
//! What it never does: open metadata (it sees the catalogue of segments through [`catalogue::Catalogue`]), encode bytes
//! (transfer does), or delete on the strength of silence.
//!
//! The loop of every job: `take the next by risk -> transfer -> verify -> commit through the catalogue -> report`.
//!
//! Start reading at `catalogue.rs`, then `queue.rs`, `repair.rs`, `scrub.rs`, `collect.rs`.
