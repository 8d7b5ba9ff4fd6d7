//! Shard files: a file or a stream of any length as one stream of bytes for each shard, and back.
//!
//! [`Encoder`] gives bytes in the order in which they are written, and never returns to an earlier one. [`Decoder`] asks for bytes in the
//! order in which they lie, the same of all shards at a time, so that it reads pipes as well as files. Neither holds more than one segment.
//!
//! What it never does: open, read or write a file. `crates/format/src/shard_file.rs` has the layout.

mod beginning;
mod decoder;
mod encoder;
mod loss;

pub use beginning::{BEGINNING_BYTES, Beginning, coder, common_header, recognise};
pub use decoder::{Decoder, End, Next, ShardBytes, Trouble};
pub use encoder::Encoder;
pub use loss::{Loss, list};
