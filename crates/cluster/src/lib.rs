//! Who is alive and where shards go.
//!
//! Pure deciders: [`placement`] is a function of a [`View`] and a request; [`membership`] turns node records and
//! observations into that view, with the help of [`estimator`], a state machine of one node's failures;
//! [`gossip`] is which daemons there are, by rumour. Time is an
//! argument everywhere; who has sockets drives it.
//!
//! What it never does: I/O of its own, read a clock, read metadata. It imports `format` only.
//!
//! The loop: `records + observations at a time -> view -> place -> nodes by shard index and alternates`.
//!
//! Start reading at `placement.rs`, then `membership.rs`, `estimator.rs`, `gossip.rs`.

pub mod estimator;
pub mod gossip;
pub mod membership;
pub mod placement;

pub use estimator::{Health, Observation};
pub use membership::{Member, Membership, View};
pub use placement::{
    Balance, Holdings, Layout, Load, LossRisk, PASSES, Pass, Placement, PlacementError, PlacementRequest, Relocation,
    Room, even_load, full_nodes, loss_risk, place, place_groups, place_lost, set_count, usable_room,
};
