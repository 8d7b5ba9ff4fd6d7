//! Reads a file back from the shards that are left: `cargo run --example recover_file -- FOLDER FILE`.
//!
//! FOLDER is one that `encode_file` wrote; delete some of its shards first. They are written again.

use std::error::Error;
use std::fs;
use weft_codes::Codec;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, file] = &arguments[..] else { return Err("usage: recover_file FOLDER FILE".into()) };

    let length = fs::read_to_string(format!("{folder}/length"))?;
    let (spec, data_bytes) = length.split_once(' ').ok_or("FOLDER/length is damaged; it says `SPEC BYTES`")?;
    let codec = Codec::new(spec)?;

    let path = |index: usize| format!("{folder}/shard.{index}");
    let mut shards: Vec<Option<Vec<u8>>> =
        (0..codec.code().shape().n).map(|index| fs::read(path(index)).ok()).collect();
    let lost: Vec<usize> = (0..shards.len()).filter(|&index| shards[index].is_none()).collect();

    codec.reconstruct(&mut shards)?;
    for &index in &lost {
        fs::write(path(index), shards[index].as_deref().unwrap_or_default())?;
    }
    fs::write(file, codec.decode(&shards, data_bytes.parse()?)?)?;
    println!("{file}: recovered without shards {lost:?}, which are there again");
    Ok(())
}
