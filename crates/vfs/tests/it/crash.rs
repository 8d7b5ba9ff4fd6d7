//! Whatever a crash leaves, every fsynced byte that was not overwritten since is there, and nothing reads as garbage.

use crate::support::{CALLER, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use weft_format::Ino;
use weft_format::records::Kind;
use weft_meta::RenameFlags;
use weft_vfs::{Handle, Volume};

/// What may stand at one offset of one file after a crash.
#[derive(Clone, Default)]
struct Byte {
    /// Written since the last fsync, or at it; the newest last.
    candidates: Vec<u8>,
}

struct Model {
    ino: Ino,
    handle: Handle,
    bytes: Vec<Byte>,
    /// The size at the last fsync: the file is not shorter (nothing here truncates).
    synced_size: usize,
}

impl Model {
    fn write(&mut self, offset: usize, data: &[u8]) {
        if self.bytes.len() < offset + data.len() {
            self.bytes.resize(offset + data.len(), Byte { candidates: vec![0] });
        }
        for (byte, new) in self.bytes[offset..].iter_mut().zip(data) {
            byte.candidates.push(*new);
        }
    }

    fn sync(&mut self) {
        for byte in &mut self.bytes {
            byte.candidates.drain(..byte.candidates.len() - 1);
        }
        self.synced_size = self.bytes.len();
    }
}

fn run(seed: u64) {
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    let mut files: BTreeMap<String, Model> = BTreeMap::new();
    for step in 0..random.random_range(20..120) {
        let name = format!("f{}", random.random_range(0..4));
        let model = files.entry(name.clone()).or_insert_with(|| {
            let (attributes, handle) =
                volume.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644, libc::O_RDWR).expect("creates");
            Model { ino: attributes.ino, handle, bytes: Vec::new(), synced_size: 0 }
        });
        match random.random_range(0..10) {
            0..=5 => {
                let length = match random.random_range(0..8) {
                    0 => random.random_range(1..200_000),
                    1..=3 => 4096,
                    _ => random.random_range(1..5000),
                };
                let offset = random.random_range(0..200_000);
                // Never zero, so that a hole cannot pass for written bytes.
                let data: Vec<u8> = (0..length).map(|_| random.random_range(1..=255)).collect();
                volume.write(model.handle, offset as u64, &data, false).expect("writes");
                model.write(offset, &data);
            }
            6..=8 => {
                volume.fsync(model.handle).expect("syncs");
                model.sync();
            }
            _ if step % 3 == 0 => volume.sync().expect("syncs everything"),
            _ => {
                let read = volume.read(model.handle, 0, 1 << 20).expect("reads");
                let newest: Vec<u8> = model.bytes.iter().map(|byte| *byte.candidates.last().unwrap_or(&0)).collect();
                assert!(read[..] == newest[..], "read-your-writes of {name}");
            }
        }
    }
    let (flushed, committed) = (world.kv.flushed_count(), world.kv.committed_count());
    let crash_at = random.random_range(flushed..=committed);
    let again = World::open(world.kv.after(crash_at), world.nodes.clone());
    for (name, model) in &files {
        let Ok(attributes) = again.volume.attributes(model.ino) else {
            assert_eq!(model.synced_size, 0, "{name} was synced and is gone");
            continue;
        };
        assert!(attributes.size as usize >= model.synced_size, "{name} is shorter than when it was synced");
        assert!(attributes.size as usize <= model.bytes.len(), "{name} is longer than it ever was");
        let handle = again.volume.open(model.ino, 0).expect("opens");
        let read = again.volume.read(handle, 0, 1 << 20).expect("reads");
        assert_eq!(read.len() as u64, attributes.size);
        for (offset, (found, byte)) in read.iter().zip(&model.bytes).enumerate() {
            assert!(byte.candidates.contains(found), "{name} at {offset}: {found} is not what was written");
        }
        again.volume.release(handle);
    }
    again.volume.sync().expect("what the journal held can be written");
    again.fsck();
    again.volume.shut_down().expect("shuts down");
    world.volume.shut_down().expect("shuts down");
    world.fsck();
}

#[test]
fn synced_bytes_survive_a_crash_at_any_commit() {
    for seed in 0..20 {
        run(seed);
    }
}

/// A new file with these bytes, which nothing was synced of; open.
fn put(volume: &Volume, name: &[u8], data: &[u8]) -> Handle {
    let (_, handle) = volume.create(&CALLER, Ino::ROOT, name, 0o644, libc::O_RDWR).expect("creates");
    volume.write(handle, 0, data, false).expect("writes");
    handle
}

