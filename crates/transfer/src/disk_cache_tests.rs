use super::*;
use std::sync::Arc;

const VOLUME: VolumeId = VolumeId(1);

fn room(folder: &Path, pieces: u64) -> DiskRoom {
    let bytes = (2 * PAGE_BYTES + pieces * (ENTRY_BYTES + PIECE_BYTES)).max(1 << 20);
    DiskRoom { folder: folder.join("cache"), bytes }
}

fn key(number: u64) -> PieceKey {
    (SegmentId(77), number)
}

fn piece(number: u64) -> Vec<u8> {
    (0..PIECE_BYTES).map(|i| (i * 31 + number * 7 + i / 251) as u8).collect()
}

fn put(cache: &DiskCache, number: u64) {
    assert!(cache.make_way(PIECE_BYTES));
    cache.put(key(number), &piece(number));
}

fn kept(cache: &DiskCache, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let got = |number: &u64| match cache.get(key(*number), PIECE_BYTES) {
        Some(bytes) => {
            assert!(bytes == piece(*number), "piece {number}");
            true
        }
        None => false,
    };
    numbers.filter(got).collect()
}

#[test]
fn pieces_are_kept_also_for_the_next_who_opens_it_and_for_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let room = room(folder.path(), 20);
    let cache = DiskCache::open(&room, VOLUME).unwrap();
    (0..10).for_each(|number| put(&cache, number));
    assert_eq!(kept(&cache, 0..12), (0..10).collect::<Vec<_>>());
    assert!(matches!(DiskCache::open(&room, VOLUME), Err(DiskCacheError::InUse(_))));
    assert_eq!(cache.get(key(0), PIECE_BYTES - 1), None, "its length is part of what is asked");
    drop(cache);
    let cache = DiskCache::open(&room, VOLUME).unwrap();
    assert_eq!(kept(&cache, 1..12), (1..10).collect::<Vec<_>>());
    drop(cache);
    assert_eq!(kept(&DiskCache::open(&room, VolumeId(2)).unwrap(), 0..12), [0u64; 0]);
    assert_eq!(kept(&DiskCache::open(&room, VOLUME).unwrap(), 0..12), [0u64; 0]);
}

#[test]
fn it_is_bounded_and_what_is_used_stays() {
    let folder = tempfile::tempdir().unwrap();
    let room = room(folder.path(), 20);
    let cache = DiskCache::open(&room, VOLUME).unwrap();
    for number in 0..200 {
        put(&cache, number);
        assert_eq!(kept(&cache, 0..1), [0], "it is used all the time");
    }
    let numbers = kept(&cache, 0..200);
    assert_eq!(numbers.len(), 20);
    assert!(numbers.contains(&199));
    assert!(room.folder.join(FILE).metadata().unwrap().len() <= room.bytes);
    drop(cache);
    assert_eq!(kept(&DiskCache::open(&room, VOLUME).unwrap(), 0..200), numbers);
}

#[test]
fn what_is_damaged_cut_or_torn_is_a_miss_and_is_kept_anew() {
    let folder = tempfile::tempdir().unwrap();
    let room = room(folder.path(), 20);
    let path = room.folder.join(FILE);
    let length = {
        let cache = DiskCache::open(&room, VOLUME).unwrap();
        (0..10).for_each(|number| put(&cache, number));
        let file = OpenOptions::new().write(true).open(&path).unwrap();
        // A byte of a piece, of an entry, and two pieces that changed places.
        file.write_all_at(b"x", cache.slot_at(3) + 100).unwrap();
        file.write_all_at(b"x", PAGE_BYTES + 5 * ENTRY_BYTES + 17).unwrap();
        file.write_all_at(&piece(7), cache.slot_at(6)).unwrap();
        assert_eq!(kept(&cache, 0..10), [0, 1, 2, 4, 5, 7, 8, 9]);
        put(&cache, 3);
        assert_eq!(kept(&cache, 0..10), [0, 1, 2, 3, 4, 5, 7, 8, 9]);
        file.metadata().unwrap().len()
    };
    assert_eq!(kept(&DiskCache::open(&room, VOLUME).unwrap(), 0..10), [0, 1, 2, 3, 4, 7, 8, 9], "the entry is no more");
    // Cut short, as by a disk that was full: begun anew.
    OpenOptions::new().write(true).open(&path).unwrap().set_len(length - 1).unwrap();
    assert_eq!(kept(&DiskCache::open(&room, VOLUME).unwrap(), 0..10), [0u64; 0]);
    for content in [&b""[..], b"weft pieces 1\n", &[0; 10_000]] {
        std::fs::write(&path, content).unwrap();
        let cache = DiskCache::open(&room, VOLUME).unwrap();
        put(&cache, 1);
        assert_eq!(kept(&cache, 0..3), [1]);
    }
}

