//! POSIX semantics: the [`Volume`]. The only crate where metadata and transfer meet, and the only one that knows errno.
//!
//! What it never does: speak a protocol (gateways do), lay out bytes (format and transfer do), decide about segments after
//! they are written (care does).
//!
//! The write loop: dirty bytes of a file -> a segment of its own, or a segment shared by many small files -> transfer.write
//! -> one metadata commit. The read loop: extents and dirty bytes -> transfer.read -> bytes.
//!
//! Start reading at `volume.rs`, then `write_back.rs`.
