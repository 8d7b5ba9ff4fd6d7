//! One reading of the shard files of a set, from the beginning to the end.

use crate::shard_files::{FileBytes, Set};
use anyhow::Result;
use indicatif::ProgressBar;
use weft_engine::transfers::shard_files::{Decoder, End, Loss, Next, list};
use weft_format::shard_file::Sibling;

/// What a pass over a set has found.
pub struct Pass {
    pub damaged: Vec<usize>,
    /// Length of the file, if an end was found.
    pub file_bytes: Option<u64>,
    /// What the trailers say, if the file is right.
    pub end: Option<End>,
    /// Why the file cannot be made from what is left.
    pub failure: Option<String>,
}

impl Pass {
    /// What all shards are, if it is known.
    pub fn siblings(&self) -> Option<&[Sibling]> {
        self.end.as_ref()?.siblings.as_deref()
    }
}

/// Reads a set: all shards, or those that the data need; `take` gets the file's bytes, in order.
pub fn pass(
    set: &Set,
    all: bool,
    bar: &ProgressBar,
    mut take: impl FnMut(&Decoder<FileBytes<'_>>, &[u8]) -> Result<()>,
) -> Result<Pass> {
    let there = set.there();
    let needed = set.coder.needed(&there);
    let suffice = needed.is_some();
    let present = || (0..there.len()).filter(|shard| there[*shard]).collect();
    let mut decoder = set.decoder(needed.filter(|_| !all).unwrap_or_else(present));
    let (mut data, mut end, mut failure) = (Vec::new(), None, None);
    let mut has_end = false;
    bar.set_position(0);
    loop {
        match decoder.next(&mut data) {
            Ok(Next::Segment) if failure.is_none() => take(&decoder, &data)?,
            Ok(Next::Segment) => {}
            Ok(Next::End(found)) => {
                end = Some(found);
                break;
            }
            Err(loss) => {
                has_end = loss == Loss::WrongDigest;
                let goes_on = all && matches!(loss, Loss::TooFew { .. });
                failure.get_or_insert_with(|| match (&loss, suffice) {
                    (Loss::TooFew { .. } | Loss::Gone { .. }, false) => too_few(set),
                    (loss, _) => loss.to_string(),
                });
                if !goes_on {
                    break;
                }
            }
        }
        bar.set_position(decoder.file_bytes());
    }
    let file_bytes = (end.is_some() || has_end).then(|| decoder.file_bytes());
    let damaged = decoder.troubles().map(|(shard, _)| shard).collect();
    Ok(Pass { damaged, file_bytes, end, failure })
}

pub fn missing(set: &Set) -> Vec<usize> {
    set.there().iter().enumerate().filter(|(_, there)| !**there).map(|(shard, _)| shard).collect()
}

/// The sentence for a set of which too little is left.
fn too_few(set: &Set) -> String {
    let (missing, n) = (missing(set), set.shards.len());
    let (code, tolerance) = (&set.header.code, set.coder.shape().tolerance);
    let which = if missing.len() == 1 { "shard" } else { "shards" };
    format!(
        "{which} {} of {n} are missing, and {code} survives the loss of only {tolerance} for sure: find more of them",
        list(&missing)
    )
}
