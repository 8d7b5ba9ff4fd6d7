//! What else a machine does to a file system: full disks, too few descriptors, holders that die.

use super::drive::{Drive, files_below};
use crate::content::bytes_at;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

/// Shard files of files' segments below all nodes; the others are the metadata's.
fn shard_count(drive: &Drive) -> usize {
    let is_name = |name: &std::ffi::OsStr| name.len() > 32 && !name.as_encoded_bytes().starts_with(b"fffffffffff");
    let is_shard = |path: &&std::path::PathBuf| path.file_name().is_some_and(is_name);
    (1..=6).map(|i| files_below(&drive.node(i)).iter().filter(is_shard).count()).sum()
}

/// Writes files of 1 MiB, synced, until one is refused; returns how many there are and the error.
fn fill(folder: &Path, first: u64) -> (u64, std::io::Error) {
    for number in first.. {
        let write = || -> std::io::Result<()> {
            let mut file = File::create(folder.join(format!("f{number}")))?;
            file.write_all(&bytes_at(number, 0, 1 << 20))?;
            file.sync_all()
        };
        if let Err(error) = write() {
            return (number, error);
        }
        assert!(number < first + 10_000, "the disks are small and never full");
    }
    unreachable!("the range does not end")
}

fn check(folder: &Path, numbers: std::ops::Range<u64>) {
    for number in numbers {
        let path = folder.join(format!("f{number}"));
        let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(bytes == bytes_at(number, 0, 1 << 20), "{} differs", path.display());
    }
}

#[test]
fn full_nodes_refuse_writes_keep_files_and_take_more_after_a_deletion() {
    let mut drive = Drive::with_disks("rs:4+2", 6, None, Some(24));
    drive.mount();
    let folder = drive.mountpoint();
    let (count, error) = fill(&folder, 0);
    assert_eq!(error.raw_os_error(), Some(28), "ENOSPC, not {error}");
    assert!(count > 20, "only {count} MiB fit on 6 disks of 24 MiB");
    check(&folder, 0..count);
    for number in 0..=count {
        // The refused file too: what of it is not written is given up, so that the mount can end.
        if number % 2 == 0 || number == count {
            std::fs::remove_file(folder.join(format!("f{number}"))).expect("deleting works on a full volume");
        }
    }
    drive.umount_full();
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    drive.mount();
    let (more, _) = fill(&folder, 10_000);
    assert!(more - 10_000 > count / 4, "{} MiB fit after half of {count} were deleted", more - 10_000);
    check(&folder, 10_000..more);
    for number in (0..count).filter(|number| number % 2 == 1) {
        check(&folder, number..number + 1);
    }
    std::fs::remove_file(folder.join(format!("f{more}"))).expect("deleting works");
    drive.umount_full();
    drive.weft(&["fsck", &drive.meta()]);
}

#[test]
fn a_full_metadata_disk_refuses_changes_and_recovers() {
    let mut drive = Drive::with_disks("rs:4+2", 6, Some(6), None);
    drive.mount();
    let folder = drive.mountpoint();
    std::fs::write(folder.join("kept"), bytes_at(1, 0, 100_000)).expect("writes");
    File::open(folder.join("kept")).and_then(|file| file.sync_all()).expect("syncs");
    let ballast = drive.elsewhere("meta/ballast");
    let mut file = File::create(&ballast).expect("creates");
    while file.write_all(&[0; 4096]).is_ok() {}
    drop(file);
    let refused = (0..2000).find_map(|i| {
        let path = folder.join(format!("d{i}"));
        std::fs::create_dir(&path).and_then(|()| File::open(&path)).and_then(|directory| directory.sync_all()).err()
    });
    assert_eq!(refused.and_then(|error| error.raw_os_error()), Some(28), "a full metadata disk is told as ENOSPC");
    assert!(std::fs::read(folder.join("kept")).expect("reads go on") == bytes_at(1, 0, 100_000));
    std::fs::remove_file(&ballast).expect("room again");
    let path = folder.join("after");
    std::fs::create_dir(&path).expect("changes go on");
    File::open(&path).and_then(|directory| directory.sync_all()).expect("and become durable");
    drive.umount();
    drive.weft(&["fsck", &drive.meta()]);
    drive.mount();
    assert!(path.is_dir());
    assert!(std::fs::read(folder.join("kept")).expect("reads") == bytes_at(1, 0, 100_000));
}

