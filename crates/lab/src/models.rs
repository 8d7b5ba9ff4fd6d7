//! The arithmetic behind the answers: how likely a file is there, how long data last, and which code suits.

pub mod availability;
pub mod choice;
pub mod durability;
pub mod markov;
pub mod simulation;
