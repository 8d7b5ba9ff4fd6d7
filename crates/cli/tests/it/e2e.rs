//! The whole thing, as a user has it: the real program, real mounts, real kills, real folders taken away.
//!
//! `WEFT_KILL_ROUNDS` and `WEFT_SEED` make the kill test longer or repeat one run of it.

mod damage;
mod drive;
mod faults;
mod kill;
mod loss;
