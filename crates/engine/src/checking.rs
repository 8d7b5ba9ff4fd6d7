//! Is the metadata consistent?

use crate::error::EngineError;
use crate::open_store;
use serde::Serialize;
use weft_env::Env;
use weft_format::records::Timestamp;
use weft_meta::fsck::{self, Mend, Progress, Report};
use weft_meta::{Access, MetaUrl};

/// The result of a check of the metadata.
#[derive(Clone, Debug, Serialize)]
pub struct CheckReport {
    /// Inodes looked at.
    pub inode_count: u64,
    /// Segments looked at.
    pub segment_count: u64,
    /// Everything fits together, or does so again.
    pub is_clean: bool,
    /// The contradictions, in the order in which they were found.
    pub findings: Vec<Finding>,
}

/// Records that contradict each other.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// A sentence.
    pub finding: String,
    /// `impossible`, `possible` or `done`.
    pub mend: &'static str,
}

/// Checks that the metadata at `meta` fits together. With `mend` it corrects values that follow from other records, as the owner. `progress`
/// is called with every page of records.
///
/// # Errors
/// Metadata cannot be read; another process owns the volume that is to be mended.
pub fn check(meta: &MetaUrl, mend: bool, progress: &mut dyn FnMut(Progress)) -> Result<CheckReport, EngineError> {
    if !mend {
        return Ok(report(&fsck::check(&open_store(meta, &Env::system())?, progress)?));
    }
    let store = weft_vfs::open::open_store(meta, Access::Owner, None, &Env::system())?;
    let now_ms = store.env().clock.unix_ms();
    let now = Timestamp { seconds: (now_ms / 1000) as i64, nanoseconds: (now_ms % 1000) as u32 * 1_000_000 };
    Ok(report(&fsck::repair(&store, now, progress)?))
}

fn report(report: &Report) -> CheckReport {
    let finding = |(finding, mend): &(fsck::Finding, Mend)| Finding {
        finding: finding.to_string(),
        mend: match mend {
            Mend::Impossible => "impossible",
            Mend::Possible => "possible",
            Mend::Done => "done",
        },
    };
    CheckReport {
        inode_count: report.inodes,
        segment_count: report.segments,
        is_clean: report.is_clean(),
        findings: report.findings.iter().map(finding).collect(),
    }
}
