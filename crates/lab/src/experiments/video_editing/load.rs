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

/// What is read or written by one call; the paper names no size.
pub(super) const RECORD_BYTES: usize = 64 << 10;

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

    /// As the figure is named.
    pub(super) fn figure(self) -> &'static str {
        match self {
            Access::SequentialWrite => "sequential write",
            Access::SequentialRead => "sequential read",
            Access::RandomRead => "random read",
            Access::RandomWrite => "random write",
        }
    }

    fn is_random(self) -> bool {
        matches!(self, Access::RandomRead | Access::RandomWrite)
    }

    fn writes(self) -> bool {
        matches!(self, Access::SequentialWrite | Access::RandomWrite)
    }

    fn open(self, path: &Path) -> io::Result<File> {
        OpenOptions::new().read(true).write(self.writes()).create(self.writes()).truncate(false).open(path)
    }

    /// Goes once through all records of a file; what is written is on the nodes afterwards.
    fn go_through(self, file: &File, order: &[usize]) -> io::Result<()> {
        let mut record = vec![0x5a; RECORD_BYTES];
        for &number in order {
            let offset = (number * RECORD_BYTES) as u64;
            if self.writes() {
                record[..8].copy_from_slice(&(number as u64).to_le_bytes());
                file.write_all_at(&record, offset)?;
                continue;
            }
            file.read_exact_at(&mut record, offset)?;
            if record[..8] != (number as u64).to_le_bytes() {
                return Err(io::Error::other(format!("record {number} has other bytes than were written")));
            }
        }
        if self.writes() { file.sync_all() } else { Ok(()) }
    }
}

/// Runs a thread for each file; bytes a second of all together, from the start of the first to the end of the last.
///
/// # Errors
/// A sentence, where a file cannot be read or written, or is not what was written.
pub(super) fn run(access: Access, paths: &[PathBuf], records: usize, seed: u64) -> Result<f64, String> {
    let together = Barrier::new(paths.len() + 1);
    let work = |path: &Path, thread: usize| -> io::Result<()> {
        let mut order: Vec<usize> = (0..records).collect();
        if access.is_random() {
            order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed.wrapping_add(thread as u64)));
        }
        let file = access.open(path);
        together.wait();
        access.go_through(&file?, &order)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (paths.iter().enumerate())
            .map(|(thread, path)| {
                let work = &work;
                scope.spawn(move || work(path, thread).map_err(|error| format!("{}: {error}", path.display())))
            })
            .collect();
        together.wait();
        let began = Instant::now();
        for thread in threads {
            thread.join().map_err(|_| "a thread that reads or writes ended early".to_owned())??;
        }
        Ok((paths.len() * records * RECORD_BYTES) as f64 / began.elapsed().as_secs_f64())
    })
}
