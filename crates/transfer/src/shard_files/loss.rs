//! Why a file cannot be restored.

use std::ops::Range;

/// Why the bytes of a file, or some of them, cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Loss {
    /// Too little of a segment is left.
    #[error(
        "bytes {} to {} cannot be decoded: {} missing or damaged there, and {code} needs one of them",
        .data.start, .data.end, are(.unusable)
    )]
    TooFew {
        /// Which bytes of the file.
        data: Range<u64>,
        /// The shards.
        unusable: Vec<usize>,
        /// The code.
        code: String,
    },
    /// No shard goes on, and none has the end of the file.
    #[error(
        "every shard ends or is damaged after byte {from} of the file, and none has its end: add more shards, if there are any"
    )]
    Gone {
        /// Bytes of the file before.
        from: u64,
    },
    /// Every frame was sound, and yet the bytes are not those of the file.
    #[error("the decoded bytes differ from the encoded file: their digest is wrong")]
    WrongDigest,
}

/// `shards 1 and 3 are`.
fn are(shards: &[usize]) -> String {
    match shards {
        [one] => format!("shard {one} is"),
        several => format!("shards {} are", list(several)),
    }
}

/// `1, 3 and 4`.
pub fn list(indices: &[usize]) -> String {
    let text: Vec<String> = indices.iter().map(usize::to_string).collect();
    match text.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
