//! Protocols in, Volume calls out; each gateway is a feature. Today: FUSE.
//!
//! What it never does: decide anything about files. A gateway translates a request into one call of the volume, and its
//! answer back. The kernel checks access for FUSE; every other gateway calls `vfs::Checked`, which checks it.
//!
//! The loop of every gateway: `request -> translate -> vfs::Checked (FUSE: vfs::Volume) -> translate -> reply`.
//!
//! Start reading at `fuse.rs`; `docs/how-to/add-a-gateway.md` says how to add one.

#[cfg(feature = "fuse")]
pub mod fuse;
