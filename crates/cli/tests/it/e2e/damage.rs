//! Shards go bad on the nodes: flipped, cut, swapped, replaced by older ones. Each is noticed on read and by scrub, never
//! served, and mended.

use super::drive::{Drive, files_below};
use crate::content::bytes_at;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const BYTES: usize = 20 << 20;

/// The shard files of a node, without its identity file; largest first.
fn shards(node: &Path) -> Vec<PathBuf> {
    let is_shard = |path: &PathBuf| path.file_name().is_some_and(|name| name.len() > 32);
    let mut found: Vec<PathBuf> = files_below(node).into_iter().filter(is_shard).collect();
    found.sort_by_key(|path| std::cmp::Reverse(path.metadata().map_or(0, |metadata| metadata.len())));
    found
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).expect("opens");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("reads");
    file.write_all_at(&[byte[0] ^ 0x10], at).expect("writes");
}

/// Does `harm` to a fresh volume; returns how many shards it harmed.
fn survives(harm: impl Fn(&Drive) -> usize) {
    let mut drive = Drive::new("rs:4+2", 6);
    drive.mount();
    let path = drive.mountpoint().join("file");
    std::fs::write(&path, bytes_at(1, 0, BYTES)).expect("writes");
    std::fs::write(drive.mountpoint().join("small"), bytes_at(2, 0, 5000)).expect("writes");
    drive.umount();
    let harmed = harm(&drive);
    drive.mount();
    assert!(std::fs::read(&path).expect("reads") == bytes_at(1, 0, BYTES), "wrong bytes were served");
    assert!(std::fs::read(drive.mountpoint().join("small")).expect("reads") == bytes_at(2, 0, 5000));
    let found = drive.try_weft(&["scrub", &drive.meta(), "-n"]);
    let text = String::from_utf8_lossy(&found.stdout);
    assert!(!found.status.success(), "a scrub that finds damage says so: {text}");
    let lines = text.lines().filter(|line| line.contains("shard")).count();
    assert!(lines >= harmed, "{harmed} shards were harmed, the scrub says: {text}");
    drive.weft(&["scrub", &drive.meta()]);
    let again = drive.try_weft(&["scrub", &drive.meta(), "-n"]);
    assert!(again.status.success(), "after mending: {}", String::from_utf8_lossy(&again.stdout));
    drive.remount();
    assert!(std::fs::read(&path).expect("reads") == bytes_at(1, 0, BYTES), "wrong bytes after mending");
    drive.weft(&["fsck", &drive.meta()]);
}

#[test]
fn a_flipped_bit_in_header_body_or_tail() {
    survives(|drive| {
        let first = &shards(&drive.node(1))[0];
        flip(first, 20);
        let second = &shards(&drive.node(2))[0];
        flip(second, second.metadata().expect("a file").len() - 1);
        let other = &shards(&drive.node(1))[1];
        flip(other, other.metadata().expect("a file").len() / 2);
        3
    });
}

#[test]
fn a_truncated_an_emptied_and_an_extended_shard() {
    survives(|drive| {
        let resize = |path: &Path, change: i64| {
            let file = OpenOptions::new().write(true).open(path).expect("opens");
            let length = file.metadata().expect("a file").len() as i64;
            file.set_len((length + change).max(0) as u64).expect("resizes");
        };
        resize(&shards(&drive.node(3))[0], -1);
        resize(&shards(&drive.node(4))[1], i64::MIN / 2);
        resize(&shards(&drive.node(5))[2], 5);
        3
    });
}

#[test]
fn two_shards_swapped_on_a_node() {
    survives(|drive| {
        let shards = shards(&drive.node(6));
        let aside = drive.elsewhere("aside");
        std::fs::copy(&shards[0], &aside).expect("copies");
        std::fs::copy(&shards[1], &shards[0]).expect("copies");
        std::fs::copy(&aside, &shards[1]).expect("copies");
        2
    });
}

#[test]
fn a_missing_shard() {
    survives(|drive| {
        std::fs::remove_file(&shards(&drive.node(2))[0]).expect("removes");
        std::fs::remove_file(&shards(&drive.node(3))[0]).expect("removes");
        2
    });
}

#[test]
fn a_shard_of_an_older_generation_under_the_new_name() {
    survives(|drive| {
        // Damage one, let repair write the next generation, then put the old bytes under the new name.
        let old = shards(&drive.node(1))[0].clone();
        let backup = drive.elsewhere("backup");
        std::fs::copy(&old, &backup).expect("copies");
        flip(&old, 5000);
        drive.weft(&["scrub", &drive.meta()]);
        let name = old.file_name().and_then(|name| name.to_str()).expect("ASCII");
        let (segment, index) = (&name[..32], name.rsplit('.').next().expect("an index"));
        let newer = (1..=6)
            .flat_map(|i| shards(&drive.node(i)))
            .find(|path| {
                let candidate = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                candidate.starts_with(segment) && candidate.ends_with(&format!(".{index}")) && candidate != name
            })
            .expect("the shard was written anew under a new name");
        std::fs::copy(&backup, &newer).expect("copies");
        1
    });
}
