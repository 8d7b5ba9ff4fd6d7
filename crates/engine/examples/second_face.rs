//! A face of its own: `cargo run -p weft-engine --example second_face META` writes a file, reads it, and says how safe all are.

use std::error::Error;
use weft_engine::{Engine, Env, Options};
use weft_format::Ino;
use weft_meta::MetaUrl;
use weft_vfs::Caller;

fn main() -> Result<(), Box<dyn Error>> {
    let meta = MetaUrl::parse(&std::env::args_os().nth(1).ok_or("give the metadata of a volume")?)?;
    let engine = Engine::open(&meta, &Env::system(), Options::default())?;
    let volume = engine.volume();
    let caller = Caller::new(rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    // Every call through it is checked as this caller's.
    let files = volume.as_caller(&caller);

    let (file, handle) = files.create(Ino::ROOT, b"hello", 0o644, libc::O_RDWR)?;
    files.write(handle, 0, b"hello, second face\n")?;
    files.fsync(handle)?;
    print!("{}", String::from_utf8_lossy(&files.read(handle, 0, 100)?));
    files.release(handle);
    files.forget(file.ino, 1);

    match engine.tally()?.margin {
        Some(margin) => println!("every file survives the loss of any {margin} nodes"),
        None => println!("no file is stored yet"),
    }
    Ok(engine.close()?)
}
