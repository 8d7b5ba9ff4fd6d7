use super::*;

fn disk() -> (tempfile::TempDir, Disk) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join(TABLE), [1; 2 * BLOCK_BYTES]).unwrap();
    let disk = Disk::begin(folder.path()).unwrap();
    (folder, disk)
}

fn blocks(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks(BLOCK_BYTES).map(|block| block[0]).collect()
}

#[test]
fn a_kill_leaves_everything_and_a_power_cut_after_it_takes_what_was_never_synced() {
    let (_folder, mut disk) = disk();
    std::fs::write(disk.store(), [2; 2 * BLOCK_BYTES]).unwrap();
    disk.end(End::Kill, 0).unwrap();
    assert_eq!(blocks(&std::fs::read(disk.store()).unwrap()), [2, 2]);
    disk.end(End::Bare, 0).unwrap();
    assert_eq!(blocks(&std::fs::read(disk.store()).unwrap()), [1, 1]);
}

#[test]
fn what_is_synced_survives_every_power_cut() {
    for seed in 0..50 {
        let (_folder, mut disk) = disk();
        std::fs::write(disk.store(), [2; 2 * BLOCK_BYTES]).unwrap();
        disk.synced(&disk.store()).unwrap();
        disk.end(End::PowerCut, seed).unwrap();
        assert_eq!(blocks(&std::fs::read(disk.store()).unwrap()), [2, 2], "seed {seed}");
    }
}

#[test]
fn of_what_is_not_synced_some_power_cut_leaves_each_part() {
    let mut seen = BTreeSet::new();
    for seed in 0..200 {
        let (_folder, mut disk) = disk();
        std::fs::write(disk.store(), [2; 2 * BLOCK_BYTES]).unwrap();
        disk.end(End::PowerCut, seed).unwrap();
        seen.insert(blocks(&std::fs::read(disk.store()).unwrap()));
    }
    assert_eq!(seen, [vec![1, 1], vec![1, 2], vec![2, 1], vec![2, 2]].into());
}

#[test]
fn names_that_are_not_synced_are_there_or_not() {
    let mut seen = BTreeSet::new();
    for seed in 0..50 {
        let (_folder, mut disk) = disk();
        let new = disk.store().with_file_name("volume-new");
        std::fs::write(&new, [3; BLOCK_BYTES]).unwrap();
        disk.synced(&new).unwrap();
        disk.end(End::PowerCut, seed).unwrap();
        seen.insert(std::fs::read(disk.store().with_file_name("volume-new")).ok().map(|bytes| blocks(&bytes)));
    }
    assert_eq!(seen, [None, Some(vec![3])].into());
}

/// With frames of the new log behind the head of the old one, SQLite would find the beginning of the old log once more.
#[test]
fn no_frame_of_a_log_that_begins_again_follows_the_old_head() {
    for seed in 0..200 {
        let (_folder, mut disk) = disk();
        let log = disk.store().with_file_name(LOG);
        std::fs::write(&log, [1; 4 * BLOCK_BYTES]).unwrap();
        disk.synced(&log).unwrap();
        std::fs::write(&log, [2; 4 * BLOCK_BYTES]).unwrap();
        disk.end(End::PowerCut, seed).unwrap();
        let left = std::fs::read(disk.store().with_file_name(LOG)).unwrap();
        assert!(left[0] == 2 || left.iter().all(|byte| *byte == 1), "seed {seed}");
    }
}

#[test]
fn the_witness_names_the_store_that_it_named_in_its_new_place() {
    let (_folder, mut disk) = disk();
    let witness = disk.store().with_file_name(OWNER);
    let line = |(inode, birth_ns): Identity, commits: u64| {
        let mut line = format!("weft store inode {inode} born {birth_ns} commits {commits} intents 4 sum ");
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, line.as_bytes());
        line += &format!("{sum:016x}");
        format!("{line:<width$}\nprocess 7\n", width = WITNESS_BYTES - 1).into_bytes()
    };
    std::fs::write(&witness, line(identity(&disk.store()).unwrap(), 12)).unwrap();
    disk.end(End::Kill, 0).unwrap();
    let found = std::fs::read(disk.store().with_file_name(OWNER)).unwrap();
    assert_eq!(found, line(identity(&disk.store()).unwrap(), 12));
    // That of another store stays as it is.
    let other = line((1, 2), 3);
    std::fs::write(disk.store().with_file_name(OWNER), &other).unwrap();
    disk.end(End::Kill, 0).unwrap();
    assert_eq!(std::fs::read(disk.store().with_file_name(OWNER)).unwrap(), other);
}
