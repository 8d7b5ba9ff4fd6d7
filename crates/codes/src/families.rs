//! The families of codes, one page each: construction, limits and source.
//!
//! # Which one?
//!
//! Take [`rs`], unless you need something that is listed below it. It stores the least for what it survives, any `m` of
//! `k + m`, and is the fastest that does.
//!
//! | you want | take | it costs |
//! |---|---|---|
//! | the simplest code, small files, reads from any shard | [`replica`] | each copy in full |
//! | to survive one loss, XOR only | [`raid5`] | one shard more |
//! | to survive two losses, the bytes of Linux md | [`raid6`] | two shards more |
//! | to survive any `m` losses | [`rs`] | a repair reads `k` shards |
//! | the same with a hundred data shards or more, half of them lost | [`rs`], which then uses Fourier transforms | as above |
//! | to read what klauspost/reedsolomon stored (MinIO, SeaweedFS) | [`rs_klauspost`] | slower than [`rs`] |
//! | to read what ISA-L stored | [`rs_cauchy`]; [`rs_vandermonde`] | slower than [`rs`]; narrow limits |
//! | Cauchy bit-matrices as in Jerasure, XOR only | [`crs`] | eight or four symbols a cell |
//! | a repair that reads few nodes | [`lrc`]; [`lrc_uniform`] for wide stripes and also for global parities | some losses of more than `g + 1` are fatal |
//! | a repair that receives few bytes, from nodes that only send | [`clay`] | many symbols a cell, many small reads |
//! | a repair that receives few bytes, from nodes that compute | [`msr`]; [`basic`] with XOR only | about as many parities as data |
//! | a repair that receives only as much as was lost | [`embr`], from nodes that only send; [`mbr`], from nodes that compute; [`basic_mbr`] with XOR only | up to twice the storage |
//! | projections as in RozoFS, XOR only | [`mojette`] | parities a little longer than data |
//! | cheap encoding at any width, downloads from many unlike servers | [`ldpc`] | a few shards more than `k` are read |
//! | the code of the MS-BASIC paper, to study it | [`msbasic`] | it survives less than the paper says |
//!
//! `weft codes list` prints what each survives, stores and reads, computed by [`crate::analysis`].

pub mod basic;
pub mod basic_mbr;
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
pub mod rs_cauchy;
pub mod rs_klauspost;
pub mod rs_vandermonde;
mod sums;

use crate::code::Code;
use alloc::sync::Arc;

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
        rs_klauspost::FAMILY,
        rs_cauchy::FAMILY,
        rs_vandermonde::FAMILY,
        crs::FAMILY,
        lrc::FAMILY,
        lrc_uniform::FAMILY,
        embr::FAMILY,
        msbasic::FAMILY,
        basic::FAMILY,
        basic_mbr::FAMILY,
        clay::FAMILY,
        msr::FAMILY,
        mbr::FAMILY,
        mojette::FAMILY,
        ldpc::FAMILY,
    ]
}

#[cfg(test)]
#[path = "families/golden_tests.rs"]
mod golden_tests;
