//! Several mounts change one volume, whose metadata is on PostgreSQL or etcd: each sentence of SEMANTICS.md, section "Many mounts", by real mounts.

use crate::sandbox::until;
use crate::served::{Served, process_of, run, write_synced};
use crate::slow_line::SlowLine;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use weft_meta::servers::{Etcd, Postgres};

/// Mounts that are ended by force when dropped: the test's server ends with it.
struct Mounts<'v, S> {
    volume: &'v Served<S>,
    folders: Vec<String>,
}

impl<'v, S> Mounts<'v, S> {
    fn new(volume: &'v Served<S>, count: usize) -> Self {
        Self::that_keep(volume, count, "1s")
    }

    /// For how long the kernels keep what they were shown.
    fn that_keep(volume: &'v Served<S>, count: usize, time: &str) -> Self {
        let folders = ["mnt", "look1", "look2"][..count].iter().map(|name| volume.sandbox.path(name)).collect();
        let mounts = Self { volume, folders };
        for folder in &mounts.folders {
            let _ = fs::create_dir(folder);
            let how = ["mount", "-d", "--shared", "--attribute-cache", time];
            volume.sandbox.mount_by(volume.command(&[&how[..], &[&volume.url, folder]].concat()));
        }
        mounts
    }

    fn path(&self, mount: usize, name: &str) -> PathBuf {
        Path::new(&self.folders[mount]).join(name)
    }

    fn process(&self, mount: usize) -> Pid {
        let sessions = self.volume.sessions();
        let session = sessions.iter().find(|session| session["mountpoint"] == self.folders[mount].as_str());
        process_of(session.expect("a session")).expect("a process")
    }

    /// As a crash does; what is left of the mount is taken away.
    fn kill(&self, mount: usize) {
        kill_process(self.process(mount), Signal::KILL).expect("killed");
        until("the dead mount is taken away", || {
            self.volume.weft(&["umount", "--force", &self.folders[mount]]).success
        });
    }

    fn end(&self) {
        for folder in &self.folders {
            self.volume.weft(&["umount", folder]).ok();
        }
        self.volume.weft(&["fsck", &self.volume.url]).ok();
        self.volume.weft(&["scrub", &self.volume.url]).ok();
    }
}

impl<S> Drop for Mounts<'_, S> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for session in self.volume.sessions() {
                process_of(&session).map(|process| kill_process(process, Signal::KILL));
            }
        }
    }
}

fn on_postgres() -> Served<Postgres> {
    let server = Postgres::start();
    let url = server.url("weft");
    Served::on(server, url)
}

fn on_etcd() -> Served<Etcd> {
    // Other tests kill members; a short run has one, since three on two processors take twice as long.
    let cluster = Etcd::start(if crate::effort::is_long() { 3 } else { 1 });
    let url = cluster.url("weft");
    Served::on(cluster, url)
}

#[test]
fn what_one_mount_closes_the_others_open() {
    what_one_mount_closes_the_others_open_on(&on_postgres());
}

#[test]
fn what_one_mount_closes_the_others_open_by_etcd() {
    what_one_mount_closes_the_others_open_on(&on_etcd());
}

