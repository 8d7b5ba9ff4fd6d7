//! What is deleted and kept: it comes back as it was, whatever a crash leaves, and goes when its time is over or its room needed.

use crate::support::{CALLER, World};
use weft_format::Ino;
use weft_meta::{RenameFlags, XattrMode};
use weft_vfs::{Caller, Expired, RESTORE_XATTR, Volume, deleted_value};

const HOUR_MS: u64 = 3_600_000;

fn put(volume: &Volume, parent: Ino, name: &[u8], data: &[u8]) -> Ino {
    let (attributes, handle) = volume.create(&CALLER, parent, name, 0o644, libc::O_RDWR).expect("creates");
    volume.write(handle, 0, data, false).expect("writes");
    volume.fsync(handle).expect("syncs");
    volume.release(handle);
    volume.forget(attributes.ino, 1);
    attributes.ino
}

fn content(volume: &Volume, parent: Ino, name: &[u8]) -> Vec<u8> {
    let ino = volume.lookup(parent, name).expect("it is there").ino;
    let handle = volume.open(ino, 0).expect("opens");
    let bytes = volume.read(handle, 0, 1 << 20).expect("reads").to_vec();
    volume.release(handle);
    volume.forget(ino, 1);
    bytes
}

fn kept(volume: &Volume) -> Vec<(u64, Ino)> {
    let deleted = volume.store().deleted(None, 100).expect("read");
    deleted.iter().map(|deleted| (deleted.deleted_ms, deleted.attributes.ino)).collect()
}

#[test]
fn deleted_and_brought_back_it_is_whole_after_a_crash_at_any_commit() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    volume.store().set_keep_ms(HOUR_MS).expect("wished");
    let (small, large) = (b"small".to_vec(), vec![7; 300_000]);
    let first = put(volume, Ino::ROOT, b"small", &small);
    let second = put(volume, Ino::ROOT, b"large", &large);
    volume.sync().expect("all is on the nodes, or in the journal");
    let begin = world.kv.committed_count();
    for name in [&b"small"[..], b"large"] {
        volume.unlink(Ino::ROOT, name).expect("deleted");
    }
    let all = kept(volume);
    assert_eq!(all.len(), 2);
    for (deleted_ms, ino) in all {
        let value = deleted_value(deleted_ms, ino);
        volume
            .set_xattr(&Caller::new(0, CALLER.gid), Ino::ROOT, RESTORE_XATTR, value.as_bytes(), XattrMode::Any)
            .expect("brought back");
    }
    let wrong = volume
        .set_xattr(&Caller::new(0, CALLER.gid), Ino::ROOT, RESTORE_XATTR, b"yesterday", XattrMode::Any)
        .expect_err("refused");
    assert!(wrong.to_string().contains("a time in milliseconds"), "{wrong}");
    for crash_at in begin..=world.kv.committed_count() {
        let again = World::open(world.kv.after(crash_at), world.nodes.clone());
        // With its name or kept, never neither and never both.
        for (deleted_ms, ino) in kept(&again.volume) {
            again.volume.restore(deleted_ms, ino).expect("brought back");
        }
        assert!(content(&again.volume, Ino::ROOT, b"small") == small, "after {crash_at} commits");
        assert!(content(&again.volume, Ino::ROOT, b"large") == large, "after {crash_at} commits");
        assert_eq!(again.volume.lookup(Ino::ROOT, b"small").expect("there").ino, first);
        assert_eq!(again.volume.lookup(Ino::ROOT, b"large").expect("there").ino, second);
        again.volume.shut_down().expect("shuts down");
        again.fsck();
    }
}

/// What was written and is not uploaded when the name goes is kept too.
#[test]
fn what_was_written_just_before_comes_back_too() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    volume.store().set_keep_ms(HOUR_MS).expect("wished");
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, libc::O_RDWR).expect("creates");
    volume.write(handle, 0, &[9; 50_000], false).expect("writes");
    volume.unlink(Ino::ROOT, b"file").expect("deleted");
    volume.write(handle, 50_000, b"and more", false).expect("it is still open");
    volume.release(handle);
    volume.forget(attributes.ino, 1);
    volume.sync().expect("syncs");
    let (deleted_ms, ino) = kept(volume)[0];
    volume.restore(deleted_ms, ino).expect("brought back");
    let bytes = content(volume, Ino::ROOT, b"file");
    assert!(bytes[..50_000] == [9; 50_000] && &bytes[50_000..] == b"and more");
    volume.shut_down().expect("shuts down");
    world.fsck();
}