#[test]
fn what_cannot_be_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let small = DiskRoom { bytes: 1000, ..room(folder.path(), 20) };
    assert!(matches!(DiskCache::open(&small, VOLUME), Err(DiskCacheError::TooSmall(1000))));
    std::fs::write(folder.path().join("file"), "").unwrap();
    let no_folder = DiskRoom { folder: folder.path().join("file/cache"), bytes: 2 << 20 };
    assert!(matches!(DiskCache::open(&no_folder, VOLUME), Err(DiskCacheError::Io { .. })));
}

#[test]
fn readers_and_writers_at_one_time_never_see_wrong_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Arc::new(DiskCache::open(&room(folder.path(), 20), VOLUME).unwrap());
    std::thread::scope(|scope| {
        for worker in 0..4u64 {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..150 {
                    let number = (round * 7 + worker * 3) % 40;
                    if kept(cache, number..number + 1).is_empty() {
                        put(cache, number);
                    }
                }
            });
        }
    });
    assert!(kept(&cache, 0..40).len() > 5);
}

#[test]
fn finding_14_a_file_that_others_can_open_or_that_is_elsewhere_is_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let room = room(folder.path(), 20);
    drop(DiskCache::open(&room, VOLUME).unwrap());
    let path = room.folder.join(FILE);
    let refusal = || match DiskCache::open(&room, VOLUME) {
        Err(DiskCacheError::Unsafe { what, .. }) => what,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was opened"),
    };
    for mode in [0o644, 0o640, 0o620, 0o604] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        assert_eq!(refusal(), "can be opened by other users", "{mode:o}");
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::hard_link(&path, folder.path().join("other")).unwrap();
    assert_eq!(refusal(), "has another name elsewhere");
    std::fs::remove_file(&path).unwrap();
    let victim = folder.path().join("victim");
    std::fs::write(&victim, "precious").unwrap();
    symlink(&victim, &path).unwrap();
    assert_eq!(refusal(), "is a symbolic link");
    assert_eq!(std::fs::read(&victim).unwrap(), b"precious");
    std::fs::remove_file(&path).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &path,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )
    .unwrap();
    assert_eq!(refusal(), "is no regular file");
}

#[test]
fn finding_14_a_nodes_folder_holds_no_cache() {
    let folder = tempfile::tempdir().unwrap();
    let node = folder.path().join("node");
    std::fs::create_dir_all(node.join("ab")).unwrap();
    std::fs::write(node.join(IDENTITY_FILE), "{}").unwrap();
    std::os::unix::fs::symlink(node.join("ab"), folder.path().join("link")).unwrap();
    for place in [node.clone(), node.join("ab"), node.join("new/cache"), folder.path().join("link/cache")] {
        let room = DiskRoom { folder: place, bytes: 2 << 20 };
        assert!(matches!(DiskCache::open(&room, VOLUME), Err(DiskCacheError::InNode(_))));
    }
    assert_eq!(std::fs::read_dir(&node).unwrap().count(), 2, "nothing was made in it");
}