fn what_one_mount_closes_the_others_open_on<S>(volume: &Served<S>) {
    let mounts = Mounts::new(volume, 3);
    // Of every size: in the journal, in one segment, in several.
    for (number, bytes) in [1, 5000, 200_000, 20_000_000].into_iter().enumerate() {
        for writer in 0..3 {
            let content = crate::content::bytes((writer << 8 | number) as u64, bytes);
            let name = format!("f{number}");
            fs::write(mounts.path(writer, &name), &content).expect("written");
            for reader in 0..3 {
                // Another mount may show the size and time of before for a second; an open asks.
                let mut file = File::open(mounts.path(reader, &name)).expect("opened");
                let mut found = Vec::new();
                file.read_to_end(&mut found).expect("read");
                if found != content {
                    std::thread::sleep(Duration::from_secs(1));
                    found = fs::read(mounts.path(reader, &name)).expect("read");
                }
                assert!(found == content, "mount {reader} reads {} of {bytes} bytes of mount {writer}", found.len());
            }
        }
    }
    // Names are there at once where nobody has asked for them before, and a second later everywhere.
    fs::create_dir(mounts.path(0, "d")).expect("made");
    fs::write(mounts.path(1, "d/x"), b"x").expect("written");
    fs::rename(mounts.path(2, "d/x"), mounts.path(2, "d/y")).expect("renamed");
    assert_eq!(fs::read(mounts.path(0, "d/y")).expect("read"), b"x");
    until("the old name is gone everywhere", || (0..3).all(|mount| !mounts.path(mount, "d/x").exists()));
    fs::hard_link(mounts.path(0, "d/y"), mounts.path(0, "d/z")).expect("linked");
    until("links are counted", || {
        use std::os::unix::fs::MetadataExt;
        (0..3).all(|mount| fs::metadata(mounts.path(mount, "d/z")).is_ok_and(|found| found.nlink() == 2))
    });
    // Real programs.
    fs::create_dir(mounts.path(0, "work")).expect("made");
    run(&mounts.path(0, "work"), "git", &["init", "-q"]);
    for number in 0..20 {
        fs::write(mounts.path(number % 3, &format!("work/g{number}")), "line\n".repeat(2000)).expect("written");
    }
    run(&mounts.path(1, "work"), "git", &["add", "."]);
    run(&mounts.path(1, "work"), "git", &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
    run(&mounts.path(2, "work"), "git", &["fsck", "--strict"]);
    run(&mounts.path(2, "work"), "git", &["diff", "--exit-code", "HEAD"]);

    let status = volume.weft(&["status", &volume.url]).ok();
    assert!(status.contains("changed by 3 mounts") && status.contains(&mounts.folders[2]), "{status}");
    let report: serde_json::Value =
        serde_json::from_str(&volume.weft(&["status", "--json", &volume.url]).ok()).expect("JSON");
    assert_eq!(report["sessions"].as_array().map(Vec::len), Some(3), "{report}");
    // A mount that wants it alone is refused until they are gone.
    let fourth = volume.sandbox.path("alone");
    fs::create_dir(&fourth).expect("made");
    let refused = volume.weft(&["mount", "-d", &volume.url, &fourth]).sentence();
    assert!(refused.contains("is in use by process"), "{refused}");
    // A file cannot be shared so.
    let refused = volume.weft(&["mount", "-d", "--shared", "meta.db", &fourth]).sentence();
    assert!(refused.contains("there is no metadata store"), "{refused}");
    volume.weft(&["format", "--policy", "rs:2+1", "meta.db"]).ok();
    for number in 1..=3 {
        let place = volume.sandbox.path(&format!("other{number}"));
        volume.weft(&["node", "add", "meta.db", &number.to_string(), &place]).ok();
    }
    let refused = volume.weft(&["mount", "-d", "--shared", "meta.db", &fourth]).sentence();
    assert!(refused.contains("which one mount at a time changes"), "{refused}");
    mounts.end();
}

#[test]
fn what_others_change_shows_though_the_kernel_would_keep_it_for_an_hour() {
    what_others_change_shows_on(&on_postgres());
}

#[test]
fn what_others_change_shows_though_the_kernel_would_keep_it_for_an_hour_by_etcd() {
    what_others_change_shows_on(&on_etcd());
}

fn what_others_change_shows_on<S>(volume: &Served<S>) {
    let mounts = Mounts::that_keep(volume, 2, "1h");
    let (here, there) = (|name: &str| mounts.path(0, name), |name: &str| mounts.path(1, name));
    let length = |name: &str| fs::metadata(here(name)).map(|found| found.len()).ok();
    // They listen some time after they are mounted, so the first change is made until it is seen.
    fs::write(there("first"), "").expect("written");
    until("the first change shows", || {
        let target = fs::metadata(there("first")).expect("there").len() + 1;
        File::options().write(true).open(there("first")).and_then(|file| file.set_len(target)).expect("grown");
        std::thread::sleep(Duration::from_millis(100));
        length("first") == Some(target)
    });
    fs::write(there("f"), "one").expect("written");
    assert_eq!(length("f"), Some(3), "the kernel keeps it from now on");
    fs::write(there("f"), "longer").expect("written");
    until("its length shows", || length("f") == Some(6));
    fs::rename(there("f"), there("g")).expect("renamed");
    until("its new name shows", || length("f").is_none() && length("g") == Some(6));
    fs::create_dir(there("d")).expect("made");
    until("a directory shows", || here("d").is_dir());
    fs::rename(there("g"), there("d/g")).expect("moved");
    until("what moved shows", || length("g").is_none() && length("d/g") == Some(6));
    fs::remove_file(there("d/g")).expect("removed");
    until("what is removed is gone", || length("d/g").is_none());
    assert_eq!(fs::read_dir(here("d")).expect("listed").count(), 0);
    mounts.end();
}

#[test]
fn locks_appends_and_exclusive_names_hold_across_mounts() {
    locks_appends_and_exclusive_names_hold_across_mounts_on(&on_postgres());
}

#[test]
fn locks_appends_and_exclusive_names_hold_across_mounts_by_etcd() {
    locks_appends_and_exclusive_names_hold_across_mounts_on(&on_etcd());
}

fn locks_appends_and_exclusive_names_hold_across_mounts_on<S: Sync>(volume: &Served<S>) {
    const ROUNDS: usize = 40;
    let mounts = Mounts::new(volume, 3);
    for name in ["flock", "fcntl"] {
        write_synced(&mounts.path(0, name), b"0").expect("written");
    }
    write_synced(&mounts.path(0, "log"), b"").expect("written");
    std::thread::scope(|scope| {
        for mount in 0..3 {
            let mounts = &mounts;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    for name in ["flock", "fcntl"] {
                        let mut file =
                            OpenOptions::new().read(true).write(true).open(mounts.path(mount, name)).expect("opened");
                        let operation = rustix::fs::FlockOperation::LockExclusive;
                        match name {
                            "flock" => rustix::fs::flock(&file, operation).expect("locked"),
                            _ => rustix::fs::fcntl_lock(&file, operation).expect("locked"),
                        }
                        // It was opened before the lock was given, and shows what was written under the lock of another.
                        let mut text = String::new();
                        file.read_to_string(&mut text).expect("read");
                        let count: usize = text.parse().expect("a number");
                        file.seek(SeekFrom::Start(0)).expect("sought");
                        file.write_all((count + 1).to_string().as_bytes()).expect("written");
                    }
                    let mut log = OpenOptions::new().append(true).open(mounts.path(mount, "log")).expect("opened");
                    // By one call: several of one program may have those of others between them.
                    log.write_all(format!("{mount} {round}\n").as_bytes()).expect("appended");
                    let exclusive = format!("only{round}");
                    let made = OpenOptions::new().write(true).create_new(true).open(mounts.path(mount, &exclusive));
                    match made {
                        Ok(_) => fs::write(mounts.path(mount, &format!("made{round}-{mount}")), b"").expect("written"),
                        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AlreadyExists, "{error}"),
                    }
                }
            });
        }
    });
    std::thread::sleep(Duration::from_millis(1200));
    for name in ["flock", "fcntl"] {
        assert_eq!(fs::read_to_string(mounts.path(1, name)).expect("read"), (3 * ROUNDS).to_string(), "{name}");
    }
    let log = fs::read_to_string(mounts.path(2, "log")).expect("read");
    let mut lines: Vec<&str> = log.lines().collect();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), 3 * ROUNDS, "a line is lost or torn");
    let made = fs::read_dir(&mounts.folders[0]).expect("listed");
    let made = made.filter(|entry| entry.as_ref().expect("read").file_name().to_string_lossy().starts_with("made"));
    assert_eq!(made.count(), ROUNDS, "a name was made by two, or by none");

    // A lock of one keeps the others out, is shown as whose it is, and goes with its process.
    let holder = File::open(mounts.path(0, "flock")).expect("opened");
    rustix::fs::flock(&holder, rustix::fs::FlockOperation::LockExclusive).expect("locked");
    let wanting = File::open(mounts.path(1, "flock")).expect("opened");
    let refused = rustix::fs::flock(&wanting, rustix::fs::FlockOperation::NonBlockingLockShared);
    assert_eq!(refused, Err(rustix::io::Errno::WOULDBLOCK));
    let locks: u64 = volume.sessions().iter().map(|session| session["lock_count"].as_u64().expect("a number")).sum();
    assert_eq!(locks, 1);
    // Who waits for it may be interrupted.
    let waits = Command::new("timeout").args(["1", "flock"]).arg(mounts.path(1, "flock")).arg("true").status();
    assert_eq!(waits.expect("it runs").code(), Some(124));
    mounts.kill(0);
    until("the lock of the dead is given", || {
        rustix::fs::flock(&wanting, rustix::fs::FlockOperation::NonBlockingLockShared).is_ok()
    });
    drop((holder, wanting));
    for mount in [1, 2] {
        volume.weft(&["umount", &mounts.folders[mount]]).ok();
    }
    volume.weft(&["fsck", &volume.url]).ok();
}

