//! The names in a node's folder, and what they stand for.

use weft_format::ShardKey;

/// The file at a node folder's root that says who it is.
pub const IDENTITY_FILE: &str = "weft-node.json";

/// What the names of unfinished files begin with; no shard's name does.
pub(crate) const TEMPORARY_PREFIX: &str = "unfinished-";

/// The subfolder of a shard: the last two digits of its segment's id, which are random, so that all fill alike.
pub(crate) fn subfolder(key: ShardKey) -> String {
    format!("{:02x}", key.segment.0 as u8)
}

/// Where the file of a shard is.
pub(super) fn file_path(key: ShardKey) -> String {
    format!("{:02x}/{key}", key.segment.0 as u8)
}

/// Is this the name of a subfolder of shards?
pub(crate) fn is_subfolder(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
