//! The families of codes, one page each: construction, limits and source.
//!
//! # Which one?
//!
//! [`rs`], unless something below is more to you than simplicity: it stores the least for what it survives, any `m` of
//! `k + m`, and is the fastest at that.
//!
//! | you want | take | it costs |
//! |---|---|---|
//! | the simplest, small files, reads from anywhere | [`replica`] | each copy in full |
//! | one loss, XOR alone | [`raid5`] | one shard more |
//! | two losses, bytes as Linux md has them | [`raid6`] | two shards more |
//! | any `m` losses | [`rs`] | a repair reads `k` shards |
//! | a hundred data shards or more, half of them lost | [`rs`], it turns to Fourier transforms by itself | as above |
//! | what users of klauspost/reedsolomon stored, MinIO's and SeaweedFS's among them | [`rs_klauspost`] | slower than [`rs`] |
//! | what ISA-L's users stored | [`rs_cauchy`]; [`rs_vandermonde`] | slower than [`rs`]; narrow limits |
//! | Cauchy codes of XORs, as Jerasure has them | [`crs`] | eight or four symbols a cell |
//! | repair that reads few nodes | [`lrc`]; [`lrc_uniform`] for wide stripes and global parities, too | some losses of more than `g + 1` are fatal |
//! | repair that receives little, nodes that only send | [`clay`] | many symbols a cell, many small reads |
//! | repair that receives little, nodes that compute | [`msr`]; [`basic`] with XOR alone | about as many parities as data |
//! | repair that receives what was lost and no more | [`embr`], nodes that only send; [`mbr`], nodes that compute; [`basic_mbr`] with XOR alone | up to twice the storage |
//! | projections as RozoFS has them, XOR alone | [`mojette`] | parities a little longer than data |
//! | cheap encoding however wide, downloads from many unlike servers | [`ldpc`] | a few shards more than `k` are read |
//! | the code of the MS-BASIC paper, to study it | [`msbasic`] | it does not survive what the paper says |
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
