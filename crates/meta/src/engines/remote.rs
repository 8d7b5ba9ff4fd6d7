//! What engines on servers share: values that the owner remembers, kinds of failure, threads, and notes on this machine.

pub(super) mod backup;
pub(super) mod cache;
pub(super) mod failure;
mod fresh;
pub(super) mod note;
pub(super) mod place;
pub(super) mod process;
pub(super) mod recall;
pub(super) mod task;
