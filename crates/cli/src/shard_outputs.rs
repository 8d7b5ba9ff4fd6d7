//! One encoding written: an input of any length, read once, and an output for each shard.
//!
//! One thread reads and hashes, the caller's encodes, and one for each output writes, since each may wait: for data, for the reader of a
//! pipe, for a tape. Each has a segment in hand and one that waits, so all go as fast as the slowest.

use anyhow::{Context, Result};
use bytes::Bytes;
use indicatif::ProgressBar;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use weft_engine::transfers::objects::Coder;
use weft_engine::transfers::shard_files::Encoder;
use weft_format::shard_file::FileHasher;

/// Where a shard goes.
#[derive(Debug)]
pub enum Output {
    /// Written as it comes, and made durable.
    File(File),
    /// A named pipe. To open it waits for a reader; the other shards do not wait with it.
    Pipe(PathBuf),
    /// A tape, or another device of blocks.
    Device(File),
}

/// A shard that could not be written to its end.
#[derive(Debug)]
pub struct Lost {
    pub shard: usize,
    pub why: io::Error,
    /// Do the other shards suffice for the file?
    pub is_bearable: bool,
}

/// What was written.
#[derive(Debug)]
pub struct Written {
    pub file_bytes: u64,
    /// Length of each shard that is not lost.
    pub shard_bytes: u64,
    /// Ascending.
    pub lost: Vec<usize>,
}

/// Writes the shards of `input`. `names` are those of the outputs, by shard, empty where there is none. `tell` hears of each lost shard,
/// and its error ends the encoding. Threads that are stuck then end with the process.
pub fn write(
    mut encoder: Encoder,
    input: impl Read + Send + 'static,
    outputs: Vec<Output>,
    names: Vec<Vec<u8>>,
    bar: &ProgressBar,
    tell: impl FnMut(Lost) -> Result<()>,
) -> Result<Written> {
    let segment_bytes = encoder.segment_bytes();
    let (send, receive) = sync_channel(1);
    std::thread::spawn(move || read(input, segment_bytes, &send));
    let mut writers = Writers::start(outputs, encoder.coder().clone(), tell);
    writers.send(encoder.headers()?)?;
    loop {
        match receive.recv().context("the reading thread has ended early")?.context("the input cannot be read")? {
            Piece::Data(data) => {
                let data_bytes = data.len() as u64;
                writers.send(encoder.segment(data)?)?;
                bar.inc(data_bytes);
            }
            Piece::End { digest } => {
                writers.send(encoder.trailers(digest, names)?)?;
                break;
            }
        }
    }
    let (shard_bytes, lost) = writers.finish()?;
    Ok(Written { file_bytes: encoder.file_bytes(), shard_bytes, lost })
}

/// What comes of the input.
enum Piece {
    /// A segment's.
    Data(Bytes),
    /// BLAKE3 of all of it.
    End { digest: [u8; 32] },
}

fn read(mut input: impl Read, segment_bytes: u64, send: &SyncSender<io::Result<Piece>>) {
    let mut hasher = FileHasher::default();
    loop {
        let mut data = Vec::with_capacity(segment_bytes as usize);
        let piece = input.by_ref().take(segment_bytes).read_to_end(&mut data).map(|_| {
            hasher.update(&data);
            match data.is_empty() {
                true => Piece::End { digest: hasher.finish() },
                false => Piece::Data(data.into()),
            }
        });
        let goes_on = matches!(piece, Ok(Piece::Data(_)));
        // It is not received where writing has failed, which says why.
        if send.send(piece).is_err() || !goes_on {
            return;
        }
    }
}

/// The outputs, by shard.
struct Writers<T> {
    writers: Vec<Option<Writer>>,
    coder: Coder,
    tell: T,
    shard_bytes: u64,
    lost: Vec<usize>,
}

struct Writer {
    send: SyncSender<Bytes>,
    thread: JoinHandle<io::Result<()>>,
}

impl<T: FnMut(Lost) -> Result<()>> Writers<T> {
    fn start(outputs: Vec<Output>, coder: Coder, tell: T) -> Self {
        let writers = outputs.into_iter().map(|output| {
            let (send, receive) = sync_channel(1);
            Some(Writer { send, thread: std::thread::spawn(move || write_shard(output, receive)) })
        });
        Self { writers: writers.collect(), coder, tell, shard_bytes: 0, lost: Vec::new() }
    }

    /// The next bytes of every shard.
    fn send(&mut self, pieces: Vec<Bytes>) -> Result<()> {
        self.shard_bytes += pieces.first().map_or(0, |piece| piece.len() as u64);
        for (shard, piece) in pieces.into_iter().enumerate() {
            // A thread that does not receive has failed.
            if let Some(writer) = self.writers[shard].take_if(|writer| writer.send.send(piece).is_err()) {
                self.join(shard, writer)?;
            }
        }
        Ok(())
    }

    /// Waits until everything is written; the length of each shard, and the lost ones.
    fn finish(mut self) -> Result<(u64, Vec<usize>)> {
        for shard in 0..self.writers.len() {
            if let Some(writer) = self.writers[shard].take() {
                self.join(shard, writer)?;
            }
        }
        self.lost.sort_unstable();
        Ok((self.shard_bytes, self.lost))
    }

    fn join(&mut self, shard: usize, writer: Writer) -> Result<()> {
        drop(writer.send);
        let Err(why) = writer.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) else {
            return Ok(());
        };
        self.lost.push(shard);
        let there: Vec<bool> = (0..self.writers.len()).map(|shard| !self.lost.contains(&shard)).collect();
        (self.tell)(Lost { shard, why, is_bearable: self.coder.needed(&there).is_some() })
    }
}

fn write_shard(output: Output, pieces: Receiver<Bytes>) -> io::Result<()> {
    match output {
        Output::File(mut file) => {
            pieces.iter().try_for_each(|piece| file.write_all(&piece))?;
            // Of pipes and devices there is nothing that could be made durable.
            if file.metadata()?.is_file() { file.sync_all() } else { Ok(()) }
        }
        Output::Pipe(path) => {
            let mut pipe = File::options().write(true).open(path)?;
            pieces.iter().try_for_each(|piece| pipe.write_all(&piece))
        }
        Output::Device(file) => {
            let mut blocks = Blocks::new(file);
            pieces.iter().try_for_each(|piece| blocks.write(&piece))?;
            blocks.finish()
        }
    }
}

/// Length of each write to a device. A tape makes a block of each, or wants a multiple of its own block length, which divides this one.
const BLOCK_BYTES: usize = 64 << 10;

/// Writes in blocks of one length; the last is filled with zeros, which readers pass over.
struct Blocks<W> {
    device: W,
    block: Vec<u8>,
}

impl<W: Write> Blocks<W> {
    fn new(device: W) -> Self {
        Self { device, block: Vec::with_capacity(BLOCK_BYTES) }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(BLOCK_BYTES - self.block.len()));
            self.block.extend_from_slice(head);
            bytes = rest;
            if self.block.len() == BLOCK_BYTES {
                self.device.write_all(&self.block)?;
                self.block.clear();
            }
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        self.block.resize(BLOCK_BYTES, 0);
        self.device.write_all(&self.block)
    }
}

#[cfg(test)]
#[path = "shard_outputs_tests.rs"]
mod tests;
