//! The metadata file in the hands of users and of its disk: damaged, copied, without its log, read by many, on a full disk.

use crate::sandbox::Sandbox;

/// Changes a byte of every record that has this text.
fn damage(path: &str, text: &[u8]) {
    let mut bytes = std::fs::read(path).expect("readable");
    let places: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(text)).collect();
    assert!(!places.is_empty(), "it is in the file");
    places.into_iter().for_each(|at| bytes[at] ^= 1);
    std::fs::write(path, bytes).expect("writable");
}

#[test]
fn finding_10_damaged_metadata_is_said_by_fsck_scrub_and_whoever_reads_it() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    std::fs::write(sandbox.path("letter"), "dear").expect("written");
    sandbox.weft(["put", sandbox.meta(), "letter", "/"]).ok();
    assert!(sandbox.weft(["fsck", sandbox.meta()]).ok().contains("0 findings"));
    damage(&sandbox.path(sandbox.meta()), b"letter");
    let checked = sandbox.weft(["fsck", sandbox.meta()]);
    assert_eq!(checked.code, Some(2), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("the metadata store is damaged: "), "{}", checked.stdout);
    let scrubbed = sandbox.weft(["scrub", sandbox.meta()]);
    assert_eq!(scrubbed.code, Some(2), "{}{}", scrubbed.stdout, scrubbed.stderr);
    assert!(scrubbed.stdout.contains("the metadata store is damaged: "), "{}", scrubbed.stdout);
    let got = sandbox.weft(["get", sandbox.meta(), "/letter", "back"]);
    assert!(!got.success && got.stderr.contains("is damaged: "), "{}", got.stderr);
    assert!(!got.stderr.contains("no such file"), "a record that cannot be read is not absent: {}", got.stderr);
}

/// A mount's worth of ownership, taken by a command that stays.
#[test]
fn finding_23_readers_need_no_ownership() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    let bytes = crate::content::bytes(0, 3_000_000);
    std::fs::create_dir(sandbox.path("tree")).expect("made");
    std::fs::write(sandbox.path("tree/large"), &bytes).expect("written");
    std::fs::write(sandbox.path("tree/small"), "few").expect("written");
    std::os::unix::fs::symlink("large", sandbox.path("tree/link")).expect("made");
    sandbox.weft(["put", sandbox.meta(), "tree", "/"]).ok();
    let owner = weft_meta::owner::OwnerLock::acquire(
        std::path::Path::new(&sandbox.path(sandbox.meta())),
        &weft_meta::owner::Holder::this_process(None, &weft_engine::SystemClock),
        &weft_engine::SystemClock,
    );
    let owner = owner.expect("it is free");
    // All at once.
    let gets: Vec<_> = (0..3)
        .map(|number| {
            let target = format!("got{number}");
            sandbox.command(["get", sandbox.meta(), "/tree", &target]).spawn().expect("weft runs")
        })
        .collect();
    let listed = sandbox.weft(["ls", sandbox.meta(), "/tree"]).ok();
    assert_eq!(listed, "large\nlink\nsmall\n");
    assert!(sandbox.weft(["info", sandbox.meta(), "/tree/large"]).ok().contains("3000000"));
    sandbox.weft(["status", sandbox.meta()]).ok();
    for (number, mut get) in gets.into_iter().enumerate() {
        assert!(get.wait().expect("it ends").success());
        let got = |name: &str| sandbox.path(&format!("got{number}/{name}"));
        assert!(std::fs::read(got("large")).expect("there") == bytes);
        assert_eq!(std::fs::read(got("small")).expect("there"), b"few");
        assert_eq!(std::fs::read_link(got("link")).expect("a link"), std::path::Path::new("large"));
    }
    let put = sandbox.weft(["put", sandbox.meta(), "tree", "/"]);
    assert!(put.stderr.contains("is in use by process"), "writers do: {}", put.stderr);
    drop(owner);
}

