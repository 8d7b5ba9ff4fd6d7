//! The volume through its public face, over metadata and nodes in memory.

mod access;
mod budgets;
mod compact;
mod crash;
mod deleted;
mod durability;
mod merge;
mod openings;
mod policies;
mod posix;
mod shared;
mod support;
mod threads;