/// After a crash at any commit the file has one of these contents.
#[track_caller]
fn assert_is_one_of(world: &World, name: &[u8], versions: &[&[u8]]) {
    for crash_at in world.kv.flushed_count()..=world.kv.committed_count() {
        let again = World::open(world.kv.after(crash_at), world.nodes.clone());
        let ino = again.volume.lookup(Ino::ROOT, name).expect("one of them is there").ino;
        let handle = again.volume.open(ino, 0).expect("opens");
        let content = again.volume.read(handle, 0, 100).expect("reads");
        assert!(versions.contains(&&content[..]), "{content:?}");
    }
}

#[test]
fn replacing_a_file_by_rename_leaves_one_version_or_the_other() {
    let world = World::new("raid5:3", 3);
    let volume = &world.volume;
    let put = |name: &[u8], data: &[u8]| put(volume, name, data);
    let old = put(b"config", b"old version");
    volume.fsync(old).expect("syncs");
    volume.release(old);
    let new = put(b"config.tmp", b"the new version");
    volume.release(new);
    volume.rename(Ino::ROOT, b"config.tmp", Ino::ROOT, b"config", RenameFlags::default()).expect("renames");
    assert_is_one_of(&world, b"config", &[b"old version", b"the new version"]);
}

#[test]
fn exchanging_a_new_file_for_an_old_one_leaves_one_version_or_the_other() {
    let world = World::new("raid5:3", 3);
    let volume = &world.volume;
    let put = |name: &[u8], data: &[u8]| put(volume, name, data);
    let old = put(b"live", b"old version");
    volume.fsync(old).expect("syncs");
    volume.release(old);
    let exchange = RenameFlags { exchange: true, ..RenameFlags::default() };
    // The new file takes the old one's name, and next the other way round.
    for (new, [from, to], version) in
        [(b"next", [b"next", b"live"], b"version 1"), (b"last", [b"live", b"last"], b"version 2")]
    {
        volume.release(put(new, version));
        volume.rename(Ino::ROOT, from, Ino::ROOT, to, exchange).expect("renames");
        volume.unlink(Ino::ROOT, new).expect("deleted");
    }
    assert_is_one_of(&world, b"live", &[b"old version", b"version 1", b"version 2"]);
}

/// A deletion does not wait for the disk, so a crash may undo it; then everything that it deleted is there.
#[test]
fn what_was_deleted_is_gone_or_whole_after_a_crash_at_any_commit() {
    let world = World::new("raid5:3", 3);
    let volume = &world.volume;
    let (journaled, stored) = (vec![1; 5000], vec![2; 300_000]);
    let put = |name: &[u8], data: &[u8]| {
        let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, name, 0o644, libc::O_RDWR).expect("creates");
        volume.write(handle, 0, data, false).expect("writes");
        volume.fsync(handle).expect("syncs");
        volume.release(handle);
        volume.forget(attributes.ino, 1);
    };
    put(b"stored", &stored);
    put(b"replaced", &stored);
    volume.sync().expect("all is on the nodes");
    put(b"journaled", &journaled);
    put(b"new", &journaled);
    let directory = volume.make_node(&CALLER, Ino::ROOT, b"directory", Kind::Directory, 0o755, 0).expect("made");
    volume.forget(directory.ino, 1);
    volume.sync_directory(Ino::ROOT).expect("syncs");
    let flushed = world.kv.flushed_count();
    for name in [&b"stored"[..], b"journaled"] {
        volume.unlink(Ino::ROOT, name).expect("deleted");
    }
    volume.remove_directory(Ino::ROOT, b"directory").expect("deleted");
    volume.rename(Ino::ROOT, b"new", Ino::ROOT, b"replaced", RenameFlags::default()).expect("renamed");
    assert_eq!(world.kv.flushed_count(), flushed, "a deletion waits for no disk");
    while !volume.store().orphans(1).expect("read").is_empty() {
        std::thread::yield_now();
    }
    let committed = world.kv.committed_count();
    for crash_at in flushed..=committed {
        let again = World::open(world.kv.after(crash_at), world.nodes.clone());
        let content = |name: &[u8]| {
            let ino = again.volume.lookup(Ino::ROOT, name).ok()?.ino;
            let handle = again.volume.open(ino, 0).expect("opens");
            let bytes = again.volume.read(handle, 0, 1 << 20).expect("reads").to_vec();
            again.volume.release(handle);
            Some(bytes)
        };
        assert!(content(b"stored").is_none_or(|bytes| bytes == stored), "after {crash_at} commits");
        assert!(content(b"journaled").is_none_or(|bytes| bytes == journaled), "after {crash_at} commits");
        let (new, replaced) = (content(b"new"), content(b"replaced").expect("one of them is there"));
        assert!(replaced == if new.is_some() { &stored[..] } else { &journaled[..] }, "after {crash_at} commits");
        if crash_at == committed {
            assert!(new.is_none() && content(b"stored").is_none() && content(b"journaled").is_none());
        }
        again.volume.sync().expect("what the journal held can be written");
        again.fsck();
        again.volume.shut_down().expect("shuts down");
    }
}