/// Small fsyncs are in the journal for some seconds.
#[test]
fn finding_23_what_is_only_in_the_journal_is_read_beside_its_owner() {
    let sandbox = Sandbox::mounted("rs:4+2");
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(sandbox.file("journaled")).expect("made");
    file.write_all_at(b"first", 0).expect("written");
    file.write_all_at(b"last", 9000).expect("written");
    file.sync_all().expect("durable");
    // A process killed there leaves it in the metadata alone.
    sandbox.kill_mount();
    drop(file);
    sandbox.weft(["get", sandbox.meta(), "/journaled", "got"]).ok();
    let mut expected = vec![0; 9004];
    expected[..5].copy_from_slice(b"first");
    expected[9000..].copy_from_slice(b"last");
    assert_eq!(std::fs::read(sandbox.path("got")).expect("there"), expected);
}

#[test]
fn finding_05_a_volume_without_its_log_is_not_written_and_said_not_to_be_whole() {
    let sandbox = Sandbox::mounted("rs:4+2");
    for number in 0..3 {
        let file = std::fs::File::create(sandbox.file(&format!("file{number}"))).expect("made");
        file.sync_all().expect("durable");
    }
    std::fs::File::open(sandbox.mnt()).and_then(|folder| folder.sync_all()).expect("durable");
    // While somebody looks on, the file has what is durable, and the intent log nothing more.
    sandbox.weft(["status", sandbox.meta()]).ok();
    sandbox.kill_mount();
    std::fs::rename(sandbox.path("meta.db-wal"), sandbox.path("kept")).expect("it has a log");
    let mounted = sandbox.weft(["mount", "-d", sandbox.meta(), &sandbox.mnt()]);
    assert!(!mounted.success && mounted.stderr.contains("meta.db-wal is missing or cut"), "{}", mounted.stderr);
    let checked = sandbox.weft(["fsck", sandbox.meta()]);
    assert_eq!(checked.code, Some(2), "{}", checked.stdout);
    assert!(checked.stdout.contains("meta.db-wal is missing or cut"), "{}", checked.stdout);
    let changed = sandbox.weft(["node", "set", sandbox.meta(), "1", "--read-only", "on"]);
    assert!(!changed.success && changed.stderr.contains("meta.db-wal is missing or cut"), "{}", changed.stderr);
    let listed = sandbox.weft(["ls", sandbox.meta()]);
    assert!(listed.stderr.contains("meta.db-wal is missing or cut"), "{}", listed.stderr);
    std::fs::rename(sandbox.path("kept"), sandbox.path("meta.db-wal")).expect("brought back");
    assert_eq!(sandbox.weft(["ls", sandbox.meta()]).ok(), "file0\nfile1\nfile2\n");
    sandbox.mount();
    assert!(sandbox.file("file2").exists());
}

/// The metadata on a small disk of its own.
#[test]
fn finding_29_files_are_deleted_when_the_metadata_has_no_room() {
    let sandbox = Sandbox::empty();
    let disk = sandbox.disk("disk", 48);
    let meta = "disk/meta.db";
    sandbox.weft(["format", "--policy", "rs:2+1", meta]).ok();
    for number in 1..=3 {
        sandbox.weft(["node", "add", meta, &number.to_string(), &sandbox.path(&format!("node{number}"))]).ok();
    }
    sandbox.weft(["mount", "-d", meta, &sandbox.mnt()]).ok();
    for number in 0..200 {
        std::fs::write(sandbox.file(&format!("file{number}")), vec![7; 5000]).expect("there is room");
    }
    std::fs::File::open(sandbox.mnt()).and_then(|folder| folder.sync_all()).expect("durable");
    let mut ballast = std::fs::File::create(format!("{disk}/ballast")).expect("made");
    for bytes in [1 << 20, 4096] {
        while std::io::Write::write_all(&mut ballast, &vec![1; bytes]).is_ok() {}
    }
    let sync = || std::fs::File::open(sandbox.mnt()).and_then(|folder| folder.sync_all());
    let refused = (0..100_000).find_map(|number| {
        let made = std::fs::File::create(sandbox.file(&format!("more{number}"))).and_then(|_| sync());
        made.err()
    });
    let error = refused.expect("the disk is full");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
    for number in 0..200 {
        std::fs::remove_file(sandbox.file(&format!("file{number}"))).expect("a deletion has room");
    }
    sync().expect("deletions are durable");
    assert!(!sandbox.file("file0").exists());
    drop(ballast);
    std::fs::remove_file(format!("{disk}/ballast")).expect("removed");
    std::fs::write(sandbox.file("after"), "there is room again").expect("written");
    sandbox.umount();
    sandbox.weft(["fsck", meta]).ok();
}
