//! Protocols in, Volume calls out; each gateway is a feature. Today: FUSE.
//!
//! What it never does: decide anything about files. A gateway translates a request into one call of `vfs::Volume`, and
//! its answer back.
//!
//! The loop of every gateway: `request -> translate -> Volume -> translate -> reply`.
//!
//! Start reading at `fuse.rs`.

#[cfg(feature = "fuse")]
pub mod fuse;
