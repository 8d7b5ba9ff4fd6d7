//! How segments move, as faces choose and watch it; and files and streams that are encoded without a volume.

pub use weft_transfer::{DiskRoom, Profile, Settings, objects, shard_files, trace};