#[test]
fn a_file_that_is_open_elsewhere_outlives_its_name_and_a_dead_mount_holds_nothing() {
    a_file_that_is_open_elsewhere_outlives_its_name_and_a_dead_mount_holds_nothing_on(&on_postgres());
}

#[test]
fn a_file_that_is_open_elsewhere_outlives_its_name_and_a_dead_mount_holds_nothing_by_etcd() {
    a_file_that_is_open_elsewhere_outlives_its_name_and_a_dead_mount_holds_nothing_on(&on_etcd());
}

fn a_file_that_is_open_elsewhere_outlives_its_name_and_a_dead_mount_holds_nothing_on<S>(volume: &Served<S>) {
    let mounts = Mounts::new(volume, 2);
    let content = b"open elsewhere".repeat(30_000);
    write_synced(&mounts.path(0, "f"), &content).expect("written");
    let mut held = OpenOptions::new().read(true).write(true).open(mounts.path(1, "f")).expect("opened");
    fs::remove_file(mounts.path(0, "f")).expect("removed");
    let usage = || {
        let report = volume.weft(&["status", "--json", &volume.url]).ok();
        serde_json::from_str::<serde_json::Value>(&report).expect("JSON")["inode_count"].as_u64().expect("a number")
    };
    // One that lost its name later is reclaimed, and this one stays.
    fs::write(mounts.path(0, "later"), "").expect("written");
    assert_eq!(usage(), 3);
    fs::remove_file(mounts.path(0, "later")).expect("removed");
    until("the later one is gone", || usage() == 2);
    let mut found = Vec::new();
    held.read_to_end(&mut found).expect("read");
    assert!(found == content);
    held.write_all_at(b"OPEN", 0).expect("written");
    held.sync_all().expect("synced");
    drop(held);
    until("it is gone", || usage() == 1);
    // The same of a mount that is killed: its open files are soon free.
    write_synced(&mounts.path(0, "g"), &content).expect("written");
    let held = File::open(mounts.path(1, "g")).expect("opened");
    fs::remove_file(mounts.path(0, "g")).expect("removed");
    mounts.kill(1);
    until("it is gone", || usage() == 1);
    drop(held);
    volume.weft(&["umount", &mounts.folders[0]]).ok();
    volume.weft(&["fsck", &volume.url]).ok();
}

