//! Targets for fuzzing: decoders of bytes that come from outside, from nodes, networks, metadata files and users.
//!
//! A [`Target`] gives a decoder any bytes. The decoder must not panic, must not hang, and must not take memory for what the bytes only
//! claim ([`Target::check`]); what it accepts must be encoded to something that it reads as the same again.
//!
//! The same targets run in two ways. `tests/it.rs` runs each for a moment, over its corpus and a fixed number of mutations of it. `src/main.rs`
//! is the program that libFuzzer guides by coverage (docs/how-to/fuzz.md).
//!
//! What it never does: decode by itself. Decoders that are private to a crate are in that crate's module `fuzzing`, behind the feature of
//! that name.

mod memory;
mod mutate;
mod seals;
mod targets;

pub use mutate::Mutator;
pub use targets::{MEMBER, TARGETS};

use std::path::{Path, PathBuf};

/// Memory that any decoder may take, for what does not depend on its input.
const BASE_BYTES: usize = 1 << 20;

/// Memory for each byte of input: the JSON text `[],` is three bytes, and 24 in a vector that has just doubled its room.
const BYTES_PER_BYTE: usize = 64;

/// One decoder, or several with inputs alike.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and its corpus's.
    pub name: &'static str,
    /// Decodes any bytes; panics if the decoder is wrong.
    pub run: fn(&[u8]),
    /// Inputs from the encoders.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Memory that it may take beside [`BASE_BYTES`], whatever its input.
    pub own_bytes: usize,
    /// Mutations that are tried as a test: about a second's.
    pub test_runs: u32,
}

impl Target {
    /// Runs it, and watches what memory this thread takes.
    ///
    /// # Panics
    /// The decoder is wrong, or takes more memory than the input justifies.
    pub fn check(&self, input: &[u8]) {
        let most = memory::most_bytes_of(|| (self.run)(input));
        let allowed = BASE_BYTES + self.own_bytes + input.len() * BYTES_PER_BYTE;
        assert!(most <= allowed, "{}: {} bytes of input took {most} bytes of memory", self.name, input.len());
    }

    /// The folder of its corpus.
    #[must_use]
    pub fn corpus_folder(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(self.name)
    }

    /// The inputs of its corpus, by file name.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn corpus(&self) -> std::io::Result<Vec<Vec<u8>>> {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(self.corpus_folder())?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        files.sort();
        files.iter().map(std::fs::read).collect()
    }
}

/// The target of this name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
