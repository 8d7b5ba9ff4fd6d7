//! Threads that read or write a file each, all at once, as IOzone does.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::thread;
use std::time::Instant;

/// Each block of a file begins with its number, so that what is read is compared. A record is some of them.
pub(super) const BLOCK_BYTES: usize = 4 << 10;

/// In which order a file's records are gone through, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    SequentialWrite,
    SequentialRead,
    RandomRead,
    RandomWrite,
}

impl Access {
    pub(super) const ALL: [Access; 4] =
        [Access::SequentialWrite, Access::SequentialRead, Access::RandomRead, Access::RandomWrite];

    /// As figures and series are named.
    pub(super) fn name(self) -> &'static str {
        match self {
            Access::SequentialWrite => "sequential write",
            Access::SequentialRead => "sequential read",
            Access::RandomRead => "random read",
            Access::RandomWrite => "random write",
        }
    }

    pub(super) fn is_random(self) -> bool {
        matches!(self, Access::RandomRead | Access::RandomWrite)
    }

    fn writes(self) -> bool {
        matches!(self, Access::SequentialWrite | Access::RandomWrite)
    }

    fn open(self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(self.writes()).create(self.writes()).truncate(false).open(path)
    }
}

/// What is done with each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) access: Access,
    /// Of one call: whole blocks.
    pub(super) record_bytes: usize,
    /// Of the file.
    pub(super) records: usize,
    /// This number of these are read or written, each once.
    pub(super) touched: usize,
}

impl Load {
    /// Bytes that are read or written of each file.
    pub(super) fn bytes(&self) -> f64 {
        (self.touched * self.record_bytes) as f64
    }

    /// Runs a thread for each file; the seconds of each, from the start of all.
    ///
    /// # Errors
    /// A sentence, where a file cannot be read or written, or is not what was written.
    pub(super) fn run(&self, paths: &[PathBuf], seed: u64) -> Result<Vec<f64>, String> {
        let together = Barrier::new(paths.len());
        let work = |path: &Path, thread: usize| -> io::Result<f64> {
            let mut order: Vec<usize> = (0..self.records).collect();
            if self.access.is_random() {
                order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed.wrapping_add(thread as u64)));
            }
            let file = self.access.open(path);
            together.wait();
            let began = Instant::now();
            self.go_through(&file?, &order[..self.touched])?;
            Ok(began.elapsed().as_secs_f64())
        };
        thread::scope(|scope| {
            let start = |(thread, path): (usize, &PathBuf)| {
                let (work, path) = (&work, path.clone());
                scope.spawn(move || work(&path, thread).map_err(|error| format!("{}: {error}", path.display())))
            };
            let threads: Vec<_> = paths.iter().enumerate().map(start).collect();
            let joined = threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a thread that reads or writes ended early")?);
            joined.collect()
        })
    }

    /// Bytes a second of all together, from the start of all to the end of the last.
    ///
    /// # Errors
    /// As [`Load::run`].
    pub(super) fn rate(&self, paths: &[PathBuf], seed: u64) -> Result<f64, String> {
        Ok(self.rate_of(&self.run(paths, seed)?))
    }

    /// Bytes a second of threads that took these seconds.
    pub(super) fn rate_of(&self, seconds: &[f64]) -> f64 {
        seconds.len() as f64 * self.bytes() / seconds.iter().copied().fold(0.0, f64::max)
    }

    /// Goes once through records of a file; what is written is on the nodes afterwards.
    fn go_through(&self, file: &File, order: &[usize]) -> io::Result<()> {
        let (mut record, blocks) = (vec![0x5a; self.record_bytes], self.record_bytes / BLOCK_BYTES);
        for &number in order {
            let offset = (number * self.record_bytes) as u64;
            let stamp = |block: usize| ((number * blocks + block) as u64).to_le_bytes();
            if self.access.writes() {
                for (block, bytes) in record.chunks_exact_mut(BLOCK_BYTES).enumerate() {
                    bytes[..8].copy_from_slice(&stamp(block));
                }
                file.write_all_at(&record, offset)?;
                continue;
            }
            file.read_exact_at(&mut record, offset)?;
            if record.chunks_exact(BLOCK_BYTES).enumerate().any(|(block, bytes)| bytes[..8] != stamp(block)) {
                return Err(io::Error::other(format!("record {number} has other bytes than were written")));
            }
        }
        if self.access.writes() { file.sync_all() } else { Ok(()) }
    }
}
