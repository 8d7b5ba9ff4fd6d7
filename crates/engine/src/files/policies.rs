//! The policies of directories and files, and changes of them.

use super::error::refused;
use super::{FilesError, Result, Tree, Visit, Walk, require};
use serde::Serialize;
use std::path::{Path, PathBuf};
use weft_format::records::{Kind, Later, PolicyRecord, Sizes};
use weft_vfs::{policy_for, policy_text};

/// The policy of a directory or file.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyReport {
    /// Whose.
    pub path: PathBuf,
    /// The code of new data.
    pub policy: String,
    /// Nodes that it needs.
    pub nodes: usize,
    /// Nodes that may be lost.
    pub tolerance: usize,
    /// The code of data that has not changed for `later_after_ms`.
    pub later: Option<String>,
    /// Milliseconds.
    pub later_after_ms: Option<u64>,
    /// Losses that new data survives at once; missing: every shard is stored except those of nodes that are away.
    pub write_margin: Option<u16>,
    /// Data bytes of a full segment; missing: as suits the code.
    pub segment_bytes: Option<u64>,
    /// Bytes of a shard in a full stripe; missing: as suits the code.
    pub cell_bytes: Option<u32>,
}

/// Changes of a policy. `Some(None)` unsets a value; `None` leaves it as it is.
#[derive(Clone, Debug)]
pub struct Change {
    /// The code.
    pub to: To,
    /// Losses that new data survives at once.
    pub write_margin: Option<Option<u16>>,
    /// Data bytes of a full segment.
    pub segment_bytes: Option<Option<u64>>,
    /// Bytes of a shard in a full stripe.
    pub cell_bytes: Option<Option<u32>>,
}

/// Which code, and when.
#[derive(Clone, Debug)]
pub enum To {
    /// This code, for good.
    Now(String),
    /// The code that there is, and this one later.
    Later(Later),
}

/// The policy of `path`.
///
/// # Errors
/// Nothing is there, or its policy cannot be read.
pub fn report(tree: &dyn Tree, path: &Path) -> Result<PolicyReport> {
    let PolicyRecord { code, later, write_margin, sizes } = policy_for(&text(tree, path)?)?;
    let Sizes { segment_bytes, cell_bytes } = sizes;
    let parsed = weft_codes::parse(&code).map_err(crate::EngineError::from)?;
    let (nodes, tolerance) = (parsed.shape().n, parsed.shape().tolerance);
    let (later, later_after_ms) = later.map(|later| (later.code, later.after_ms)).unzip();
    let path = path.to_owned();
    Ok(PolicyReport {
        path,
        policy: code,
        nodes,
        tolerance,
        later,
        later_after_ms,
        write_margin,
        segment_bytes,
        cell_bytes,
    })
}

/// The policy of `path` as people write it.
///
/// # Errors
/// Nothing is there, or its policy cannot be read.
pub fn text(tree: &dyn Tree, path: &Path) -> Result<String> {
    require(tree, path)?;
    tree.policy(path)
}

/// Changes the policy of a directory, for new entries; with `below` also of everything in it. How many files it
/// reached.
///
/// # Errors
/// It is no directory; it is written by the later code already; the code does not take these sizes.
pub fn set(tree: &dyn Tree, directory: &Path, change: &Change, below: bool) -> Result<u64> {
    if require(tree, directory)?.kind != Kind::Directory {
        return refused(format!("{} is not a directory: policies are set on directories", directory.display()));
    }
    if let To::Later(later) = &change.to
        && policy_for(&tree.policy(directory)?)?.code == later.code
    {
        let (directory, code) = (directory.display(), &later.code);
        return refused(format!(
            "new files in {directory} have the code {code} already: choose another code for later"
        ));
    }
    if !below {
        apply(change, tree, directory)?;
        return Ok(0);
    }
    let mut files = 0;
    // A directory first, so that entries made in it meanwhile have the new policy too.
    let mut walk = Walk::new(tree, directory)?;
    while let Some((visit, path, entry)) = walk.step()? {
        match (visit, entry.kind) {
            (Visit::Enter, _) => apply(change, tree, &path)?,
            (Visit::Other, Kind::File) => {
                apply(change, tree, &path)?;
                files += 1;
            }
            (Visit::Leave | Visit::Other, _) => {}
        }
    }
    Ok(files)
}

fn apply(change: &Change, tree: &dyn Tree, path: &Path) -> std::result::Result<(), FilesError> {
    let before = policy_for(&tree.policy(path)?)?;
    let write_margin = change.write_margin.unwrap_or(before.write_margin);
    let sizes = Sizes {
        segment_bytes: change.segment_bytes.unwrap_or(before.sizes.segment_bytes),
        cell_bytes: change.cell_bytes.unwrap_or(before.sizes.cell_bytes),
    };
    let after = match &change.to {
        To::Now(code) => PolicyRecord { sizes, ..PolicyRecord::of(code, write_margin) },
        To::Later(later) => {
            let later = Some(later.clone()).filter(|later| later.code != before.code);
            PolicyRecord { later, write_margin, sizes, ..before }
        }
    };
    tree.set_policy(path, &policy_text(&after))
}
