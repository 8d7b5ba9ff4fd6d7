//! Stage 2: data to finished shard objects.
//!
//! The framed objects are allocated once; data is copied into them once, and coded symbols are computed frame by frame while
//! the data frames are in the cache, and sealed there. Long encodes run on a blocking thread of the runtime.

use super::split::Split;
use crate::algebra::LoadedCode;
use crate::error::WriteError;
use crate::transfer::{INLINE_BYTES, Inner};
use bytes::Bytes;
use std::sync::Arc;
use weft_codes::executor;
use weft_env::Stopped;
use weft_format::VolumeId;
use weft_format::geometry::{Geometry, Stripe};
use weft_format::shard::{Digest, FRAME_PAYLOAD_BYTES, FrameMut, ShardBuilder, ShardError, ShardHeader, ShardIdentity};

/// A finished shard object, and the digest of its payload.
pub(crate) type Object = (Bytes, Digest);

pub(crate) async fn encode(inner: &Inner, split: &Arc<Split>) -> Result<Vec<Object>, WriteError> {
    if split.geometry.data_bytes <= INLINE_BYTES {
        return encode_here(inner.volume, split);
    }
    let segment = split.segment;
    let (volume, split) = (inner.volume, split.clone());
    match inner.runtime.spawn_blocking(move || encode_here(volume, &split)).await {
        Ok(objects) => objects,
        Err(Stopped) => Err(WriteError::Stopped { segment }),
    }
}

/// Encodes on this thread.
pub(crate) fn encode_here(volume: VolumeId, split: &Split) -> Result<Vec<Object>, WriteError> {
    let wrong_code =
        |error: ShardError| WriteError::Code { code: split.code.code.spec().into(), detail: error.to_string() };
    Ok(fill(split, builders(volume, split).map_err(wrong_code)?))
}

fn builders(volume: VolumeId, split: &Split) -> Result<Vec<ShardBuilder>, ShardError> {
    let builder = |index| {
        ShardBuilder::new(&ShardHeader {
            identity: ShardIdentity { volume, key: split.key(index) },
            code: split.code.code.spec().into(),
            geometry: split.geometry,
        })
    };
    (0..split.code.shape().n).map(builder).collect()
}

fn fill(split: &Split, mut builders: Vec<ShardBuilder>) -> Vec<Object> {
    let stripes = split.geometry.stripes();
    let (aligned, others): (Vec<Stripe>, Vec<Stripe>) =
        stripes.partition(|stripe| frames_in_lockstep(&split.code, &split.geometry, stripe));
    fill_frames(split, &aligned, &mut builders);
    fill_stripes(split, &others, &mut builders);
    builders.into_iter().map(ShardBuilder::finish).collect()
}

/// Does every stored symbol of the stripe begin with a frame and end with one, and is every native symbol stored plainly?
fn frames_in_lockstep(code: &LoadedCode, geometry: &Geometry, stripe: &Stripe) -> bool {
    let is_whole = |bytes: u64| bytes.is_multiple_of(FRAME_PAYLOAD_BYTES as u64);
    // The one symbol of the last cell may end with the shard.
    let symbols_are_whole = geometry.alpha == 1 || is_whole(stripe.symbol_bytes.into());
    is_whole(stripe.cell.start)
        && symbols_are_whole
        && (is_whole(stripe.cell.end) || stripe.cell.end == geometry.payload_bytes())
        && code.homes.iter().all(|homes| !homes.is_empty())
}

/// The fast way: one frame of all symbols at a time.
fn fill_frames(split: &Split, stripes: &[Stripe], builders: &mut [ShardBuilder]) {
    let Split { code, geometry, .. } = split;
    let data = Cursor::new(&split.data);
    let mut frames: Vec<Vec<Option<FrameMut<'_>>>> =
        builders.iter_mut().map(|builder| builder.frames_mut().map(Some).collect()).collect();
    for stripe in stripes {
        for column in (0..u64::from(stripe.symbol_bytes)).step_by(FRAME_PAYLOAD_BYTES) {
            let frame = |sub| (geometry.symbol_range(stripe, sub).start + column) as usize / FRAME_PAYLOAD_BYTES;
            let mut row: Vec<FrameMut<'_>> = Vec::with_capacity(frames.len() * geometry.alpha as usize);
            for shard in &mut frames {
                row.extend((0..geometry.alpha).filter_map(|sub| shard[frame(sub)].take()));
            }
            let mut payloads: Vec<&mut [u8]> = row.iter_mut().map(FrameMut::payload_mut).collect();
            for (native, homes) in code.homes.iter().enumerate() {
                let range = geometry.native_range(stripe, native as u32);
                let start = (range.start + column).min(range.end);
                for home in homes {
                    let end = (start + payloads[*home].len() as u64).min(range.end);
                    data.copy(start..end, &mut payloads[*home][..(end - start) as usize]);
                }
            }
            run_on(code, payloads);
            row.into_iter().for_each(FrameMut::seal);
        }
    }
}

