//! The arithmetic behind the answers: how likely a file is there, and how long data last.

pub mod availability;
pub mod durability;
pub mod markov;
pub mod simulation;
