//! Shards as streams: pipes, tapes and files that are read in order, each by a thread of its own, since each may wait for its writer.

use crate::render;
use anyhow::anyhow;
use bytes::{Buf, Bytes, BytesMut};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use weft_engine::transfers::shard_files::ShardBytes;

/// Length of each read: what a pipe holds.
const CHUNK_BYTES: usize = 64 << 10;

/// Of a device: no shorter than the blocks of a tape, which are read whole or not at all.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// What all inputs together read before it is wanted: some segments.
const AHEAD_BYTES: usize = 16 << 20;

/// One shard, as it comes.
pub struct Input {
    pub path: PathBuf,
    chunks: Receiver<io::Result<Bytes>>,
    /// What came, from `offset` on.
    buffer: BytesMut,
    offset: u64,
    failure: Option<io::Error>,
}

impl Input {
    /// Begins to read them. To open a named pipe waits for its writer, which may wait for the reader of another; so each thread opens
    /// what it reads.
    pub fn open_all(paths: &[PathBuf]) -> Vec<Self> {
        let chunks_ahead = (AHEAD_BYTES / CHUNK_BYTES / paths.len().max(1)).max(1);
        paths.iter().map(|path| Self::open(path, chunks_ahead)).collect()
    }

    fn open(path: &Path, chunks_ahead: usize) -> Self {
        let (send, chunks) = sync_channel(chunks_ahead);
        let opened = path.to_owned();
        std::thread::spawn(move || {
            if let Err(error) = File::open(opened).and_then(|file| read(file, &send)) {
                // Nobody receives it where nothing more is wanted.
                let _ = send.send(Err(error));
            }
        });
        Self { path: path.to_owned(), chunks, buffer: BytesMut::new(), offset: 0, failure: None }
    }

    /// The first `length` bytes, or as many as come; they stay to be read.
    pub fn beginning(&mut self, length: usize) -> &[u8] {
        self.fill(length);
        &self.buffer[..length.min(self.buffer.len())]
    }

    /// Why it ended, if not by its end.
    pub fn failure(&self) -> Option<String> {
        let error = self.failure.as_ref()?;
        Some(render::sentence(&anyhow!("{error}")))
    }

    /// Waits until `length` bytes are in the buffer, or no more come.
    fn fill(&mut self, length: usize) {
        while self.buffer.len() < length {
            match self.chunks.recv() {
                Ok(Ok(chunk)) => self.buffer.extend_from_slice(&chunk),
                Ok(Err(error)) => self.failure = Some(error),
                Err(_) => return,
            }
        }
    }

    fn pass_over(&mut self, length: usize) {
        self.buffer.advance(length);
        self.offset += length as u64;
    }
}

impl ShardBytes for Input {
    fn read(&mut self, offset: u64, length: usize) -> Bytes {
        while self.offset < offset {
            self.fill(1);
            let length = (offset - self.offset).min(self.buffer.len() as u64) as usize;
            if length == 0 {
                return Bytes::new();
            }
            self.pass_over(length);
        }
        self.fill(length);
        let length = length.min(self.buffer.len());
        self.offset += length as u64;
        self.buffer.split_to(length).freeze()
    }
}

fn read(mut file: File, send: &SyncSender<io::Result<Bytes>>) -> io::Result<()> {
    let is_device = file.metadata()?.file_type().is_char_device();
    let mut chunk = vec![0; if is_device { BLOCK_BYTES_MAX } else { CHUNK_BYTES }];
    loop {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(length) => {
                if send.send(Ok(Bytes::copy_from_slice(&chunk[..length]))).is_err() {
                    return Ok(());
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
