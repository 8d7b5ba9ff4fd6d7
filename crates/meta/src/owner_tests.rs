use super::*;
use weft_env::SystemClock;

fn holder(mountpoint: Option<&str>) -> Holder {
    Holder { mountpoint: mountpoint.map(PathBuf::from), ..Holder::this_process(None, &SystemClock) }
}

/// A file to be owned; what is in it does not matter.
fn store(folder: &Path) -> PathBuf {
    let path = folder.join("volume");
    std::fs::write(&path, "").unwrap();
    path
}

#[test]
fn text_of_a_holder_is_stable_and_reads_back() {
    let mut holder =
        Holder { process: 123, host: "alpha".into(), started: 1_700_000_000, mountpoint: None, is_short_lived: false };
    assert_eq!(holder.to_text(), b"process 123\nhost alpha\nstarted 1700000000\n");
    assert_eq!(Holder::from_text(&holder.to_text()), Some(holder.clone()));
    holder.mountpoint = Some(OsString::from_vec(b"/mnt/a\nb \xff".to_vec()).into());
    assert_eq!(holder.to_text(), b"process 123\nhost alpha\nstarted 1700000000\nmountpoint /mnt/a\nb \xff");
    assert_eq!(Holder::from_text(&holder.to_text()), Some(holder));
}

#[test]
fn a_short_lived_owner_is_waited_for_and_never_named() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = store(folder.path());
    let short_lived = Holder { process: 7, host: "h".into(), started: 1, mountpoint: None, is_short_lived: true };
    assert_eq!(short_lived.to_text(), b"process 7\nhost h\nstarted 1\nshort-lived");
    assert_eq!(Holder::from_text(&short_lived.to_text()), Some(short_lived.clone()));
    let lock = OwnerLock::acquire(&metadata, &short_lived, &SystemClock).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| OwnerLock::acquire(&metadata, &holder(Some("/mnt/weft")), &SystemClock));
        // Longer than anybody else is waited for.
        std::thread::sleep(RETRY_PAUSE * (RETRIES + 5));
        let asked = scope.spawn(|| current_owner(&metadata, &SystemClock));
        drop(lock);
        let _next = next.join().unwrap().expect("its turn has come");
        let found = asked.join().unwrap().unwrap();
        assert!(found.is_none_or(|found| !found.is_short_lived), "nobody, or who came next");
        // A short-lived one does not wait for a mount.
        assert!(OwnerLock::acquire(&metadata, &short_lived, &SystemClock).is_err());
    });
}

#[test]
fn text_that_is_not_ours_names_nobody() {
    for text in [
        &b""[..],
        b"process x\n",
        b"process 1\nhost h\n",
        b"\0\xff\n\n\n\n",
        b"process 99999999999\nhost h\nstarted 1\n",
    ] {
        assert_eq!(Holder::from_text(text), None, "{text:?}");
    }
}

#[test]
fn a_second_owner_is_refused_with_who_and_where() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = store(folder.path());
    assert_eq!(current_owner(&metadata, &SystemClock).unwrap(), None);

    let first = holder(Some("/mnt/weft"));
    let lock = OwnerLock::acquire(&metadata, &first, &SystemClock).unwrap();
    assert_eq!(current_owner(&metadata, &SystemClock).unwrap(), Some(first));
    let refusal = OwnerLock::acquire(&metadata, &holder(None), &SystemClock).unwrap_err().to_string();
    let expected = format!(
        "{} is in use by process {} (mounted at /mnt/weft); use that mount, or end it with `weft umount /mnt/weft`",
        metadata.display(),
        std::process::id()
    );
    assert_eq!(refusal, expected);

    drop(lock);
    assert_eq!(current_owner(&metadata, &SystemClock).unwrap(), None);
    let _again = OwnerLock::acquire(&metadata, &holder(None), &SystemClock).unwrap();
    let refusal = OwnerLock::acquire(&metadata, &holder(None), &SystemClock).unwrap_err().to_string();
    assert!(refusal.ends_with("; wait until it has ended"), "{refusal}");
}

#[test]
fn what_a_dead_owner_left_in_the_file_locks_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = store(folder.path());
    let text = open_companion(&metadata).unwrap();
    text.write_all_at(&holder(Some("/a/very/long/mountpoint")).to_text(), TEXT_AT).unwrap();
    assert_eq!(current_owner(&metadata, &SystemClock).unwrap(), None);
    let next = holder(None);
    let _lock = OwnerLock::acquire(&metadata, &next, &SystemClock).unwrap();
    assert_eq!(current_owner(&metadata, &SystemClock).unwrap(), Some(next));
}

/// Two owners at once: 30 of 60 fsynced files were gone.
#[test]
fn finding_05_no_other_name_and_no_missing_owner_file_lets_a_second_owner_in() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = store(folder.path());
    let other = folder.path().join("other");
    let lock = OwnerLock::acquire(&metadata, &holder(None), &SystemClock).unwrap();
    std::fs::remove_file(companion(&metadata)).unwrap();
    assert!(matches!(OwnerLock::acquire(&metadata, &holder(None), &SystemClock), Err(OwnerError::InUse { .. })));
    assert!(current_owner(&metadata, &SystemClock).is_err(), "somebody, who does not say who");

    std::os::unix::fs::symlink(&metadata, &other).unwrap();
    assert!(matches!(OwnerLock::acquire(&other, &holder(None), &SystemClock), Err(OwnerError::InUse { .. })));
    std::fs::remove_file(&other).unwrap();
    std::fs::hard_link(&metadata, &other).unwrap();
    assert!(matches!(OwnerLock::acquire(&other, &holder(None), &SystemClock), Err(OwnerError::InUse { .. })));
    drop(lock);
    let refusal = OwnerLock::acquire(&metadata, &holder(None), &SystemClock).unwrap_err().to_string();
    assert!(refusal.contains("has 2 names (hard links)") && refusal.ends_with("remove all names but one"), "{refusal}");
    std::fs::remove_file(&other).unwrap();
    OwnerLock::acquire(&metadata, &holder(None), &SystemClock).unwrap();
}

/// A lock needs no more than an open descriptor.
#[test]
fn finding_13_only_those_can_open_the_owner_file_who_may_write_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = store(folder.path());
    let mode = |path: &Path| path.metadata().unwrap().mode() & 0o777;
    for (store, expected) in [(0o600, 0o600), (0o644, 0o600), (0o664, 0o660), (0o640, 0o600)] {
        std::fs::set_permissions(&metadata, Permissions::from_mode(store)).unwrap();
        // As it was left by whoever came before, and when it is new.
        for is_new in [false, true] {
            if is_new {
                std::fs::remove_file(companion(&metadata)).unwrap();
            } else {
                std::fs::write(companion(&metadata), "").unwrap();
                std::fs::set_permissions(companion(&metadata), Permissions::from_mode(0o666)).unwrap();
            }
            drop(OwnerLock::acquire(&metadata, &holder(None), &SystemClock).unwrap());
            let found = mode(&companion(&metadata));
            assert_eq!(found & !expected, 0, "{store:o} {is_new}: {found:o}");
            assert_eq!(found & 0o600, 0o600, "{store:o} {is_new}: {found:o}");
        }
    }
    std::fs::remove_file(companion(&metadata)).unwrap();
    let target = folder.path().join("target");
    std::fs::write(&target, "mine").unwrap();
    std::os::unix::fs::symlink(&target, companion(&metadata)).unwrap();
    assert!(OwnerLock::acquire(&metadata, &holder(None), &SystemClock).is_err(), "a link leads anywhere");
    assert_eq!(std::fs::read(&target).unwrap(), b"mine");
}
