//! The speed of a directory, through the system calls that programs make. Any file system's directory can be measured, so that two are
//! compared in one sitting.

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::fs::{Advice, OFlags, fadvise};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use weft_env::Env;

/// Size of small files, random reads and synced writes: a page.
const SMALL_BYTES: usize = 4096;
/// Size of sequential requests.
const LARGE_BYTES: usize = 1 << 20;
/// The same bytes and offsets every time.
const SEED: u64 = 1;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// A few words.
    pub what: String,
    /// How many.
    pub operations: u64,
    /// Bytes moved by all of them; 0: none.
    pub bytes: u64,
    /// For all of them.
    pub seconds: f64,
}

/// Why a directory was not measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The folder for the files.
    #[error("{} cannot be made: {error}", path.display())]
    Make {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// An operation.
    #[error("{}: {error}", path.display())]
    Measure {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// At the end.
    #[error("{} cannot be removed: {error}", path.display())]
    Remove {
        /// The folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// Measures a directory with so many small files and one of `large_bytes`, in a folder of its own that is removed again.
///
/// # Errors
/// [`BenchError`].
pub fn measure(directory: &Path, files: u64, large_bytes: u64) -> Result<Vec<Measurement>, BenchError> {
    let path = directory.join(format!("weft-bench-{}", std::process::id()));
    fs::create_dir(&path).map_err(|error| BenchError::Make { path: path.clone(), error })?;
    let measured = measure_in(&path, files, large_bytes);
    let removed = fs::remove_dir_all(&path);
    let measured = measured.map_err(|error| BenchError::Measure { path: path.clone(), error })?;
    removed.map_err(|error| BenchError::Remove { path, error })?;
    Ok(measured)
}

fn measure_in(folder: &Path, files: u64, large_bytes: u64) -> io::Result<Vec<Measurement>> {
    let mut random = StdRng::seed_from_u64(SEED);
    let mut small = vec![0; SMALL_BYTES];
    random.fill_bytes(&mut small);
    let name = |index: u64| folder.join(format!("{index:08}"));
    let mut rows = Vec::new();
    let small_bytes = files * SMALL_BYTES as u64;

    rows.push(timed("create, write 4 KiB, close", files, small_bytes, || {
        (0..files).try_for_each(|index| File::create(name(index))?.write_all(&small))
    })?);
    rows.push(timed("stat", files, 0, || (0..files).try_for_each(|index| fs::metadata(name(index)).map(drop)))?);
    rows.push(timed("list", files, 0, || fs::read_dir(folder)?.try_for_each(|entry| entry.map(drop)))?);
    rows.push(timed("open, read 4 KiB, close", files, small_bytes, || {
        let mut buffer = Vec::with_capacity(SMALL_BYTES);
        (0..files).try_for_each(|index| {
            buffer.clear();
            File::open(name(index))?.read_to_end(&mut buffer).map(drop)
        })
    })?);
    let renamed = |index: u64| folder.join(format!("{index:08}.new"));
    (0..files).try_for_each(|index| File::create(renamed(index))?.write_all(&small))?;
    rows.push(timed("rename over", files, 0, || {
        (0..files).try_for_each(|index| fs::rename(renamed(index), name(index)))
    })?);
    rows.push(timed("unlink", files, 0, || (0..files).try_for_each(|index| fs::remove_file(name(index))))?);

    let synced = File::create(name(0))?;
    rows.push(timed("write 4 KiB, fsync", files, small_bytes, || {
        (0..files).try_for_each(|index| {
            synced.write_all_at(&small, index * SMALL_BYTES as u64)?;
            synced.sync_all()
        })
    })?);
    drop(synced);
    fs::remove_file(name(0))?;

    let mut large = vec![0; LARGE_BYTES];
    random.fill_bytes(&mut large);
    let path = folder.join("large");
    let chunks = large_bytes / LARGE_BYTES as u64;
    rows.push(timed("write 1 MiB each, fsync", chunks, large_bytes, || {
        let mut file = File::create(&path)?;
        (0..chunks).try_for_each(|_| file.write_all(&large))?;
        file.sync_all()
    })?);
    drop_cache(&File::open(&path)?);
    rows.push(timed("read 1 MiB each", chunks, large_bytes, || {
        let mut file = File::open(&path)?;
        (0..chunks).try_for_each(|_| file.read_exact(&mut large))
    })?);

    let (file, how) = open_direct(&path)?;
    let mut aligned = vec![0; 2 * SMALL_BYTES];
    let start = aligned.as_ptr().align_offset(SMALL_BYTES);
    let page = &mut aligned[start..start + SMALL_BYTES];
    rows.push(timed(&format!("read 4 KiB at random, {how}"), files, small_bytes, || {
        (0..files).try_for_each(|_| {
            let offset = random.random_range(0..large_bytes / SMALL_BYTES as u64) * SMALL_BYTES as u64;
            file.read_exact_at(page, offset)
        })
    })?);
    Ok(rows)
}

fn timed(what: &str, operations: u64, bytes: u64, work: impl FnOnce() -> io::Result<()>) -> io::Result<Measurement> {
    let clock = Env::system().clock;
    let start = clock.now();
    work()?;
    // A clock that stood still would make the rate infinite.
    let seconds = clock.elapsed(start).as_secs_f64().max(1e-9);
    Ok(Measurement { what: what.to_owned(), operations, bytes, seconds })
}

/// Where the file system knows no `O_DIRECT`, its cache is emptied instead, and the row says so.
fn open_direct(path: &Path) -> io::Result<(File, &'static str)> {
    if let Ok(file) = OpenOptions::new().read(true).custom_flags(OFlags::DIRECT.bits().cast_signed()).open(path) {
        return Ok((file, "O_DIRECT"));
    }
    let file = File::open(path)?;
    drop_cache(&file);
    Ok((file, "cached"))
}

/// The page cache forgets the file, so that reads reach the file system. A hint: if the system refuses it, reads are measured warm.
fn drop_cache(file: &File) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}