#[test]
fn too_few_descriptors_are_an_error_and_no_damage() {
    let mut drive = Drive::new("rs:4+2", 6);
    // Enough to start with, not enough for six nodes under load.
    drive.mount_under("prlimit", &["--nofile=64:64"]);
    let folder = drive.mountpoint();
    let mut written = Vec::new();
    for number in 0..60 {
        let path = folder.join(format!("f{number}"));
        let write = || -> std::io::Result<()> {
            let mut file = File::create(&path)?;
            file.write_all(&bytes_at(number, 0, 300_000))?;
            file.sync_all()
        };
        if write().is_ok() {
            written.push(number);
        }
    }
    drive.kill();
    drive.mount();
    for number in written {
        let bytes = std::fs::read(folder.join(format!("f{number}"))).expect("what was synced is there");
        assert!(bytes == bytes_at(number, 0, 300_000), "f{number} differs");
    }
    drive.umount();
    drive.weft(&["fsck", &drive.meta()]);
}

#[test]
fn an_unlinked_open_file_outlives_collection_and_is_reclaimed_when_its_holder_dies() {
    let mut drive = Drive::new("rs:4+2", 6);
    drive.mount();
    let path = drive.mountpoint().join("held");
    std::fs::write(&path, bytes_at(3, 0, 3 << 20)).expect("writes");
    let mut held = File::open(&path).expect("opens");
    held.sync_all().expect("syncs");
    std::fs::remove_file(&path).expect("unlinks");
    File::open(drive.mountpoint()).and_then(|directory| directory.sync_all()).expect("the removal is durable");
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    let mut bytes = Vec::new();
    held.read_to_end(&mut bytes).expect("it is readable as long as it is open");
    assert!(bytes == bytes_at(3, 0, 3 << 20));
    drive.kill();
    drop(held);
    drive.mount();
    drive.umount();
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    assert_eq!(shard_count(&drive), 0, "nothing of it is left on the nodes");
    drive.weft(&["fsck", &drive.meta()]);
}

#[test]
fn orphans_of_a_killed_writer_are_gone_after_two_collections() {
    let mut drive = Drive::new("rs:4+2", 6);
    drive.mount();
    std::fs::write(drive.mountpoint().join("kept"), bytes_at(5, 0, 200_000)).expect("writes");
    drive.remount();
    let kept = shard_count(&drive);
    assert_eq!(kept, 6, "one segment");
    // What a writer leaves that dies between its puts and its commit: shards that no record names.
    for i in 1..=6 {
        let node = drive.node(i);
        let shard = files_below(&node).into_iter().find(|path| path.file_name().is_some_and(|name| name.len() > 32));
        let shard = shard.expect("one shard a node");
        let name = shard.file_name().and_then(|name| name.to_str()).expect("ASCII").to_string();
        // Another segment of the same fan-out folder, made in 2001.
        let orphan = shard.with_file_name(format!("00e3{}", &name[4..]));
        std::fs::copy(&shard, &orphan).expect("copies");
        let long_ago = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        File::options().write(true).open(&orphan).and_then(|file| file.set_modified(long_ago)).expect("ages it");
    }
    assert_eq!(shard_count(&drive), kept + 6);
    // Beside a mount collection keeps its grace time whatever is asked.
    drive.umount();
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    drive.weft(&["gc", &drive.meta(), "--grace", "0"]);
    assert_eq!(shard_count(&drive), kept);
    drive.mount();
    assert!(std::fs::read(drive.mountpoint().join("kept")).expect("reads") == bytes_at(5, 0, 200_000));
}
