//! The algebra of erasure codes.
//!
//! What it is: a code says its [`Shape`], and answers two questions with descriptions, never with bytes: how stored
//! symbols follow from native ones ([`Code::encode`]), and what to read, at what price, to get wanted symbols back
//! ([`Code::plan`]). One executor ([`exec`]) runs every [`Program`] of every code.
//!
//! What it never does: I/O, async, clocks, threads, randomness. It imports no other crate of ours.
//!
//! The loop, for encode, degraded read, repair and conversion alike: `plan -> fetch (not here) -> run`.
//!
//! Start reading at `code.rs`, then `families/rs.rs`, then `linear.rs` (the generic engine, the oracle), then `exec.rs`.

pub mod code;
