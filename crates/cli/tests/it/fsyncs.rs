//! How often a mount makes its metadata wait for the disk, counted by `strace` on ext4: once for each fsync, and for nothing that
//! need not be durable when it returns.

use crate::campaign::disk::{self, Disk};
use crate::sandbox::{Sandbox, until};
use rustix::fs::XattrFlags;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Of each kind.
const OPERATIONS: u32 = 300;
/// Changes without an fsync are written about every 100 ms, in one transaction; ...
const WRITTEN_EVERY_MS: u128 = 100;
/// ... a checkpoint syncs, too, and so does what the mount does by itself.
const BESIDE: u128 = 20;
const EXT4_MAGIC: i64 = 0xef53;

/// `strace` at work on a process.
struct Trace {
    strace: Child,
    log: PathBuf,
}

impl Trace {
    fn start(process: u32, log: PathBuf) -> Self {
        let arguments = ["-f", "-y", "-e", "trace=fsync,fdatasync", "-o"];
        let mut strace = Command::new("strace");
        strace.args(arguments).arg(&log).args(["-p", &process.to_string()]).stderr(Stdio::null());
        let strace = strace.spawn();
        let trace = Self { strace: strace.expect("this test needs strace: apt-get install strace"), log };
        until("strace has every thread", || {
            let threads = fs::read_dir(format!("/proc/{process}/task")).expect("threads").flatten();
            let mut statuses = threads.filter_map(|thread| fs::read_to_string(thread.path().join("status")).ok());
            statuses.all(|status| !status.contains("TracerPid:\t0\n"))
        });
        trace
    }

    /// So far, of the metadata.
    fn count(&self) -> u128 {
        let text = fs::read_to_string(&self.log).expect("strace's log");
        text.lines().filter(|line| line.contains("sync(") && line.contains("/meta.db")).count() as u128
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // It lets go of the process.
        let _ = Command::new("kill").arg(self.strace.id().to_string()).status();
        let _ = self.strace.wait();
    }
}

/// A folder on ext4, on a loop device where there is no other.
fn on_ext4() -> (Option<Disk>, Sandbox) {
    let place = std::env::temp_dir();
    let is_ext4 = |path: &Path| rustix::fs::statfs(path).is_ok_and(|disk| disk.f_type == EXT4_MAGIC);
    if is_ext4(&place) {
        return (None, Sandbox::empty_in(&place));
    }
    let folder = disk::place().join(format!("weft-test-fsyncs-{}", std::process::id()));
    let disk = Disk::new(folder, "ext4");
    let sandbox = Sandbox::empty_in(&disk.folder);
    (Some(disk), sandbox)
}

#[test]
fn only_an_fsync_waits_for_the_disk() {
    let (_disk, sandbox) = on_ext4();
    sandbox.make_volume("rs:4+2");
    sandbox.mount();
    let trace = Trace::start(sandbox.mount_process(), PathBuf::from(sandbox.path("trace")));
    let file = |kind: &str, number: u32| sandbox.file(&format!("{kind}{number}"));
    let page = [7; 4096];

    let run = |what: &str, each: u128, operation: &dyn Fn(u32)| {
        let (before, began) = (trace.count(), Instant::now());
        (0..OPERATIONS).for_each(operation);
        let syncs = trace.count() - before;
        let asked = each * u128::from(OPERATIONS);
        let most = asked + BESIDE + began.elapsed().as_millis() / WRITTEN_EVERY_MS;
        println!("{what}: {syncs} for {OPERATIONS}");
        assert!(
            (asked..=most).contains(&syncs),
            "{what}: {syncs} fsyncs for {OPERATIONS}, and {asked} to {most} are right"
        );
    };
    run("create", 0, &|n| drop(File::create(file("file", n)).expect("made")));
    run("mkdir", 0, &|n| fs::create_dir(file("dir", n)).expect("made"));
    run("symlink", 0, &|n| std::os::unix::fs::symlink("target", file("symlink", n)).expect("made"));
    run("link", 0, &|n| fs::hard_link(file("file", n), file("link", n)).expect("made"));
    run("chmod", 0, &|n| fs::set_permissions(file("file", n), Permissions::from_mode(0o600)).expect("changed"));
    run("setxattr", 0, &|n| {
        rustix::fs::setxattr(file("file", n), "user.a", b"value", XattrFlags::empty()).expect("set");
    });
    run("unlink of one name of two", 0, &|n| fs::remove_file(file("link", n)).expect("gone"));
    run("rename", 0, &|n| fs::rename(file("file", n), file("renamed", n)).expect("renamed"));
    run("save by write and rename", 0, &|n| {
        fs::write(file("new", n), page).expect("written");
        fs::rename(file("new", n), file("renamed", n)).expect("renamed");
    });
    run("truncate", 0, &|n| {
        File::options().write(true).open(file("renamed", n)).and_then(|file| file.set_len(100)).expect("cut");
    });
    run("unlink", 0, &|n| fs::remove_file(file("renamed", n)).expect("gone"));
    run("unlink of a symbolic link", 0, &|n| fs::remove_file(file("symlink", n)).expect("gone"));
    run("rmdir", 0, &|n| fs::remove_dir(file("dir", n)).expect("gone"));
    run("create, write, fsync", 1, &|n| {
        let mut file = File::create(file("synced", n)).expect("made");
        file.write_all(&page).and_then(|()| file.sync_all()).expect("synced");
    });
    let one = File::options().write(true).open(file("synced", 0)).expect("opened");
    run("overwrite, fsync", 1, &|n| {
        one.write_all_at(&page, u64::from(n % 7) * 4096).and_then(|()| one.sync_all()).expect("synced");
    });
    drop(one);
    drop(trace);
    sandbox.umount();
}