/// The kernel may not wait for the dead: neither their processes nor their programs would ever end.
#[test]
fn mounts_that_are_killed_while_they_change_one_directory_leave_no_program_waiting() {
    let volume = on_postgres();
    let mounts = Mounts::new(&volume, 2);
    fs::create_dir(mounts.path(0, "d")).expect("made");
    let programs: Vec<JoinHandle<usize>> = (0..4)
        .map(|program| {
            let folder = mounts.path(program % 2, "d");
            let make = move |number: &usize| File::create(folder.join(format!("{program}-{number}"))).is_ok();
            std::thread::spawn(move || (0..).take_while(make).count())
        })
        .collect();
    until("they have made some", || fs::read_dir(mounts.path(0, "d")).expect("listed").count() > 100);
    for process in [0, 1].map(|mount| mounts.process(mount)) {
        kill_process(process, Signal::KILL).expect("killed");
    }
    let began = Instant::now();
    let are_told = || programs.iter().all(JoinHandle::is_finished);
    while !are_told() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let were_told = are_told();
    for folder in &mounts.folders {
        let _ = volume.weft(&["umount", "--force", folder]);
    }
    assert!(were_told, "programs wait for a mount that was killed");
    for program in programs {
        assert!(program.join().expect("no panic") > 0);
    }
    volume.weft(&["fsck", &volume.url]).ok();
}

/// A mount that was away for too long writes, renames and removes nothing over what others did.
#[test]
fn a_mount_that_was_stopped_for_an_hour_changes_nothing() {
    let volume = on_postgres();
    stopped(&volume, |own| {
        let ended = format!("UPDATE weft.session SET seen = seen - interval '1 hour' WHERE id = {own}");
        volume.server.psql_at("weft", &ended);
    });
}

/// The cluster ends its session by itself.
#[test]
fn a_mount_that_was_stopped_until_its_lease_was_over_changes_nothing() {
    stopped(&on_etcd(), |_| {});
}

