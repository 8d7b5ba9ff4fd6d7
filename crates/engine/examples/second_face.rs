//! A face of its own: `cargo run -p weft-engine --example second_face META` writes a file, reads it, and says how safe all are.

use std::error::Error;
use weft_engine::{Caller, Engine, Env, Ino, MetaUrl, Options};

fn main() -> Result<(), Box<dyn Error>> {
    let meta = MetaUrl::parse(&std::env::args_os().nth(1).ok_or("give the metadata of a volume")?)?;
    let engine = Engine::open(&meta, &Env::system(), Options::default())?;
    let volume = engine.volume();
    let caller = Caller::new(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // Every call through it is checked as this caller's.
    let files = volume.as_caller(&caller);

    let (file, handle) = files.create(Ino::ROOT, b"hello", 0o644, libc::O_RDWR)?;
    // Enough for a segment: a few bytes would wait in the journal for others.
    files.write(handle, 0, &b"hello, second face\n".repeat(100_000))?;
    files.fsync(handle)?;
    print!("{}", String::from_utf8_lossy(&files.read(handle, 0, 19)?));
    files.release(handle);
    files.forget(file.ino, 1);

    let status = engine.status()?;
    println!("{} of {} nodes answer", status.nodes.iter().filter(|node| node.answers).count(), status.nodes.len());
    match status.survives_losses {
        Some(losses) => println!("further losses of nodes that every file survives: {losses}"),
        None => println!("no file is stored, or some cannot be read"),
    }
    Ok(engine.close()?)
}