/// Computes the coded symbols of one row of payloads from its plain ones.
fn run_on(code: &LoadedCode, payloads: Vec<&mut [u8]>) {
    if code.coded.is_empty() {
        return;
    }
    let mut coded: Vec<&mut [u8]> = Vec::with_capacity(code.coded.len());
    let mut plain: Vec<&[u8]> = vec![&[]; payloads.len()];
    for (stored, payload) in payloads.into_iter().enumerate() {
        // Ascending, as `coded` is.
        if code.coded.get(coded.len()) == Some(&stored) {
            coded.push(payload);
        } else {
            plain[stored] = payload;
        }
    }
    let natives: Vec<&[u8]> = code.homes.iter().map(|homes| plain[homes[0]]).collect();
    executor().run(&code.encode, &natives, &mut coded).expect("one payload per symbol, all of one frame's length");
}

/// The slow, obvious way, for any code: one stripe at a time, symbols gathered, computed, and copied into place.
fn fill_stripes(split: &Split, stripes: &[Stripe], builders: &mut [ShardBuilder]) {
    let Split { code, geometry, .. } = split;
    let alpha = geometry.alpha as usize;
    let data = Cursor::new(&split.data);
    for stripe in stripes.iter().filter(|stripe| stripe.symbol_bytes > 0) {
        let symbol_bytes = stripe.symbol_bytes as usize;
        let natives = gather(&data, geometry, stripe);
        let mut coded = vec![0; code.coded.len() * symbol_bytes];
        executor()
            .run_pieces(&code.encode, symbol_bytes, &[&natives], &mut [&mut coded])
            .expect("there are as many symbols as the code has");
        let (natives, coded) = (natives.chunks_exact(symbol_bytes), coded.chunks_exact(symbol_bytes));
        let plain =
            code.homes.iter().zip(natives).flat_map(|(homes, symbol)| homes.iter().map(move |home| (home, symbol)));
        for (stored, symbol) in plain.chain(code.coded.iter().zip(coded)) {
            let offset = geometry.symbol_range(stripe, (stored % alpha) as u32).start;
            builders[stored / alpha].write(offset, symbol).expect("a symbol lies within its shard");
        }
    }
}

/// The native symbols of the stripe, one after the other.
fn gather(data: &Cursor<'_>, geometry: &Geometry, stripe: &Stripe) -> Vec<u8> {
    let symbol_bytes = stripe.symbol_bytes as usize;
    let mut natives = vec![0; geometry.native_count as usize * symbol_bytes];
    for native in 0..geometry.native_count {
        let range = geometry.native_range(stripe, native);
        let first = native as usize * symbol_bytes;
        let length = (range.end - range.start) as usize;
        data.copy(range, &mut natives[first..first + length]);
    }
    natives
}

/// Finds data bytes in a list of pieces.
struct Cursor<'a> {
    /// Offset of each piece's first byte.
    starts: Vec<u64>,
    pieces: &'a [Bytes],
}

impl<'a> Cursor<'a> {
    fn new(pieces: &'a [Bytes]) -> Self {
        let mut end = 0;
        let start = |piece: &Bytes| {
            let start = end;
            end += piece.len() as u64;
            start
        };
        Self { starts: pieces.iter().map(start).collect(), pieces }
    }

    /// Copies data bytes `range`, which exist, into `out`, which is as long.
    fn copy(&self, range: std::ops::Range<u64>, mut out: &mut [u8]) {
        if range.is_empty() {
            return;
        }
        let mut at = range.start;
        let mut piece = self.starts.partition_point(|start| *start <= at) - 1;
        while !out.is_empty() {
            let from = (at - self.starts[piece]) as usize;
            let part = &self.pieces[piece][from.min(self.pieces[piece].len())..];
            let length = part.len().min(out.len());
            let (head, rest) = out.split_at_mut(length);
            head.copy_from_slice(&part[..length]);
            (out, at, piece) = (rest, at + length as u64, piece + 1);
        }
    }
}

#[cfg(test)]
#[path = "encode_tests.rs"]
mod tests;
