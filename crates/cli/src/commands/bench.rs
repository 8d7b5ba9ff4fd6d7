//! `weft bench DIR`: what a directory gives, through the system calls that programs make. Any file system's directory can
//! be measured, so that two can be compared in one sitting.

use crate::render;
use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use rustix::fs::{Advice, fadvise};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Of small files, random reads and synced writes: as large as a page.
const SMALL_BYTES: usize = 4096;
/// Of sequential requests.
const LARGE_BYTES: usize = 1 << 20;
/// The same bytes and offsets every time.
const SEED: u64 = 1;

#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Directory to measure; a folder of its own is made in it and removed again
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Size of the large file in MiB
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    size_mib: u64,
    /// Number of small files, random reads and synced writes
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    files: u64,
    /// For programs
    #[arg(long)]
    json: bool,
}

/// One measurement.
#[derive(Serialize)]
struct Row {
    what: String,
    operations: u64,
    bytes: u64,
    seconds: f64,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let folder = arguments.directory.join(format!("weft-bench-{}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let measured = measure(&folder, arguments);
    let removed = fs::remove_dir_all(&folder);
    let rows = measured.with_context(|| folder.display().to_string())?;
    removed.with_context(|| format!("{} cannot be removed", folder.display()))?;
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
        return Ok(());
    }
    let header = ["TEST", "OPERATIONS", "TIME", "RATE", ""].map(str::to_owned).to_vec();
    let row = |row: &Row| {
        let per_second = row.operations as f64 / row.seconds;
        let bandwidth = match row.bytes {
            0 => String::new(),
            bytes => format!("{}/s", render::bytes((bytes as f64 / row.seconds) as u64)),
        };
        let (count, seconds) = (row.operations.to_string(), format!("{:.3} s", row.seconds));
        vec![row.what.clone(), count, seconds, format!("{per_second:.0} /s"), bandwidth]
    };
    let table: Vec<_> = std::iter::once(header).chain(rows.iter().map(row)).collect();
    print!("{}", render::table(&table, &[1, 2, 3, 4]));
    Ok(())
}

fn measure(folder: &Path, arguments: &Arguments) -> io::Result<Vec<Row>> {
    let (files, large_bytes) = (arguments.files, arguments.size_mib << 20);
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

fn timed(what: &str, operations: u64, bytes: u64, work: impl FnOnce() -> io::Result<()>) -> io::Result<Row> {
    let start = Instant::now();
    work()?;
    // A clock that stood still would make the rate infinite.
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    Ok(Row { what: what.to_owned(), operations, bytes, seconds })
}

/// Where the file system knows no `O_DIRECT`, its cache is emptied instead, and the row says so.
fn open_direct(path: &Path) -> io::Result<(File, &'static str)> {
    if let Ok(file) = OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(path) {
        return Ok((file, "O_DIRECT"));
    }
    let file = File::open(path)?;
    drop_cache(&file);
    Ok((file, "cached"))
}

/// The page cache forgets the file, so that reads reach the file system. A hint: what is refused is measured warm.
fn drop_cache(file: &File) {
    let _ = fadvise(file, 0, None, Advice::DontNeed);
}