fn stopped<S>(volume: &Served<S>, ends: impl FnOnce(i64)) {
    let mounts = Mounts::new(volume, 2);
    write_synced(&mounts.path(0, "a"), b"1st").expect("written");
    write_synced(&mounts.path(0, "b"), b"first").expect("written");
    // In a process of its own: programs that this one starts hold copies of its descriptors for a moment, and close them.
    let target = format!("of={}", mounts.path(0, "a").display());
    let mut late = Command::new("dd");
    late.args([&target, "bs=512", "conv=notrunc,fsync", "status=none"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut late = late.spawn().expect("it runs");
    late.stdin.as_mut().expect("a pipe").write_all(b"late!").expect("sent");
    let stopped = mounts.process(0);
    let has_written = || fs::metadata(mounts.path(0, "a")).is_ok_and(|found| found.len() == 5);
    until("it has written", has_written);
    kill_process(stopped, Signal::STOP).expect("stopped");
    let sessions = volume.sessions();
    let own = sessions.iter().find(|session| session["mountpoint"] == mounts.folders[0].as_str());
    let own = own.expect("a session")["id"].as_i64().expect("a number");
    ends(own);
    until("its session is over", || volume.sessions().iter().all(|session| session["id"] != own));
    write_synced(&mounts.path(1, "a"), b"second").expect("written");
    write_synced(&mounts.path(1, "b"), b"second").expect("written");
    kill_process(stopped, Signal::CONT).expect("continued");
    drop(late.stdin.take());
    assert!(!late.wait().expect("it ends").success(), "its fsync succeeds though it was kept out");
    assert!(fs::remove_file(mounts.path(0, "b")).is_err());
    assert!(fs::rename(mounts.path(0, "b"), mounts.path(0, "c")).is_err());
    assert!(fs::write(mounts.path(0, "d"), b"x").is_err());
    let _ = volume.weft(&["umount", "--force", &mounts.folders[0]]);
    let _ = kill_process(stopped, Signal::KILL);
    for (name, expected) in [("a", b"second"), ("b", b"second")] {
        assert_eq!(fs::read(mounts.path(1, name)).expect("read"), expected);
    }
    assert_eq!(fs::read_dir(&mounts.folders[1]).expect("listed").count(), 2);
    volume.weft(&["umount", &mounts.folders[1]]).ok();
    volume.weft(&["fsck", &volume.url]).ok();
    volume.weft(&["scrub", &volume.url]).ok();
}

/// A mount that has the volume to itself and those that share it exclude each other, in either order; and one that is evicted writes
/// nothing any more.
#[test]
fn a_mount_alone_excludes_shared_ones_and_one_that_is_evicted_changes_nothing() {
    let volume = on_postgres();
    let alone = volume.sandbox.path("alone");
    fs::create_dir(&alone).expect("made");
    volume.weft(&["mount", "-d", &volume.url, &alone]).ok();
    let refused = volume.weft(&["mount", "-d", "--shared", &volume.url, &volume.sandbox.mnt()]).sentence();
    assert!(refused.contains("is in use by process") && refused.contains(&alone), "{refused}");
    write_synced(&Path::new(&alone).join("f"), b"alone").expect("written");
    volume.weft(&["umount", &alone]).ok();

    let mounts = Mounts::new(&volume, 2);
    let refused = volume.weft(&["mount", "-d", &volume.url, &alone]).sentence();
    assert!(refused.contains("is in use by process"), "{refused}");
    let sessions = volume.sessions();
    let evicted = sessions.iter().find(|session| session["mountpoint"] == mounts.folders[0].as_str());
    let evicted = evicted.expect("a session")["id"].to_string();
    let mut held = OpenOptions::new().write(true).open(mounts.path(0, "f")).expect("opened");
    volume.weft(&["session", "evict", &volume.url, &evicted]).ok();
    let is_told = |done: std::io::Result<()>| done.is_err_and(|error| error.kind() == ErrorKind::ReadOnlyFilesystem);
    assert!(is_told(held.write_all(b"late").and_then(|()| held.sync_all())));
    assert!(is_told(fs::write(mounts.path(0, "late"), b"x")));
    assert!(is_told(fs::rename(mounts.path(0, "f"), mounts.path(0, "g"))));
    assert!(is_told(fs::remove_file(mounts.path(0, "f"))));
    write_synced(&mounts.path(1, "f"), b"other").expect("written");
    drop(held);
    assert!(!volume.weft(&["umount", &mounts.folders[0]]).success, "something was not written");
    assert_eq!(fs::read(mounts.path(1, "f")).expect("read"), b"other");
    assert_eq!(fs::read_dir(&mounts.folders[1]).expect("listed").count(), 1);
    volume.weft(&["umount", &mounts.folders[1]]).ok();
    volume.weft(&["fsck", &volume.url]).ok();
}

/// With `--attribute-cache 0s` no call shows what was there before another mount's call returned.
#[test]
fn without_an_attribute_cache_what_others_changed_shows_at_once() {
    let volume = on_postgres();
    let mounts = Mounts::that_keep(&volume, 2, "0s");
    let (here, there) = (|name: String| mounts.path(0, &name), |name: String| mounts.path(1, &name));
    fs::write(there("f".into()), b"").expect("written");
    for number in 1..=30 {
        assert_eq!(fs::metadata(here("f".into())).expect("there").len(), number - 1);
        File::options().append(true).open(there("f".into())).and_then(|mut file| file.write_all(b"x")).expect("grown");
        assert_eq!(fs::metadata(here("f".into())).expect("there").len(), number, "its length");
        assert!(!here(format!("n{number}")).exists());
        fs::rename(there("f".into()), there(format!("n{number}"))).expect("renamed");
        assert!(here(format!("n{number}")).exists() && !here("f".into()).exists(), "its name");
        fs::rename(here(format!("n{number}")), here("f".into())).expect("renamed");
    }
    mounts.end();
}

#[test]
fn locks_of_bytes_hold_across_mounts() {
    let volume = on_postgres();
    let mounts = Mounts::new(&volume, 2);
    write_synced(&mounts.path(0, "f"), b"locked").expect("written");
    let paths = [0, 1].map(|mount| mounts.path(mount, "f").display().to_string());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/ranges.py");
    run(Path::new(&mounts.folders[0]), "python3", &[script, &paths[0], &paths[1]]);
    mounts.end();
}

/// Each goes to the end in one piece, up to 1020 KiB, and is durable when write returns: no mount has it alone.
#[test]
fn large_appends_of_mounts_that_are_killed_are_whole() {
    // The kernel passes 256 pages on at once. Memory that begins in the middle of one is in one page more.
    const RECORD: usize = 255 << 12;
    const EACH: usize = 4;
    let volume = on_postgres();
    let mounts = Mounts::new(&volume, 3);
    write_synced(&mounts.path(0, "log"), b"").expect("written");
    std::thread::scope(|scope| {
        for mount in 0..2 {
            let log = mounts.path(mount, "log");
            scope.spawn(move || {
                let mut log = OpenOptions::new().append(true).open(log).expect("opened");
                for round in 0..EACH {
                    let memory = vec![(mount * EACH + round + 1) as u8; RECORD + 4096];
                    let record = &memory[1 + round * 1000..][..RECORD];
                    // One call.
                    assert_eq!(log.write(record).expect("appended"), RECORD);
                }
                // It is never closed: its mount is killed.
                std::mem::forget(log);
            });
        }
    });
    mounts.kill(0);
    mounts.kill(1);
    let log = fs::read(mounts.path(2, "log")).expect("read");
    assert_eq!(log.len(), 2 * EACH * RECORD);
    let mut found: Vec<u8> = log.chunks(RECORD).map(|record| record[0]).collect();
    assert!(log.chunks(RECORD).all(|record| record.iter().all(|byte| *byte == record[0])), "records are mixed");
    found.sort_unstable();
    assert!(found.into_iter().eq(1..=(2 * EACH) as u8), "each is there once");
    volume.weft(&["umount", &mounts.folders[2]]).ok();
    volume.weft(&["fsck", &volume.url]).ok();
}

/// A mount asks again where its kernel knows too little, and no commit makes a file shorter.
#[test]
fn opens_ask_again_and_commits_shorten_nothing() {
    let volume = on_postgres();
    let mounts = Mounts::new(&volume, 2);
    for number in 0..5 {
        let (here, there) = (mounts.path(0, &format!("f{number}")), mounts.path(1, &format!("f{number}")));
        // The kernel of the other mount knows that it is not there.
        assert!(!there.exists());
        fs::write(&here, b"first").expect("written");
        let made = OpenOptions::new().write(true).create_new(true).open(&there);
        assert_eq!(made.expect_err("it is there").kind(), ErrorKind::AlreadyExists);
        let mut found = String::new();
        File::open(&there).and_then(|mut file| file.read_to_string(&mut found)).expect("read");
        assert_eq!(found, "first");
        // And that it is; nobody had it open there, as the kernel reports a close late.
        let [here, there] = [0, 1].map(|mount| mounts.path(mount, &format!("g{number}")));
        fs::write(&here, b"second").expect("written");
        assert!(there.exists());
        fs::remove_file(&here).expect("removed");
        assert_eq!(File::open(&there).expect_err("it is gone").kind(), ErrorKind::NotFound);
    }
    let (here, there) = (mounts.path(0, "g"), mounts.path(1, "g"));
    write_synced(&here, &[1; 1000]).expect("written");
    let mut early = OpenOptions::new().write(true).open(&here).expect("opened");
    early.write_all(&[2; 10]).expect("written");
    OpenOptions::new().append(true).open(&there).and_then(|mut file| file.write_all(&[3; 5000])).expect("grown");
    early.sync_all().expect("committed");
    drop(early);
    let expected = [&[2; 10][..], &[1; 990], &[3; 5000]].concat();
    assert!(fs::read(&there).expect("read") == expected, "it is shorter, or other bytes");
    // Truncation does, at once.
    OpenOptions::new().write(true).open(&here).and_then(|file| file.set_len(7)).expect("shortened");
    assert_eq!(fs::read(&there).expect("read"), [2; 7]);
    mounts.end();
}

/// The second for which a kernel keeps attributes begins when its mount asks, not when a slow server has answered.
#[test]
fn what_a_server_answered_late_is_not_kept_for_longer() {
    const SLOW: Duration = Duration::from_secs(2);
    // So long a name of a directory is not kept at all that others change.
    const CALM: Duration = Duration::from_secs(11);
    let volume = on_postgres();
    let mounts = Mounts::new(&volume, 1);
    let line = SlowLine::to(volume.server.port());
    let url = volume.server.url("weft").replace(&volume.server.port().to_string(), &line.port.to_string());
    let far = volume.sandbox.path("look1");
    fs::create_dir(&far).expect("made");
    volume.sandbox.mount_by(volume.command(&["mount", "-d", "--shared", &url, &far]));
    let (here, there) = (mounts.path(0, "f"), Path::new(&far).join("f"));
    fs::write(&here, b"").expect("written");
    let is_executable = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o100 != 0;
    until("the other mount shows it", || there.exists());
    std::thread::sleep(CALM);
    line.delay(SLOW);
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| is_executable(&there));
        // It asks for the directory, and then for the name.
        std::thread::sleep(SLOW + SLOW / 4);
        fs::set_permissions(&here, Permissions::from_mode(0o755)).expect("changed");
        asked.join().expect("answered");
    });
    line.delay(Duration::ZERO);
    assert!(is_executable(&there), "it was changed longer than a second ago");
    volume.weft(&["umount", &far]).ok();
    mounts.end();
}

