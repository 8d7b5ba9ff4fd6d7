//! What a volume leaves when it is closed.

use crate::second_face::make_volume;
use std::fs;
use weft_engine::{Engine, Env, MetaUrl, Options};
use weft_format::Ino;
use weft_meta::Access;
use weft_meta::conformance::set;
use weft_vfs::Caller;

/// Its metadata is one file that may be moved, though somebody holds the volume still and the replica's last round came after the volume
/// had closed its store.
#[test]
fn metadata_of_a_closed_volume_is_one_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let meta = make_volume(folder.path());
    let options = Options { is_replicated: true, ..Options::default() };
    let engine = Engine::open(&MetaUrl::from(meta.as_path()), &Env::system(), options).expect("the volume");
    let volume = engine.volume().clone();
    let (_, handle) = volume.create(&Caller::new(0, 0), Ino::ROOT, b"f", 0o644, libc::O_RDWR).expect("made");
    volume.write(handle, 0, b"content", false).expect("written");
    volume.release(handle);
    engine.close().expect("closed");
    let copy = folder.path().join("copy.db");
    fs::copy(&meta, &copy).expect("copied");
    let kv = MetaUrl::from(copy.as_path()).open(Access::Owner, None, &Env::system()).expect("opened");
    kv.commit(set(b"\xFFtest", b"")).expect("it may be written");
    drop(volume);
}
