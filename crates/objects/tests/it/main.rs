//! The store over members in memory, with their keepers, in virtual time.

mod cluster;
mod keeping;
mod objects;
mod pace;
mod silence;
