//! The experiments; a line each.

mod availability;
mod choose;
mod chunk_servers;
mod codes;
mod counted;
mod durability;
mod growth;
mod load;
mod many_mounts;
mod mojette;
mod ms_basic;
mod ms_basic_transfers;
mod ncfs;
mod ncfs_transfers;
mod overhead;
mod repaired;
mod video_editing;
mod wide_area;

use crate::error::LabError;
use crate::experiment::Experiment;

/// All experiments, in the order in which they are listed.
#[must_use]
pub fn experiments() -> &'static [&'static dyn Experiment] {
    &[
        &ncfs::Ncfs,
        &ncfs_transfers::NcfsTransfers,
        &mojette::Mojette,
        &video_editing::VideoEditing,
        &availability::Availability,
        &ms_basic::MsBasic,
        &ms_basic_transfers::MsBasicTransfers,
        &overhead::Overhead,
        &chunk_servers::ChunkServers,
        &many_mounts::ManyMounts,
        &codes::Codes,
        &durability::Durability,
        &choose::Choose,
        &wide_area::WideArea,
        &growth::Growth,
    ]
}

/// The experiment of this name.
///
/// # Errors
/// [`LabError::Name`].
pub fn find(name: &str) -> Result<&'static dyn Experiment, LabError> {
    let found = experiments().iter().find(|experiment| experiment.about().name == name);
    found.copied().ok_or_else(|| LabError::Name { name: name.to_owned() })
}

#[cfg(test)]
#[path = "experiments_tests.rs"]
mod tests;
