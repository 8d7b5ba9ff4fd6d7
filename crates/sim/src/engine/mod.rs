//! The SQLite engine (`weft_meta::engines::sqlite`) itself: its threads in every order that a seed says, on real files, of which a crash
//! takes what was not synced.
//!
//! The threads of a process are fibres of the scheduler. Each lock, each wait and each thing made durable is a step
//! (`weft_env::steps`), at which another may run, or the process dies. The bounds of the engine are small, so that few commits fill its log.
//!
//! The loop: `open -> what is found is explained by what was acknowledged -> threads commit, look and flush -> death -> open`.
//!
//! `behind.rs` does so with the write-behind that owners on servers have.
//!
//! Start reading at `history.rs`, then `program.rs` (what threads do), `crash.rs` (steps), `disk.rs` (what a crash leaves) and `order.rs`
//! (what is promised).

pub mod behind;
mod crash;
mod disk;
pub mod history;
mod order;
mod program;
