//! What a POSIX program may rely on, through the volume's own calls.

use crate::support::{CALLER, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use weft_format::Ino;
use weft_format::records::{Kind, Timestamp};
use weft_meta::XattrMode;
use weft_vfs::{AttributeChange, Caller, SetTime, VfsError, Volume};

fn names(volume: &Volume, ino: Ino) -> Vec<String> {
    let entries = volume.read_directory(ino, 0, 1000).expect("lists");
    entries.into_iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect()
}

/// Random writes, truncations, punches, syncs and reads against an array of bytes; holes are checked by seeking.
#[test]
fn a_file_is_an_array_of_bytes() {
    for seed in 0..12u64 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::new(["rs:4+2", "raid5:4", "raid6:6", "replica:3"][seed as usize % 4], 6);
        let volume = &world.volume;
        let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..150 {
            let offset = random.random_range(0..300_000usize);
            let length = random.random_range(1..60_000usize);
            match random.random_range(0..12) {
                0..=4 => {
                    let byte = random.random::<u8>();
                    volume.write(handle, offset as u64, &vec![byte; length], false).expect("writes");
                    model.resize(model.len().max(offset + length), 0);
                    model[offset..offset + length].fill(byte);
                }
                5 => {
                    let change = AttributeChange { size: Some(offset as u64), ..AttributeChange::default() };
                    let after = volume.set_attributes(attributes.ino, &change).expect("truncates");
                    model.resize(offset, 0);
                    assert_eq!(after.size, offset as u64);
                }
                6 => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    volume.allocate(handle, offset as u64, length as u64, mode, false).expect("punches");
                    let end = model.len().min(offset + length);
                    if offset < end {
                        model[offset..end].fill(0);
                    }
                }
                7 => volume.fsync(handle).expect("syncs"),
                8 => volume.sync().expect("syncs"),
                _ => {
                    let read = volume.read(handle, offset as u64, length as u32).expect("reads");
                    let end = model.len().min(offset + length);
                    assert!(read[..] == model[offset.min(end)..end], "bytes {offset}..{end}");
                }
            }
            assert_eq!(volume.attributes(attributes.ino).expect("stats").size, model.len() as u64);
        }
        if let Ok(hole) = volume.seek(handle, 0, libc::SEEK_HOLE)
            && (hole as usize) < model.len()
        {
            assert_eq!(model[hole as usize], 0, "a hole reads as zeros");
        }
        volume.release(handle);
        volume.sync().expect("syncs");
        world.fsck();
    }
}

#[test]
fn an_unlinked_open_file_lives_until_it_is_closed() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"temporary", 0o600, libc::O_RDWR).expect("creates");
    volume.write(handle, 0, b"still here", false).expect("writes");
    volume.fsync(handle).expect("syncs");
    volume.unlink(Ino::ROOT, b"temporary").expect("unlinks");
    volume.forget(attributes.ino, 1);
    assert_eq!(volume.attributes(attributes.ino).expect("stats").nlink, 0);
    assert_eq!(&volume.read(handle, 0, 100).expect("reads")[..], b"still here");
    volume.write(handle, 6, b"alive", false).expect("writes");
    assert_eq!(&volume.read(handle, 0, 100).expect("reads")[..], b"still alive");
    volume.release(handle);
    volume.shut_down().expect("shuts down");
    let gone = volume.attributes(attributes.ino);
    assert!(matches!(gone, Err(VfsError::Meta(weft_meta::MetaError::NotFound))), "{gone:?}");
    world.fsck();
}

/// More small files than a segment holds, of sizes that do not fit its end.
#[test]
fn shutting_down_loses_no_byte() {
    let mut random = StdRng::seed_from_u64(1);
    let world = World::new("rs:4+2", 6);
    let content = |i: usize| vec![i as u8 + 1; i * 1_234_567 % 900_000 + 1];
    for i in 0..80 {
        let (_, handle) =
            world.volume.create(&CALLER, Ino::ROOT, format!("f{i}").as_bytes(), 0o644, libc::O_RDWR).expect("creates");
        for (at, part) in content(i).chunks(random.random_range(1000..200_000)).scan(0, |at, part| {
            let here = *at;
            *at += part.len();
            Some((here, part))
        }) {
            world.volume.write(handle, at as u64, part, false).expect("writes");
        }
        world.volume.release(handle);
    }
    world.volume.shut_down().expect("shuts down");
    let again = World::open(world.kv.clone(), world.nodes.clone());
    for i in 0..80 {
        let ino = again.volume.lookup(Ino::ROOT, format!("f{i}").as_bytes()).expect("is there").ino;
        let handle = again.volume.open(ino, 0).expect("opens");
        let read = again.volume.read(handle, 0, 1 << 20).expect("reads");
        assert!(read[..] == content(i)[..], "f{i} has {} bytes of {}", read.len(), content(i).len());
    }
    again.fsck();
}

