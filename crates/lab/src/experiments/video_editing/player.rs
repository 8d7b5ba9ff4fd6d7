//! An edited video: frames of several streams that are read at their time, and of one that is written, each by its deadline.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

/// Apple ProRes 422 in the paper: 25 frames a second.
const FRAME_EVERY: Duration = Duration::from_millis(40);

/// A frame is asked for, or is there to be written, so long before it is shown or the next one takes its place.
const BUFFER: Duration = Duration::from_secs(1);

/// What is edited.
#[derive(Clone, Debug)]
pub(super) struct Video {
    /// Read at once.
    pub(super) inputs: Vec<PathBuf>,
    /// Written.
    pub(super) output: PathBuf,
    pub(super) frame_bytes: usize,
    pub(super) frames: usize,
}

/// How it went.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Played {
    /// For each second of the video, the longest that a frame of any stream took.
    pub(super) longest: Vec<Duration>,
    /// Frames of any stream that missed their deadline.
    pub(super) dropped: usize,
}

impl Video {
    pub(super) fn duration(&self) -> Duration {
        FRAME_EVERY * self.frames as u32
    }

    /// Plays it, and does `meanwhile` in the middle.
    ///
    /// # Errors
    /// A sentence, where a frame cannot be read or written at all, or `meanwhile` fails.
    pub(super) fn play(&self, meanwhile: impl FnOnce() -> Result<(), String>) -> Result<Played, String> {
        let began = Instant::now();
        let times = thread::scope(|scope| {
            let reads = self.inputs.iter().map(|path| scope.spawn(move || self.read(path, began)));
            let streams: Vec<_> = reads.chain([scope.spawn(move || self.write(began))]).collect();
            thread::sleep((self.duration() / 2).saturating_sub(began.elapsed()));
            meanwhile()?;
            let joined =
                streams.into_iter().map(|stream| stream.join().map_err(|_| "a stream ended early".to_owned())?);
            joined.collect::<Result<Vec<Vec<Duration>>, String>>()
        })?;
        let frames_a_second = (Duration::from_secs(1).as_millis() / FRAME_EVERY.as_millis()) as usize;
        let of_second = |second: usize| {
            let frames = second * frames_a_second..((second + 1) * frames_a_second).min(self.frames);
            times.iter().flat_map(|stream| &stream[frames.clone()]).max().copied().unwrap_or_default()
        };
        Ok(Played {
            longest: (0..self.frames.div_ceil(frames_a_second)).map(of_second).collect(),
            dropped: times.iter().flatten().filter(|time| **time > BUFFER).count(),
        })
    }

    fn read(&self, path: &Path, began: Instant) -> Result<Vec<Duration>, String> {
        let mut frame = vec![0; self.frame_bytes];
        let file = File::open(path);
        self.each_frame(path, began, file, |file, offset| file.read_exact_at(&mut frame, offset))
    }

    fn write(&self, began: Instant) -> Result<Vec<Duration>, String> {
        let frame = vec![0x5a; self.frame_bytes];
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(&self.output);
        self.each_frame(&self.output, began, file, |file, offset| file.write_all_at(&frame, offset))
    }

    /// How long after its time each frame was done; one that is late is caught up with.
    fn each_frame(
        &self,
        path: &Path,
        began: Instant,
        file: io::Result<File>,
        mut work: impl FnMut(&File, u64) -> io::Result<()>,
    ) -> Result<Vec<Duration>, String> {
        let sentence = |error: io::Error| format!("{}: {error}", path.display());
        let file = file.map_err(sentence)?;
        let frames = (0..self.frames).map(|frame| {
            let time = began + FRAME_EVERY * frame as u32;
            thread::sleep(time.saturating_duration_since(Instant::now()));
            work(&file, (frame * self.frame_bytes) as u64).map_err(sentence)?;
            Ok(time.elapsed())
        });
        frames.collect()
    }
}
