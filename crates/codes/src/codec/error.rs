//! What a codec refuses.

use crate::code::PlanError;
use crate::exec::RunError;
use crate::program::ProgramError;
use crate::spec::SpecError;
use alloc::string::String;

/// Why a codec did nothing; each message is a sentence that names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The spec names no code.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no plan: too many shards are lost, or one does not exist.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A program of the code is invalid; no code of this crate has such.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// A program does not fit what it is run on; no code of this crate has such.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A code of the caller contradicts itself; no code of this crate does.
    #[error("{code} cannot be used: {detail}; correct its implementation of Code")]
    Inconsistent {
        /// Spec of the code.
        code: String,
        /// What does not fit.
        detail: &'static str,
    },
    /// There are fewer or more shards than the code has.
    #[error("{code} has {n} shards but {given} were given; give one entry per shard, None where it is lost")]
    ShardCount {
        /// Spec of the code.
        code: String,
        /// Shards of the code.
        n: usize,
        /// Entries given.
        given: usize,
    },
    /// A shard is longer or shorter than it should be.
    #[error(
        "shard {shard} of {code} has {given} bytes where {expected} are expected; give None for a damaged shard, and the length of the data that was encoded"
    )]
    ShardLength {
        /// Spec of the code.
        code: String,
        /// Index of the shard.
        shard: usize,
        /// Length in bytes that follows from the data, or that the first shard has.
        expected: usize,
        /// Its length in bytes.
        given: usize,
    },
    /// No shard of the code has such a length.
    #[error("a shard of {code} cannot have {shard_bytes} bytes; its length is a multiple of {multiple}")]
    ShardAlignment {
        /// Spec of the code.
        code: String,
        /// Length in bytes of the shards.
        shard_bytes: usize,
        /// What it must be a multiple of.
        multiple: usize,
    },
    /// There are fewer or more pieces than the plan reads.
    #[error("the plan has {expected} reads but {given} pieces were given; give the bytes of each read, in order")]
    ReadCount {
        /// Reads of the plan.
        expected: usize,
        /// Pieces given.
        given: usize,
    },
    /// A piece is longer or shorter than its read.
    #[error(
        "read {read} is {expected} bytes of shard {shard} but {given} were given; if they cannot be read, plan again with that shard among the lost"
    )]
    ReadLength {
        /// Index of the read.
        read: usize,
        /// The shard it reads.
        shard: usize,
        /// Length in bytes of the read.
        expected: usize,
        /// Length in bytes of the piece.
        given: usize,
    },
}
