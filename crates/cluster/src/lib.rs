//! Who is alive and where shards go.
//!
//! Pure deciders: [`placement`] is a function; [`membership`] is a state machine fed with events and the time. Later a
//! gossip driver will be the only file here with sockets.
//!
//! What it never does: I/O of its own, read a clock, read metadata. It imports `format` only.
//!
//! Start reading at `placement.rs`, then `membership.rs`.