#[test]
fn sparse_files_have_holes_and_know_them() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"sparse", 0o644, libc::O_RDWR).expect("creates");
    let far = 5 << 30;
    volume.write(handle, far, b"data", false).expect("writes");
    for synced in [false, true] {
        if synced {
            volume.sync().expect("syncs");
        }
        assert_eq!(volume.attributes(attributes.ino).expect("stats").size, far + 4);
        assert_eq!(volume.seek(handle, 0, libc::SEEK_HOLE).expect("seeks"), 0);
        assert_eq!(volume.seek(handle, 0, libc::SEEK_DATA).expect("seeks"), far);
        assert_eq!(volume.seek(handle, far, libc::SEEK_HOLE).expect("seeks"), far + 4);
        assert!(volume.seek(handle, far + 4, libc::SEEK_DATA).is_err());
        let read = volume.read(handle, far - 2, 10).expect("reads");
        assert_eq!(&read[..], b"\0\0data");
    }
}

#[test]
fn listing_continues_where_it_was_whatever_changes() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    for i in 0..50 {
        volume.make_node(&CALLER, Ino::ROOT, format!("d{i:02}").as_bytes(), Kind::Directory, 0o755, 0).expect("makes");
    }
    let first = volume.read_directory(Ino::ROOT, 0, 20).expect("lists");
    for i in 0..50 {
        if i % 2 == 0 {
            volume.remove_directory(Ino::ROOT, format!("d{i:02}").as_bytes()).expect("removes");
        }
    }
    let rest = volume.read_directory(Ino::ROOT, first[19].cookie, 1000).expect("lists");
    let found: Vec<_> = rest.iter().map(|entry| String::from_utf8_lossy(&entry.name).into_owned()).collect();
    let expected: Vec<_> = (18..50).filter(|i| i % 2 == 1).map(|i| format!("d{i:02}")).collect();
    assert_eq!(found, expected);
    assert_eq!(names(volume, Ino::ROOT).len(), 27);
}

#[test]
fn setting_an_owner_or_writing_clears_set_user_id() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"tool", 0o6755, libc::O_RDWR).expect("creates");
    let chown = AttributeChange { uid: Some(5), ..AttributeChange::default() };
    assert_eq!(volume.set_attributes(attributes.ino, &chown).expect("chowns").mode, 0o755);
    let chmod = AttributeChange { mode: Some(0o6755), ..AttributeChange::default() };
    volume.set_attributes(attributes.ino, &chmod).expect("chmods");
    volume.write(handle, 0, b"x", true).expect("writes");
    assert_eq!(volume.attributes(attributes.ino).expect("stats").mode, 0o755);
}

/// A commit between the store's answer and the file's must not show the size before the write.
#[test]
fn a_size_that_was_seen_is_never_unseen() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                volume.sync().expect("syncs");
            }
        });
        let (attributes, mut handle) =
            volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
        let mut stale = 0;
        for size in 1..3000 {
            volume.write(handle, size - 1, b"x", false).expect("writes");
            volume.release(handle);
            for _ in 0..3 {
                stale += usize::from(volume.attributes(attributes.ino).expect("stats").size != size);
                stale += usize::from(volume.lookup(Ino::ROOT, b"file").expect("is there").size != size);
                let listed = volume.read_directory(Ino::ROOT, 0, 10).expect("lists");
                stale += usize::from(listed[2].attributes.size != size);
            }
            handle = volume.open(attributes.ino, 0).expect("opens");
        }
        is_done.store(true, Ordering::SeqCst);
        assert_eq!(stale, 0, "answers that were old");
    });
}

#[test]
fn finding_31_bytes_that_replace_committed_ones_take_no_more_room() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    let allocated = || volume.attributes(attributes.ino).expect("stats").allocated_bytes;
    volume.write(handle, 0, &[1; 100_000], false).expect("writes");
    assert_eq!(allocated(), 100_000);
    volume.sync().expect("syncs");
    assert_eq!(allocated(), 100_000);
    // Overwritten whole, then at the end and beyond, and far behind a hole.
    volume.write(handle, 0, &[2; 100_000], false).expect("writes");
    assert_eq!(allocated(), 100_000);
    volume.write(handle, 90_000, &[3; 30_000], false).expect("writes");
    volume.write(handle, 1 << 30, &[4; 5_000], false).expect("writes");
    assert_eq!(allocated(), 125_000);
    // More runs than are compared: never more than the file is long.
    for run in 0..600 {
        volume.write(handle, run * 100, &[5; 50], false).expect("writes");
    }
    volume.sync().expect("syncs");
    assert_eq!(allocated(), 125_000);
    for run in 0..600 {
        volume.write(handle, run * 100, &[5; 50], false).expect("writes");
    }
    assert!((125_000..=125_000 + 600 * 50).contains(&allocated()), "{}", allocated());
    volume.release(handle);
}

