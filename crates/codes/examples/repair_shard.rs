//! Repairs one lost shard from fewer bytes than `k` shards have: `cargo run --example repair_shard -- [SPEC]`.

use std::error::Error;
use weft_codes::Codec;

fn main() -> Result<(), Box<dyn Error>> {
    let spec = std::env::args().nth(1).unwrap_or_else(|| "clay:4+2".to_owned());
    let codec = Codec::new(&spec)?;
    let data: Vec<u8> = (0..1 << 20).map(|at: u32| (at ^ at >> 7) as u8).collect();
    let shards = codec.encode(&data);
    let lost = 1;

    // First say what to read. Here it is a slice of memory; it may be a range of a file or of a remote object.
    let plan = codec.repair_plan(&[lost], shards[0].len())?;
    let mut bytes = Vec::new();
    for read in plan.reads() {
        println!("read bytes {:?} of shard {}", read.range, read.shard);
        bytes.push(&shards[read.shard][read.range.clone()]);
    }

    let repaired = plan.repair(&bytes)?;
    assert_eq!(repaired[0], shards[lost]);
    let of_k = codec.code().shape().k * shards[0].len();
    let share = plan.read_bytes() as f64 / of_k as f64 * 100.0;
    println!("{spec}: shard {lost} repaired from {} bytes; k shards have {of_k} ({share:.0} %)", plan.read_bytes());
    Ok(())
}
