//! A volume whose names several stores change at the same time.

use std::time::Duration;
use weft_env::{Env, Rng, SeededRng};
use weft_format::records::{Kind, PolicyRecord, Timestamp, VolumeRecord};
use weft_format::{Ino, PolicyId, VolumeId};
use weft_meta::kv::KvError;
use weft_meta::{Access, MetaError, MetaUrl, NewInode, RenameFlags, Store, fsck};

/// Few enough that operations meet.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

fn at(moment: Duration) -> Timestamp {
    Timestamp { seconds: moment.as_secs() as i64, nanoseconds: moment.subsec_nanos() }
}

/// An empty volume.
pub fn format(url: &MetaUrl) {
    url.create().unwrap();
    let kv = url.open(Access::Owner, None, &Env::system()).unwrap();
    let volume = VolumeRecord { volume: VolumeId(1), created_ms: 0, default_policy: PolicyId(0) };
    let now = at(Duration::from_secs(1));
    Store::format(kv, &volume, &PolicyRecord::of("rs:4+2", Some(1)), now, &Env::system()).unwrap();
}

/// Tries `count` operations at random. Returns how many succeeded, and how many met others at each attempt. What others did first is no failure.
///
/// # Panics
/// One fails for another reason.
pub fn change(store: &Store, rng: &SeededRng, count: u32) -> (u64, u64) {
    let (mut done, mut refused) = (0, 0);
    for round in 0..count {
        match one(store, rng, at(Duration::from_secs(u64::from(round) + 2))) {
            Ok(()) => done += 1,
            Err(MetaError::NotFound | MetaError::Exists | MetaError::NotEmpty | MetaError::NotDirectory) => {}
            Err(MetaError::IsDirectory | MetaError::Invalid { .. }) => {}
            Err(MetaError::Engine(KvError::Conflict)) => refused += 1,
            Err(error) => panic!("{error:?}"),
        }
    }
    (done, refused)
}

fn one(store: &Store, rng: &SeededRng, now: Timestamp) -> Result<(), MetaError> {
    let name = || NAMES[(rng.next_u64() % NAMES.len() as u64) as usize].as_bytes();
    let directory = || {
        let mut found = Ino::ROOT;
        for _ in 0..rng.next_u64() % 3 {
            match store.lookup(found, name()) {
                Ok(attributes) if attributes.kind == Kind::Directory => found = attributes.ino,
                _ => break,
            }
        }
        found
    };
    let parent = directory();
    match rng.next_u64() % 10 {
        0..3 => {
            let kind = if rng.next_u64().is_multiple_of(2) { Kind::Directory } else { Kind::File };
            let new = NewInode { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
            store.create(parent, name(), &new, now).map(drop)
        }
        3 => store.unlink(parent, name(), now).map(drop),
        4 | 5 => store.rmdir(parent, name(), now).map(drop),
        6 => {
            let file = store.lookup(parent, name())?;
            store.link(file.ino, directory(), name(), now).map(drop)
        }
        _ => {
            let flags = RenameFlags { exchange: rng.next_u64().is_multiple_of(4), ..RenameFlags::default() };
            store.rename(parent, name(), directory(), name(), flags, now).map(drop)
        }
    }
}

/// Every directory is below the root, and all counts are right.
///
/// # Panics
/// Something does not fit.
pub fn assert_sound(store: &Store) {
    let report = fsck::check(store, &mut |_| {}).unwrap();
    assert!(report.is_clean(), "{report:#?}");
}