#[test]
fn finding_31_making_room_and_holes_clears_set_user_id() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"tool", 0o755, libc::O_RDWR).expect("creates");
    volume.write(handle, 0, &[1; 10_000], false).expect("writes");
    let set = AttributeChange { mode: Some(0o6755), ..AttributeChange::default() };
    let keep_size = libc::FALLOC_FL_KEEP_SIZE;
    // The nodes of this test do not say what room they have, so none can be asked for.
    for mode in [libc::FALLOC_FL_PUNCH_HOLE | keep_size, libc::FALLOC_FL_ZERO_RANGE | keep_size] {
        for (clear_suid, left) in [(false, 0o6755), (true, 0o755)] {
            volume.set_attributes(attributes.ino, &set).expect("chmods");
            volume.allocate(handle, 1000, 2000, mode, clear_suid).expect("allocates");
            assert_eq!(volume.attributes(attributes.ino).expect("stats").mode, left, "mode {mode}");
        }
    }
    volume.release(handle);
}

#[test]
fn new_bytes_and_new_owners_take_file_capabilities_away() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let root = Caller::new(0, 0);
    let (file, handle) = volume.create(&root, Ino::ROOT, b"tool", 0o755, libc::O_RDWR).expect("creates");
    let directory = volume.make_node(&root, Ino::ROOT, b"dir", Kind::Directory, 0o755, 0).expect("makes");
    let capability = b"security.capability";
    let set = |ino| volume.set_xattr(&root, ino, capability, b"any", XattrMode::Any).expect("sets");
    let is_kept = |ino| volume.get_xattr(ino, capability).is_ok();
    let change = |ino, change: AttributeChange| assert!(volume.set_attributes(ino, &change).is_ok());
    let nothing = AttributeChange::default();
    let removers: [(&str, &dyn Fn()); 5] = [
        ("write", &|| assert_eq!(volume.write(handle, 0, b"bytes", false).expect("writes"), 5)),
        ("truncate", &|| change(file.ino, AttributeChange { size: Some(3), ..nothing })),
        ("punch", &|| {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            volume.allocate(handle, 0, 1, mode, false).expect("punches");
        }),
        ("chown", &|| change(file.ino, AttributeChange { uid: Some(7), ..nothing })),
        ("chown and chmod", &|| change(file.ino, AttributeChange { gid: Some(7), mode: Some(0o700), ..nothing })),
    ];
    for (what, remove) in removers {
        set(file.ino);
        remove();
        assert!(!is_kept(file.ino), "{what}");
    }
    // Of what changes neither bytes nor owners, and of a directory, it stays.
    set(file.ino);
    set(directory.ino);
    volume.write(handle, 0, b"", false).expect("writes nothing");
    change(file.ino, AttributeChange { mode: Some(0o711), ..nothing });
    change(directory.ino, AttributeChange { uid: Some(7), ..nothing });
    assert!(is_kept(file.ino) && is_kept(directory.ino));
    // A handle of later finds it.
    volume.sync().expect("syncs");
    volume.release(handle);
    let handle = volume.open(file.ino, libc::O_WRONLY).expect("opens");
    volume.write(handle, 0, b"bytes", false).expect("writes");
    assert!(!is_kept(file.ino));
    volume.release(handle);
    world.fsck();
}

#[test]
fn finding_31_access_times_follow_relatime_for_every_kind() {
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let (file, handle) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    let link = volume.symlink(&CALLER, Ino::ROOT, b"link", b"file").expect("makes");
    let directory = volume.make_node(&CALLER, Ino::ROOT, b"dir", Kind::Directory, 0o755, 0).expect("makes");
    volume.release(handle);
    let stat = |ino| volume.attributes(ino).expect("stats");
    for ino in [file.ino, link.ino, directory.ino, Ino::ROOT] {
        // Read since it was changed, and not long ago: it stays.
        let read = SetTime::To(Timestamp { seconds: stat(ino).ctime.seconds + 5, nanoseconds: 0 });
        let change = AttributeChange { atime: Some(read), ..AttributeChange::default() };
        let before = volume.set_attributes(ino, &change).expect("sets");
        assert!(!volume.note_access(ino));
        assert_eq!(stat(ino), before);
        // Changed since, or read a day ago: it is renewed.
        let change = AttributeChange { mtime: Some(read), ..AttributeChange::default() };
        volume.set_attributes(ino, &change).expect("sets");
        assert!(volume.note_access(ino));
        let old = SetTime::To(Timestamp { seconds: stat(ino).ctime.seconds - 3 * 24 * 3600, nanoseconds: 0 });
        let change = AttributeChange { atime: Some(old), ..AttributeChange::default() };
        volume.set_attributes(ino, &change).expect("sets");
        assert!(volume.note_access(ino));
        assert!(stat(ino).atime.seconds >= stat(ino).ctime.seconds - 60);
    }
}