#[test]
fn what_was_replaced_by_a_rename_comes_back_beside_its_successor() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    volume.store().set_keep_ms(HOUR_MS).expect("wished");
    let old = put(volume, Ino::ROOT, b"file", &[1; 100_000]);
    put(volume, Ino::ROOT, b"fresh", &[2; 100_000]);
    volume.rename(Ino::ROOT, b"fresh", Ino::ROOT, b"file", RenameFlags::default()).expect("replaced");
    let all = kept(volume);
    assert_eq!(all.iter().map(|(_, ino)| *ino).collect::<Vec<_>>(), [old]);
    volume.restore(all[0].0, old).expect_err("the name is another's");
    volume.rename(Ino::ROOT, b"file", Ino::ROOT, b"newer", RenameFlags::default()).expect("renamed");
    volume.restore(all[0].0, old).expect("brought back");
    assert!(
        content(volume, Ino::ROOT, b"file") == [1; 100_000] && content(volume, Ino::ROOT, b"newer") == [2; 100_000]
    );
    volume.shut_down().expect("shuts down");
    world.fsck();
}

#[test]
fn the_oldest_go_when_their_time_is_over_or_their_room_needed() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    volume.store().set_keep_ms(HOUR_MS).expect("wished");
    let mut inos = Vec::new();
    for number in 0..5u8 {
        inos.push(put(volume, Ino::ROOT, &[b'0' + number], &[number; 100_000]));
    }
    volume.sync().expect("syncs");
    for number in 0..5u8 {
        volume.unlink(Ino::ROOT, &[b'0' + number]).expect("deleted");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let all = kept(volume);
    assert_eq!(all.iter().map(|(_, ino)| *ino).collect::<Vec<_>>(), inos);
    let now_ms = all[4].0;
    assert_eq!(volume.expire_deleted(now_ms, 0).expect("looked"), Expired::default());
    // A file and a half.
    let expired = volume.expire_deleted(now_ms, 150_000).expect("let go");
    assert_eq!((expired, kept(volume)), (Expired { count: 0, early_count: 2 }, all[2..].to_vec()));
    let expired = volume.expire_deleted(all[2].0 + HOUR_MS, 0).expect("let go");
    assert_eq!((expired, kept(volume)), (Expired { count: 1, early_count: 0 }, all[3..].to_vec()));
    // Nothing is kept any more.
    volume.store().set_keep_ms(0).expect("wished");
    assert_eq!(volume.expire_deleted(now_ms, 0).expect("let go"), Expired { count: 2, early_count: 0 });
    volume.shut_down().expect("shuts down");
    assert_eq!(volume.store().statistics().expect("counted").live_bytes, 0);
    world.fsck();
}

#[test]
fn finding_33_restoring_is_for_the_owner_of_the_root_directory_and_root() {
    let world = World::new("rs:4+2", 6);
    let volume = &world.volume;
    volume.store().set_keep_ms(HOUR_MS).expect("wished");
    let file = put(volume, Ino::ROOT, b"file", b"deleted on purpose");
    volume.unlink(Ino::ROOT, b"file").expect("deleted");
    let [(deleted_ms, ino)] = kept(volume)[..] else { panic!("one is kept") };
    assert_eq!(ino, file);
    let restore = |uid| {
        let (caller, value) = (Caller::new(uid, CALLER.gid), deleted_value(deleted_ms, ino));
        let set = volume.set_xattr(&caller, Ino::ROOT, RESTORE_XATTR, value.as_bytes(), XattrMode::Any);
        set.map_err(|error| error.errno())
    };
    // As where the root directory is open to all: the kernel lets everybody write.
    assert_eq!(restore(1000), Err(libc::EPERM));
    assert_eq!(kept(volume).len(), 1);
    assert_eq!(restore(0), Ok(()));
    assert!(kept(volume).is_empty());
}
