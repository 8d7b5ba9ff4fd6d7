//! The families of codes, one file each: construction, limits and source.

pub mod basic;
pub mod clay;
pub mod crs;
pub mod embr;
pub mod ldpc;
pub mod lrc;
pub mod lrc_uniform;
pub mod mbr;
pub mod mojette;
pub mod msbasic;
pub mod msr;
mod parameters;
mod product_matrix;
pub mod raid5;
pub mod raid6;
pub mod replica;
mod ring;
pub mod rs;
pub mod rs_vandermonde;
mod sums;

use crate::code::Code;
use std::sync::Arc;

pub use parameters::Problem;

/// A family of codes.
#[derive(Clone, Copy, Debug)]
pub struct Family {
    /// What a spec string begins with.
    pub name: &'static str,
    /// How its spec strings are written.
    pub syntax: &'static str,
    /// A spec string that works.
    pub example: &'static str,
    /// What it is, in one line.
    pub description: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Builds the code from what follows the colon.
    pub build: fn(parameters: &str) -> Result<Arc<dyn Code>, Problem>,
}

/// All families, simplest first.
#[must_use]
pub fn families() -> &'static [Family] {
    &[
        replica::FAMILY,
        raid5::FAMILY,
        raid6::FAMILY,
        rs::FAMILY,
        rs_vandermonde::FAMILY,
        crs::FAMILY,
        lrc::FAMILY,
        lrc_uniform::FAMILY,
        embr::FAMILY,
        msbasic::FAMILY,
        basic::FAMILY,
        clay::FAMILY,
        msr::FAMILY,
        mbr::FAMILY,
        mojette::FAMILY,
        ldpc::FAMILY,
    ]
}
