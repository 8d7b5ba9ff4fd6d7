//! What framing costs beside copying the bytes: `cargo bench -p weft-format`. GB/s, the best of several rounds.

use std::hint::black_box;
use std::time::Instant;
use weft_format::geometry::Geometry;
use weft_format::shard::{
    FRAME_PAYLOAD_BYTES, HEADER_BYTES, ShardBuilder, ShardHeader, ShardIdentity, frames_range, verify_frames,
    verify_object,
};
use weft_format::{Generation, SegmentId, ShardIndex, ShardKey, VolumeId};

const ROUNDS: usize = 30;

/// Runs `work`, which handles `bytes`, again and again.
fn measure(what: &str, bytes: usize, mut work: impl FnMut()) {
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        work();
        best = best.min(start.elapsed().as_secs_f64());
    }
    println!("{what:<44} {:6.2} GB/s   {:9.2} us", bytes as f64 / best / 1e9, best * 1e6);
}

fn main() {
    let key = ShardKey { segment: SegmentId(1), generation: Generation(0), index: ShardIndex(0) };
    let identity = ShardIdentity { volume: VolumeId(1), key };
    for bytes in [64 << 10, 1 << 20, 16 << 20] {
        let geometry = Geometry::new(bytes as u64, 1, 1, 1, 65_536).expect("a valid length");
        let header = ShardHeader { identity, code: "replica:1".to_owned(), geometry };
        let data = vec![7; bytes];
        println!("{bytes} bytes");
        measure("  copy into a new buffer (limit)", bytes, || {
            black_box(data.to_vec());
        });
        measure("  build: copy and seal", bytes, || {
            let mut builder = ShardBuilder::new(&header).expect("a valid header");
            for (frame, chunk) in data.chunks(FRAME_PAYLOAD_BYTES).enumerate() {
                builder.frame_mut(frame).copy_from_slice(chunk);
                builder.seal_frame(frame);
            }
            black_box(builder.finish());
        });
        let mut builder = ShardBuilder::new(&header).expect("a valid header");
        builder.write(0, &data).expect("it fits");
        let (object, _) = builder.finish();
        measure("  verify frames", bytes, || {
            let frames = verify_frames(&identity, bytes as u64, 0..bytes as u64, &object[HEADER_BYTES..]);
            black_box(frames.expect("an intact shard"));
        });
        measure("  verify the object with its digest", bytes, || {
            black_box(verify_object(&identity, &object).expect("an intact shard"));
        });
        let page = frames_range(0..4096, bytes as u64);
        let raw = &object[page.start as usize..page.end as usize];
        measure("  verify one frame", 4096, || {
            black_box(verify_frames(&identity, bytes as u64, 0..4096, raw).expect("an intact frame"));
        });
    }
}
