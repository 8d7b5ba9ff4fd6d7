use super::*;
use crate::engines::SqliteKv;
use crate::keys::SHARED;
use crate::kv::{Batch, Kv, KvError};
use crate::types::Access;
use weft_env::Env;

fn set(store: &SqliteKv, key: &[u8], value: &[u8]) -> Result<(), KvError> {
    let writes = vec![(key.to_vec(), Some(value.to_vec()))];
    store.commit(Batch { writes, ..Batch::default() })?;
    store.flush()
}

#[test]
fn finding_05_a_backup_is_of_one_moment_and_is_opened_by_restore_alone() {
    let folder = tempfile::tempdir().unwrap();
    let [meta, backup, again] = ["meta", "backup", "again"].map(|name| folder.path().join(name));
    SqliteKv::create(&meta).unwrap();
    let store = SqliteKv::open(&meta, Access::Owner, SHARED, None, &Env::system()).unwrap();
    set(&store, b"\x01one", b"1").unwrap();
    // Beside the owner, who goes on.
    SqliteKv::back_up(&meta, &backup, &weft_env::SystemClock).unwrap();
    set(&store, b"\x01two", b"2").unwrap();
    assert!(matches!(SqliteKv::back_up(&meta, &backup, &weft_env::SystemClock), Err(OpenError::Exists(_))));
    for access in [Access::Owner, Access::ShortLived, Access::Shared] {
        assert!(
            matches!(SqliteKv::open(&backup, access, SHARED, None, &Env::system()), Err(OpenError::Backup(_))),
            "{access:?}"
        );
    }
    assert!(matches!(SqliteKv::restore(&backup, &meta, &weft_env::SystemClock), Err(OpenError::Exists(_))));
    SqliteKv::restore(&backup, &again, &weft_env::SystemClock).unwrap();
    let restored = SqliteKv::open(&again, Access::Owner, SHARED, None, &Env::system()).unwrap();
    let keys = |store: &SqliteKv| -> Vec<Vec<u8>> {
        let pairs = store.snapshot().unwrap().scan(b"\x00", b"\xff", 10).unwrap();
        pairs.into_iter().map(|(key, _)| key).collect()
    };
    assert_eq!(keys(&restored), [b"\x01one".to_vec(), mark().0]);
    set(&restored, b"\x01three", b"3").unwrap();
    assert_eq!(keys(&store), [b"\x01one".to_vec(), b"\x01two".to_vec()]);
    for file in [&backup, &again] {
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

/// A store was moved away after its owner had died, without its logs, and something else is to be made in its place.
#[test]
fn the_log_of_a_store_that_was_moved_away_is_not_removed_with_what_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let [meta, moved, backup] = ["meta", "moved", "backup"].map(|name| folder.path().join(name));
    SqliteKv::create(&meta).unwrap();
    let store = SqliteKv::open(&meta, Access::Owner, SHARED, None, &Env::system()).unwrap();
    set(&store, b"\x01one", b"1").unwrap();
    SqliteKv::back_up(&meta, &backup, &weft_env::SystemClock).unwrap();
    drop(store);
    std::fs::rename(&meta, &moved).unwrap();
    let log = folder.path().join("meta-intents");
    std::fs::write(&log, b"what was synced last").unwrap();
    let refused = SqliteKv::restore(&backup, &meta, &weft_env::SystemClock).unwrap_err();
    assert!(matches!(&refused, OpenError::LogLeft { log: left, .. } if *left == file::shown(&log)), "{refused}");
    assert!(matches!(SqliteKv::create(&meta), Err(OpenError::LogLeft { .. })));
    assert_eq!(std::fs::read(&log).unwrap(), b"what was synced last");
    // An ended owner leaves it empty.
    std::fs::write(&log, b"").unwrap();
    SqliteKv::restore(&backup, &meta, &weft_env::SystemClock).unwrap();
}
