use super::*;

fn holder(mountpoint: Option<&str>) -> Holder {
    Holder { mountpoint: mountpoint.map(PathBuf::from), ..Holder::this_process(None) }
}

#[test]
fn text_of_a_holder_is_stable_and_reads_back() {
    let mut holder =
        Holder { process: 123, host: "alpha".into(), started: 1_700_000_000, mountpoint: None, is_passing: false };
    assert_eq!(holder.to_text(), b"process 123\nhost alpha\nstarted 1700000000\n");
    assert_eq!(Holder::from_text(&holder.to_text()), Some(holder.clone()));
    holder.mountpoint = Some(OsString::from_vec(b"/mnt/a\nb \xff".to_vec()).into());
    assert_eq!(holder.to_text(), b"process 123\nhost alpha\nstarted 1700000000\nmountpoint /mnt/a\nb \xff");
    assert_eq!(Holder::from_text(&holder.to_text()), Some(holder));
}

#[test]
fn an_owner_in_passing_is_waited_for_and_never_named() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = folder.path().join("volume");
    let passing = Holder { process: 7, host: "h".into(), started: 1, mountpoint: None, is_passing: true };
    assert_eq!(passing.to_text(), b"process 7\nhost h\nstarted 1\npassing");
    assert_eq!(Holder::from_text(&passing.to_text()), Some(passing.clone()));
    let lock = OwnerLock::acquire(&metadata, &passing).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| OwnerLock::acquire(&metadata, &holder(Some("/mnt/weft"))));
        // Longer than anybody else is waited for.
        std::thread::sleep(RETRY_PAUSE * (RETRIES + 5));
        let asked = scope.spawn(|| current_owner(&metadata));
        drop(lock);
        let _next = next.join().unwrap().expect("its turn has come");
        let found = asked.join().unwrap().unwrap();
        assert!(found.is_none_or(|found| !found.is_passing), "nobody, or who came next");
        // One in passing does not wait for a mount.
        assert!(OwnerLock::acquire(&metadata, &passing).is_err());
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
    let metadata = folder.path().join("volume");
    assert_eq!(current_owner(&metadata).unwrap(), None);

    let first = holder(Some("/mnt/weft"));
    let lock = OwnerLock::acquire(&metadata, &first).unwrap();
    assert_eq!(current_owner(&metadata).unwrap(), Some(first));
    let refusal = OwnerLock::acquire(&metadata, &holder(None)).unwrap_err().to_string();
    let expected = format!(
        "{} is in use by process {} (mounted at /mnt/weft); use that mount, or end it with `weft umount /mnt/weft`",
        metadata.display(),
        std::process::id()
    );
    assert_eq!(refusal, expected);

    drop(lock);
    assert_eq!(current_owner(&metadata).unwrap(), None);
    let _again = OwnerLock::acquire(&metadata, &holder(None)).unwrap();
    let refusal = OwnerLock::acquire(&metadata, &holder(None)).unwrap_err().to_string();
    assert!(refusal.ends_with("; wait until it has ended"), "{refusal}");
}

#[test]
fn what_a_dead_owner_left_in_the_file_locks_nobody_out() {
    let folder = tempfile::tempdir().unwrap();
    let metadata = folder.path().join("volume");
    std::fs::write(lock_path(&metadata), holder(Some("/a/very/long/mountpoint")).to_text()).unwrap();
    assert_eq!(current_owner(&metadata).unwrap(), None);
    let next = holder(None);
    let _lock = OwnerLock::acquire(&metadata, &next).unwrap();
    assert_eq!(current_owner(&metadata).unwrap(), Some(next));
}
