//! Tests that need a program of their own, in which there is nothing but this crate: one counts what its threads allocate, one reads
//! which functions the compiler has left in it.

mod allocations;
mod calls;
