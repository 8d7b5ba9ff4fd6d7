//! Programs that write, overwrite, truncate, sync and replace files of their own, each by its own seed.

use super::manifest::{Change, Known};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

const WRITERS: usize = 4;
const FILES: usize = 10;
/// Beyond the journal's limit of one fsync, and small enough to be compared in every round.
const FILE_BYTES_MAX: usize = 300_000;

/// All writers and what is known of their files.
pub struct Load {
    writers: Vec<Writer>,
}

#[derive(Clone)]
struct Writer {
    number: usize,
    files: Vec<Known>,
    /// The content of the file that is replaced by rename, and the next one on its way.
    replaced: Option<Vec<u8>>,
    replacing: Option<Vec<u8>>,
    syncs: u64,
    failures: u64,
}

/// Writers at work.
pub struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Writer>>,
}

impl Load {
    pub fn new() -> Self {
        let writer = |number| Writer {
            number,
            files: vec![Known::default(); FILES],
            replaced: None,
            replacing: None,
            syncs: 0,
            failures: 0,
        };
        Self { writers: (0..WRITERS).map(writer).collect() }
    }

    pub fn start(&mut self, folder: &Path, seed: u64) -> Running {
        let stop = Arc::new(AtomicBool::new(false));
        let threads = self.writers.drain(..).map(|mut writer| {
            let (folder, stop) = (folder.to_path_buf(), stop.clone());
            let mut random = StdRng::seed_from_u64(seed ^ (writer.number as u64) << 48);
            std::thread::spawn(move || {
                while !stop.load(Ordering::SeqCst) {
                    if let Err(error) = writer.step(&folder, &mut random) {
                        writer.failures += 1;
                        match error.raw_os_error() {
                            // The mount is gone: nothing more can be done.
                            Some(libc::ENOTCONN | libc::ECONNABORTED | libc::ENOENT) => break,
                            _ => std::thread::sleep(Duration::from_millis(20)),
                        }
                    }
                }
                writer
            })
        });
        Running { threads: threads.collect(), stop }
    }

    pub fn end(&mut self, running: Running) {
        running.stop.store(true, Ordering::SeqCst);
        self.writers = running.threads.into_iter().map(|thread| thread.join().expect("a writer ends")).collect();
    }

    /// After a clean end, which writes back everything.
    pub fn all_is_durable(&mut self) {
        for writer in &mut self.writers {
            let known = writer.files.iter_mut().filter(|known| !known.now().is_empty() && !known.is_in_doubt());
            known.for_each(Known::sync);
        }
    }

    /// Compares every file, and has all of them synced as they are.
    pub fn check(&mut self, folder: &Path) {
        for writer in &mut self.writers {
            writer.check(folder);
        }
    }

    pub fn tally(&self) -> String {
        let sum = |of: fn(&Writer) -> u64| self.writers.iter().map(of).sum::<u64>();
        format!("{} fsyncs acknowledged, {} calls failed", sum(|writer| writer.syncs), sum(|writer| writer.failures))
    }
}

impl Writer {
    fn path(&self, folder: &Path, file: usize) -> PathBuf {
        folder.join(format!("writer{}-file{file}", self.number))
    }

    fn replaced_path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("writer{}-replaced", self.number))
    }

    /// One thing that a program does.
    fn step(&mut self, folder: &Path, random: &mut StdRng) -> io::Result<()> {
        if random.random_bool(0.05) {
            return self.replace(folder, random);
        }
        let number = random.random_range(0..FILES);
        if self.files[number].is_in_doubt() {
            std::thread::sleep(Duration::from_millis(1));
            return Ok(());
        }
        let file = OpenOptions::new().create(true).truncate(false).write(true).open(self.path(folder, number))?;
        for _ in 0..random.random_range(1..4) {
            let known = &mut self.files[number];
            let length = known.now().len();
            let bytes = match random.random_range(0..10) {
                0 => random.random_range(20_000..100_000),
                1..=3 => 4096,
                _ => random.random_range(1..20_000),
            };
            let is_append = length < FILE_BYTES_MAX && random.random_bool(0.4);
            let offset = if is_append { length } else { random.random_range(0..=length.min(FILE_BYTES_MAX)) };
            // Never zero, so that a hole is seen.
            let bytes: Vec<u8> = (0..bytes).map(|_| random.random_range(1..=255)).collect();
            known.change(Change::Write { offset, bytes: bytes.clone() });
            file.write_all_at(&bytes, offset as u64).inspect_err(|_| known.doubt())?;
            if random.random_bool(0.06) {
                let to = random.random_range(0..=known.now().len());
                known.change(Change::Truncate(to));
                file.set_len(to as u64).inspect_err(|_| known.doubt())?;
            }
        }
        if random.random_bool(0.5) {
            if random.random_bool(0.5) {
                file.sync_all()?
            } else {
                file.sync_data()?
            }
            self.files[number].sync();
            self.syncs += 1;
        }
        Ok(())
    }

    fn replace(&mut self, folder: &Path, random: &mut StdRng) -> io::Result<()> {
        let content: Vec<u8> = (0..random.random_range(1..30_000)).map(|_| random.random_range(1..=255)).collect();
        self.replacing = Some(content.clone());
        let path = self.replaced_path(folder);
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(&content)?;
        if self.replaced.is_none() {
            // Only where a file is replaced do its bytes go before its name without being asked.
            file.sync_all()?;
        }
        std::fs::rename(&temporary, &path)?;
        File::open(folder)?.sync_all()?;
        self.replaced = self.replacing.take();
        self.syncs += 1;
        Ok(())
    }

    fn check(&mut self, folder: &Path) {
        for number in 0..FILES {
            let path = self.path(folder, number);
            let found = read(&path);
            if let Err(difference) = self.files[number].found(found.clone()) {
                panic!("{}: {difference}", path.display());
            }
            if found.is_some() {
                File::open(&path).and_then(|file| file.sync_all()).unwrap_or_else(|error| {
                    panic!("{}: what was found does not sync: {error}", path.display());
                });
                self.files[number].sync();
            }
        }
        let found = read(&self.replaced_path(folder));
        let is_right = found == self.replaced || (found.is_some() && found == self.replacing);
        assert!(
            is_right,
            "{} has {:?} bytes; before {:?}, then {:?}",
            self.replaced_path(folder).display(),
            found.map(|bytes| bytes.len()),
            self.replaced.as_ref().map(Vec::len),
            self.replacing.as_ref().map(Vec::len)
        );
        self.replaced = found;
        self.replacing = None;
    }
}

/// The bytes of a file; `None` where there is none. Everything is up when files are compared, so any error is a failure.
fn read(path: &Path) -> Option<Vec<u8>> {
    match std::fs::read(path) {
        Ok(bytes) => Some(bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => panic!("{} cannot be read: {error}", path.display()),
    }
}
