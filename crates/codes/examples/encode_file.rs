//! Cuts a file into shards: `cargo run --example encode_file -- FILE [SPEC] [FOLDER]`.
//!
//! Writes FOLDER/shard.0, FOLDER/shard.1, ... and FOLDER/length; FOLDER is FILE.shards unless said otherwise.
//! `recover_file` reads them back.

use std::error::Error;
use std::fs;
use weft_codes::Codec;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: encode_file FILE [SPEC] [FOLDER]")?;
    let spec = arguments.next().unwrap_or_else(|| "rs:4+2".to_owned());
    let folder = arguments.next().unwrap_or_else(|| format!("{file}.shards"));

    let codec = Codec::new(&spec)?;
    let data = fs::read(&file)?;
    let shards = codec.encode(&data);

    fs::create_dir_all(&folder)?;
    for (index, shard) in shards.iter().enumerate() {
        fs::write(format!("{folder}/shard.{index}"), shard)?;
    }
    // Shards are padded, and do not say with which code they were made.
    fs::write(format!("{folder}/length"), format!("{spec} {}", data.len()))?;

    let tolerance = codec.code().shape().tolerance;
    println!(
        "{file}: {} bytes as {} shards of {} bytes in {folder}; any {tolerance} of them may be lost",
        data.len(),
        shards.len(),
        codec.shard_bytes(data.len()),
    );
    Ok(())
}