/// The paths of a mount are those of its machine: a command on another one joins it.
#[test]
fn a_command_of_another_machine_changes_the_volume_beside_a_mount() {
    let volume = on_postgres();
    let mounts = Mounts::new(&volume, 1);
    write_synced(&mounts.path(0, "here"), b"of the mount").expect("written");
    fs::write(volume.sandbox.path("there"), b"of the other").expect("written");
    let elsewhere = |arguments: &[&str]| {
        let weft = volume.command(arguments);
        let mut command = Command::new("unshare");
        command.args(["--uts", "sh", "-c", "hostname elsewhere && exec \"$@\"", "sh"]).arg(weft.get_program());
        command.args(weft.get_args()).current_dir(weft.get_current_dir().expect("the sandbox"));
        for (name, value) in weft.get_envs() {
            command.env(name, value.expect("a value"));
        }
        crate::sandbox::Said::from(command.output().expect("it runs"))
    };
    elsewhere(&["put", &volume.url, &volume.sandbox.path("there"), "/there"]).ok();
    assert_eq!(fs::read(mounts.path(0, "there")).expect("read"), b"of the other");
    elsewhere(&["rm", &volume.url, "/here"]).ok();
    until("it is gone", || !mounts.path(0, "here").exists());
    mounts.end();
}
