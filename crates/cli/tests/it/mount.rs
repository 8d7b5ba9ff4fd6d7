//! A real mount, used through system calls.

use crate::sandbox::{Sandbox, until};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FlockOperation, Mode, OFlags, RenameFlags, SeekFrom, Timespec, Timestamps, XattrFlags,
};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Somebody without rights.
const NOBODY: u32 = 65534;

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).expect("opened")
}

#[test]
fn what_is_written_is_there_after_mounting_again() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let bytes = crate::content::bytes(0, 3_000_000);
    fs::create_dir(sandbox.file("dir")).expect("made");
    fs::write(sandbox.file("dir/large"), &bytes).expect("written");
    fs::write(sandbox.file("small"), "small").expect("written");
    std::os::unix::fs::symlink("dir/large", sandbox.file("link")).expect("linked");
    sandbox.umount();
    let owner =
        weft_meta::owner::current_owner(Path::new(&sandbox.path("meta.db")), &weft_engine::SystemClock).expect("asked");
    assert_eq!(owner, None, "umount has waited for the process");
    assert!(fs::read_dir(sandbox.mnt()).expect("listed").next().is_none());
    sandbox.mount();
    assert_eq!(fs::read(sandbox.file("link")).expect("read"), bytes);
    assert_eq!(fs::read(sandbox.file("small")).expect("read"), b"small");
    sandbox.umount();
}

#[test]
fn names_links_and_renames() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let (a, b, dir) = (sandbox.file("a"), sandbox.file("b"), sandbox.file("dir"));
    fs::write(&a, "a").expect("written");
    fs::write(&b, "b").expect("written");
    fs::create_dir(&dir).expect("made");

    let swap = |flags| rustix::fs::renameat_with(CWD, &a, CWD, &b, flags);
    assert_eq!(swap(RenameFlags::NOREPLACE), Err(Errno::EXIST));
    swap(RenameFlags::EXCHANGE).expect("swapped");
    assert_eq!(fs::read(&a).expect("read"), b"b");
    fs::rename(&a, &b).expect("replaced");
    assert_eq!(fs::read(&b).expect("read"), b"b");
    assert!(!a.exists());

    fs::hard_link(&b, dir.join("c")).expect("linked");
    assert_eq!(fs::metadata(&b).expect("there").nlink(), 2);
    assert_eq!(fs::metadata(&b).expect("there").ino(), fs::metadata(dir.join("c")).expect("there").ino());
    fs::remove_file(&b).expect("removed");
    assert_eq!(fs::metadata(dir.join("c")).expect("there").nlink(), 1);
    assert_eq!(fs::remove_dir(&dir).expect_err("full").raw_os_error(), Some(libc::ENOTEMPTY));

    let long = "n".repeat(255);
    fs::write(sandbox.file(&long), "").expect("255 bytes are a name");
    let error = fs::write(sandbox.file(&"n".repeat(256)), "").expect_err("256 are none");
    assert_eq!(error.raw_os_error(), Some(libc::ENAMETOOLONG));
    // Asked for once, absent; then made: the kernel does not go on remembering that it was absent.
    assert!(!sandbox.file("late").exists());
    fs::write(sandbox.file("late"), "").expect("written");
    assert!(sandbox.file("late").exists());
    sandbox.umount();
}

#[test]
fn a_directory_is_listed_whole_while_it_changes() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let stay: BTreeSet<String> = (0..500).map(|i| format!("stay{i:03}")).collect();
    for (name, i) in stay.iter().zip(0..) {
        fs::write(sandbox.file(name), "").expect("written");
        fs::write(sandbox.file(&format!("go{i:03}")), "").expect("written");
    }
    let mut seen = BTreeSet::new();
    for (entry, i) in fs::read_dir(sandbox.mnt()).expect("opened").zip(0..) {
        let name = entry.expect("listed").file_name().into_string().expect("UTF-8");
        assert!(seen.insert(name), "nothing comes twice");
        if i % 2 == 0 {
            let _ = fs::remove_file(sandbox.file(&format!("go{:03}", i / 2)));
            fs::write(sandbox.file(&format!("new{i:03}")), "").expect("written");
        }
    }
    assert!(stay.is_subset(&seen), "what stays is listed");
    sandbox.umount();
}

/// The mount waits in the kernel for pages that a reader holds, and the reader for the mount: a process of its own ends that.
#[test]
fn a_mount_that_is_killed_while_it_waits_for_pages_leaves_no_program_waiting() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let path = sandbox.file("f");
    fs::write(&path, vec![1; 1 << 20]).expect("written");
    let read = "while True: os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED); os.pread(f, 1 << 20, 0)";
    let write = "b = mmap.mmap(-1, 4096)\nwhile True: os.pwritev(f, [b], 0)";
    let start = |flags: &str, what: &str| {
        let script = format!("import mmap, os, sys\nf = os.open(sys.argv[1], {flags})\n{what}");
        let mut program = Command::new("python3");
        program.args(["-c", &script]).arg(&path).stderr(Stdio::null()).spawn().expect("python3 runs")
    };
    let readers = (0..4).map(|_| start("os.O_RDONLY", read));
    let mut programs: Vec<Child> = readers.chain((0..6).map(|_| start("os.O_RDWR | os.O_DIRECT", write))).collect();
    std::thread::sleep(Duration::from_secs(1));
    let mount = Pid::from_raw(sandbox.mount_process().cast_signed()).expect("a process");
    rustix::process::kill_process(mount, Signal::KILL).expect("killed");
    let began = Instant::now();
    let mut have_ended = || programs.iter_mut().all(|program| program.try_wait().expect("asked").is_some());
    while !have_ended() && began.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let had_ended = have_ended();
    let _ = sandbox.weft(["umount", "--force", &sandbox.mnt()]);
    assert!(had_ended, "programs wait for a mount that was killed");
}

/// A copy that leaves holes out has what a program has written to the file by a mapping, of which the kernel does not tell.
#[test]
fn what_is_changed_in_a_mapping_is_copied_by_programs_that_leave_holes_out() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let (from, to) = (sandbox.file("mapped"), sandbox.file("copy"));
    let script = "import mmap, os, sys\n\
        f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n\
        os.ftruncate(f, 1 << 24)\n\
        m = mmap.mmap(f, 1 << 24)\n\
        m[5000000:5000006] = b'mapped'\n\
        print('done', flush=True)\n\
        sys.stdin.read()\n";
    let mut program = Command::new("python3");
    program.args(["-c", script]).arg(&from).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut program = program.spawn().expect("python3 runs");
    let mut said = [0; 5];
    program.stdout.as_mut().expect("a pipe").read_exact(&mut said).expect("it has written");
    // By a program that has no descriptor of it: closing one would write the mapping's pages.
    let copied = Command::new("cp").arg("--sparse=auto").args([&from, &to]).status().expect("cp runs");
    assert!(copied.success());
    assert_eq!(fs::read(&to).expect("read")[5_000_000..5_000_006], *b"mapped");
    drop(program.stdin.take());
    assert!(program.wait().expect("it ends").success());
    sandbox.umount();
}

#[test]
fn bytes_at_any_offset_holes_and_cuts() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let path = sandbox.file("sparse");
    let file = open(&path);
    let far = 5 << 30;
    file.write_all_at(b"far", far).expect("written beyond 4 GiB");
    assert_eq!(file.metadata().expect("there").len(), far + 3);
    assert!(file.metadata().expect("there").blocks() * 512 < 1 << 20, "a hole takes no room");
    let seek = |from| rustix::fs::seek(&file, from);
    assert_eq!(seek(SeekFrom::Hole(0)), Ok(0));
    let data = seek(SeekFrom::Data(0)).expect("there is data");
    assert!(data <= far && far - data < 1 << 20);
    assert_eq!(seek(SeekFrom::Data(far + 3)), Err(Errno::NXIO));

    file.set_len(0).expect("cut");
    file.write_all_at(&[7; 20_000], 0).expect("written");
    rustix::fs::fallocate(&file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 5_000, 10_000)
        .expect("punched");
    rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, 30_000).expect("allocated");
    file.set_len(25_000).expect("cut");
    let mut expected = vec![7; 20_000];
    expected[5_000..15_000].fill(0);
    expected.resize(25_000, 0);
    assert_eq!(fs::read(&path).expect("read"), expected);

    // Cut and grown again: what was cut off does not come back.
    file.set_len(100).expect("cut");
    file.set_len(200).expect("grown");
    assert_eq!(fs::read(&path).expect("read"), [vec![7; 100], vec![0; 100]].concat());

    let mut append = OpenOptions::new().append(true).open(&path).expect("opened");
    append.write_all(b"end").expect("appended");
    append.sync_all().expect("durable");
    drop((file, append));
    assert_eq!(fs::metadata(&path).expect("there").len(), 203);
    sandbox.umount();
    sandbox.mount();
    assert_eq!(&fs::read(&path).expect("read")[200..], b"end");
    sandbox.umount();
}

#[test]
fn direct_and_cached_writes_see_each_other() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let path = sandbox.file("direct");
    let cached = open(&path);
    cached.write_all_at(&[1; 8192], 0).expect("written");
    let direct = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(&path).expect("opened");
    direct.write_all_at(&[2; 4096], 4096).expect("written");
    let mut seen = [0; 8192];
    cached.read_exact_at(&mut seen, 0).expect("read");
    assert_eq!(seen[..], [[1; 4096], [2; 4096]].concat());
    cached.write_all_at(&[3; 4096], 0).expect("written");
    direct.read_exact_at(&mut seen, 0).expect("read");
    assert_eq!(seen[..], [[3; 4096], [2; 4096]].concat());
    drop((cached, direct));
    sandbox.umount();
}

#[test]
fn a_file_without_a_name_lives_until_it_is_closed() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let path = sandbox.file("gone");
    fs::write(&path, "still here").expect("written");
    let mut file = open(&path);
    fs::remove_file(&path).expect("removed");
    file.seek(std::io::SeekFrom::End(0)).expect("moved");
    file.write_all(b", and longer").expect("written");
    file.rewind().expect("moved");
    let mut text = String::new();
    file.read_to_string(&mut text).expect("read");
    assert_eq!(text, "still here, and longer");
    assert_eq!(file.metadata().expect("there").nlink(), 0);
    drop(file);
    sandbox.umount();
}

#[test]
fn modes_times_attributes_and_locks() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let path = sandbox.file("file");
    fs::write(&path, "x").expect("written");

    for (tv_sec, tv_nsec) in [(1_700_000_000, 123_456_789), (-2, 800_000_000), (0, 1)] {
        let time = Timespec { tv_sec, tv_nsec };
        let times = Timestamps { last_access: time, last_modification: time };
        rustix::fs::utimensat(CWD, &path, &times, AtFlags::empty()).expect("set");
        let found = fs::metadata(&path).expect("there");
        assert_eq!((found.mtime(), found.mtime_nsec()), (tv_sec, tv_nsec));
        assert_eq!((found.atime(), found.atime_nsec()), (tv_sec, tv_nsec));
    }

    rustix::fs::setxattr(&path, "user.colour", b"blue", XattrFlags::CREATE).expect("set");
    assert_eq!(rustix::fs::setxattr(&path, "user.colour", b"red", XattrFlags::CREATE), Err(Errno::EXIST));
    let mut value = [0; 16];
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut value[..]), Ok(4));
    assert_eq!(&value[..4], b"blue");
    assert_eq!(rustix::fs::getxattr(&path, "user.colour", &mut value[..2]), Err(Errno::RANGE));
    assert_eq!(rustix::fs::getxattr(&path, "user.none", &mut value[..]), Err(Errno::NODATA));
    assert_eq!(rustix::fs::getxattr(&path, "system.posix_acl_access", &mut value[..]), Err(Errno::OPNOTSUPP));
    assert_eq!(rustix::fs::getxattr(&path, "security.selinux", &mut value[..]), Err(Errno::OPNOTSUPP));
    let label = rustix::fs::setxattr(&path, "security.selinux", b"label", XattrFlags::empty());
    assert_eq!(label, Err(Errno::OPNOTSUPP));
    let mut names = [0; 64];
    assert_eq!(rustix::fs::listxattr(&path, &mut names[..]), Ok(12));
    assert_eq!(&names[..12], b"user.colour\0");
    rustix::fs::removexattr(&path, "user.colour").expect("removed");

    let (one, two) = (open(&path), open(&path));
    rustix::fs::flock(&one, FlockOperation::NonBlockingLockExclusive).expect("locked");
    assert_eq!(rustix::fs::flock(&two, FlockOperation::NonBlockingLockExclusive), Err(Errno::WOULDBLOCK));
    drop((one, two));

    rustix::fs::mknodat(CWD, sandbox.file("pipe"), rustix::fs::FileType::Fifo, 0o600.into(), 0).expect("made");
    let room = rustix::fs::statvfs(sandbox.mnt()).expect("asked");
    assert!(room.f_blocks > 0 && room.f_bavail <= room.f_blocks && room.f_namemax == 255);
    sandbox.umount();
}

/// Runs a shell as somebody without rights.
fn as_nobody(script: &str, path: &Path) -> bool {
    // The shell says on stderr what it may not do.
    let output = Command::new("sh").args(["-c", script, "sh"]).arg(path).uid(NOBODY).gid(NOBODY).output();
    output.expect("sh runs").status.success()
}

#[test]
fn the_kernel_checks_permissions_and_suid_bits_do_not_survive_others() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root: it becomes somebody else");
    let sandbox = Sandbox::mounted("rs:4+2");
    // The test's own folder lets nobody through.
    for folder in [sandbox.path(""), sandbox.mnt()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("opened up");
    }
    let path = sandbox.file("file");
    let mode = |path: &Path| fs::metadata(path).expect("there").mode() & 0o7777;
    let reset = |bits| {
        fs::write(&path, "some text").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(bits)).expect("set");
    };

    reset(0o600);
    assert!(!as_nobody("cat \"$1\"", &path));
    assert!(!as_nobody("echo x >> \"$1\"", &path));

    for script in ["echo x >> \"$1\"", "echo x > \"$1\"", "truncate -s 3 \"$1\""] {
        reset(0o6777);
        assert!(as_nobody(script, &path), "{script}");
        assert_eq!(mode(&path), 0o777, "after {script}");
    }
    reset(0o6777);
    fs::write(&path, "by root").expect("written");
    assert_eq!(mode(&path), 0o6777, "root may keep them");
    rustix::fs::chown(&path, Some(rustix::fs::Uid::from_raw(NOBODY)), None).expect("given away");
    assert_eq!(mode(&path), 0o777, "after chown");

    // A set-group-id directory hands its group on.
    fs::DirBuilder::new().mode(0o755).create(sandbox.file("shared")).expect("made");
    rustix::fs::chown(sandbox.file("shared"), None, Some(rustix::fs::Gid::from_raw(NOBODY))).expect("given");
    fs::set_permissions(sandbox.file("shared"), Permissions::from_mode(0o2755)).expect("set");
    fs::write(sandbox.file("shared/file"), "").expect("written");
    assert_eq!(fs::metadata(sandbox.file("shared/file")).expect("there").gid(), NOBODY);
    sandbox.umount();
}

/// Opening to truncate asks twice: the kernel refuses only after the file system has had its say.
#[test]
fn a_running_program_keeps_its_text() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let path = sandbox.file("program");
    let text = fs::read("/bin/sleep").expect("read");
    // Copied by another process: a child that some other test forks meanwhile cannot hold it open for writing.
    assert!(Command::new("cp").arg("/bin/sleep").arg(&path).status().expect("cp runs").success());
    let mut running = Command::new(&path).arg("60").spawn().expect("runs");
    for flags in [OFlags::WRONLY, OFlags::RDWR | OFlags::TRUNC, OFlags::RDONLY | OFlags::TRUNC] {
        let opened = rustix::fs::open(&path, flags, Mode::empty());
        assert_eq!(opened.expect_err("busy"), Errno::TXTBSY, "{flags:?}");
    }
    assert!(running.try_wait().expect("asked").is_none(), "it still runs");
    running.kill().expect("ended");
    running.wait().expect("ended");
    assert!(fs::read(&path).expect("read") == text);
    fs::write(&path, "").expect("not busy any more");
    sandbox.umount();
}

#[test]
fn a_dead_mount_is_told_and_mended() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let mut file = File::create(sandbox.file("synced")).expect("made");
    file.write_all(b"safe").expect("written");
    file.sync_all().expect("durable");
    drop(file);
    let kill = |sandbox: &Sandbox| {
        let pid = Pid::from_raw(sandbox.mount_process() as i32).expect("a process");
        rustix::process::kill_process(pid, Signal::KILL).expect("killed");
        // The kernel may still answer from its cache. A request that is being copied into the dying process ends with
        // EIO (`fuse_dev_do_read`). Then the mount is dead.
        let answer = || fs::metadata(sandbox.file("synced")).err().and_then(|error| error.raw_os_error());
        while matches!(answer(), None | Some(libc::EIO)) {}
        // One that is still ending may have something to report, for all that `weft umount` knows.
        // Its first thread is a zombie before the others have ended.
        let is_over = |stat: String| {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            fields.first() == Some(&"Z") && fields.get(17).is_some_and(|threads| *threads == "1")
        };
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        until("the process has ended", || fs::read_to_string(&stat).map_or(true, is_over));
    };
    kill(&sandbox);
    let error = fs::metadata(sandbox.file("synced")).expect_err("dead");
    assert!(matches!(error.raw_os_error(), Some(libc::ENOTCONN | libc::ECONNABORTED)), "{error}");
    // Another volume does not clear it away.
    sandbox.weft(["format", "--policy", "replica:2", "other.db"]).ok();
    let sentence = sandbox.weft(["mount", "-d", "other.db", &sandbox.mnt()]).sentence();
    assert!(sentence.contains("dead") && sentence.contains("weft umount"), "{sentence}");
    // The volume itself does.
    sandbox.mount();
    assert_eq!(fs::read(sandbox.file("synced")).expect("read"), b"safe");
    kill(&sandbox);
    sandbox.umount();
    assert!(fs::read_dir(sandbox.mnt()).expect("listed").next().is_none());
}

/// Where the metadata does not say which process serves a mount, nobody has waited for it.
#[test]
fn unmounting_says_so_if_it_cannot_know_whether_everything_was_written() {
    let sandbox = Sandbox::mounted("rs:4+2");
    fs::write(sandbox.file("file"), b"bytes").expect("written");
    fs::rename(sandbox.path("meta.db"), sandbox.path("elsewhere.db")).expect("renamed");
    let said = sandbox.weft(["umount", &sandbox.mnt()]).sentence();
    assert!(said.contains("whether everything was written is not known") && said.contains("meta.db"), "{said}");
    fs::rename(sandbox.path("elsewhere.db"), sandbox.path("meta.db")).expect("renamed");
    // The process writes, and ends.
    until("the file is there", || {
        let is_named = sandbox.weft(["get", "meta.db", "/file", "back"]).success;
        let back = fs::read(sandbox.path("back")).unwrap_or_default();
        let _ = fs::remove_file(sandbox.path("back"));
        is_named && back == b"bytes"
    });
}

#[test]
fn a_hung_mount_is_taken_away_by_force() {
    let sandbox = Sandbox::mounted("rs:4+2");
    fs::write(sandbox.file("file"), "x").expect("written");
    let number = sandbox.mount_process();
    let pid = Pid::from_raw(number as i32).expect("a process");
    rustix::process::kill_process(pid, Signal::STOP).expect("stopped");
    let mut stuck = Command::new("ls").arg(sandbox.file("other")).spawn().expect("ls runs");
    // Told in time, though nobody answers there.
    let sentence = sandbox.weft(["mount", "-d", "meta.db", &sandbox.mnt()]).sentence();
    assert!(sentence.contains("already mounted"), "{sentence}");
    let sentence = sandbox.weft(["umount", "--force", &sandbox.mnt()]).sentence();
    assert!(sentence.contains(&format!("kill -9 {number}")), "{sentence}");
    assert!(!stuck.wait().expect("it is let go").success());
    rustix::process::kill_process(pid, Signal::KILL).expect("killed");
    sandbox.mount();
    sandbox.umount();
}

#[test]
fn a_signal_ends_a_mount_cleanly() {
    let sandbox = Sandbox::mounted("rs:4+2");
    fs::write(sandbox.file("file"), "not synced").expect("written");
    let pid = Pid::from_raw(sandbox.mount_process() as i32).expect("a process");
    let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).expect("there");
    rustix::process::kill_process(pid, Signal::TERM).expect("told");
    let mut poll = [rustix::event::PollFd::new(&process, rustix::event::PollFlags::IN)];
    rustix::event::poll(&mut poll, None).expect("it ends");
    sandbox.mount();
    assert_eq!(fs::read(sandbox.file("file")).expect("read"), b"not synced");
    sandbox.umount();
}

#[test]
fn nodes_may_be_lost_while_the_mount_goes_on() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let bytes = crate::content::bytes(0, 9_000_000);
    fs::write(sandbox.file("file"), &bytes).expect("written");
    sandbox.umount();
    sandbox.mount();
    sandbox.wipe("node2");
    sandbox.wipe("node5");
    assert_eq!(fs::read(sandbox.file("file")).expect("read"), bytes);
    sandbox.umount();
}

/// Entries of the table in the cache's file that are in use: 64 bytes each, after a page.
fn pieces_kept(sandbox: &Sandbox) -> usize {
    let file = fs::read(sandbox.path("cache/pieces.weft")).expect("the cache");
    let slots = u64::from_le_bytes(file[30..38].try_into().expect("eight bytes"));
    let entries = file[4096..].chunks_exact(64).take(slots as usize);
    entries.filter(|entry| entry.iter().any(|byte| *byte != 0)).count()
}

#[test]
fn what_was_read_is_read_again_from_the_local_disk_without_any_node() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    let content = crate::content::bytes(0, 12_000_000);
    fs::write(sandbox.path("file"), &content).expect("written");
    sandbox.weft(["put", "meta.db", "file", "/file"]).ok();
    fs::create_dir(sandbox.path("cache")).expect("made");
    let mnt = sandbox.mnt();
    let mount = || {
        let cache = ["--no-care", "--cache", "cache", "--cache-size", "64M"];
        sandbox.mount_by(sandbox.command(["mount", "-d", "meta.db", &mnt].iter().chain(&cache)));
    };
    mount();
    assert!(fs::read(sandbox.file("file")).expect("read") == content);
    until("all of it is kept", || pieces_kept(&sandbox) == content.len().div_ceil(64 << 10));
    sandbox.kill_mount();
    fs::create_dir(sandbox.path("away")).expect("made");
    for number in 1..=6 {
        let node = format!("node{number}");
        fs::rename(sandbox.path(&node), sandbox.path(&format!("away/{node}"))).expect("moved");
    }
    mount();
    assert!(fs::read(sandbox.file("file")).expect("read without any node") == content);
    // Its opening is not in the replica of the metadata.
    let said = sandbox.weft(["umount", &mnt]).sentence();
    assert!(said.contains("the nodes lack the last changes of the metadata"), "{said}");
    let cached = fs::read_dir(sandbox.path("cache")).expect("listed").map(|entry| entry.expect("read").metadata());
    assert!(cached.map(|entry| entry.expect("read").len()).sum::<u64>() <= 64 << 20);
}

/// Nodes that stand in too few domains take nothing: who closes a file is told, and who unmounts; few bytes outlast it in the journal.
#[test]
fn finding_08_closing_and_unmounting_say_that_a_policy_cannot_be_had() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    let stand_in = |domain: &dyn Fn(u32) -> String| {
        for number in 1..=6 {
            sandbox.weft(["node", "set", "meta.db", &number.to_string(), "--domain", &domain(number)]).ok();
        }
    };
    stand_in(&|_| "cellar".into());
    sandbox.mount();
    fs::write(sandbox.file("small"), [7; 1000]).expect("written");
    let copied = Command::new("cp").arg("/proc/self/exe").arg(sandbox.file("large")).output().expect("cp runs");
    assert!(!copied.status.success(), "cp is told");
    let said = sandbox.weft(["umount", &sandbox.mnt()]).sentence();
    assert!(said.contains("could not be written and are lost"), "{said}");
    stand_in(&|number| format!("room{number}"));
    sandbox.mount();
    assert_eq!(fs::read(sandbox.file("small")).expect("read"), [7; 1000]);
    fs::write(sandbox.file("large"), [7; 100_000]).expect("written");
    sandbox.umount();
}

/// Writes that go around the page cache leave nothing old in it, though others read through it all the time.
#[test]
fn finding_31_asynchronous_direct_writes_are_seen_through_the_page_cache() {
    let sandbox = Sandbox::mounted("rs:2+1");
    let program = sandbox.path("aio");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/aio.c");
    let compiled = Command::new("cc").args(["-O1", "-pthread", "-o", &program, source]).status();
    assert!(compiled.expect("this test needs a C compiler: install the package gcc").success());
    let said = Command::new(&program).arg(sandbox.file("file")).arg("300").output().expect("runs");
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    sandbox.umount();
}

/// Asks for the mode alone, which the kernel may answer by itself: as `stat -c %a` does.
fn mode_of(path: &Path) -> u32 {
    let found = rustix::fs::statx(CWD, path, AtFlags::empty(), rustix::fs::StatxFlags::MODE).expect("asked");
    u32::from(found.stx_mode) & 0o7777
}

#[test]
fn finding_31_a_cleared_set_user_id_bit_is_seen_at_once() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root: it becomes somebody else");
    let sandbox = Sandbox::mounted("rs:2+1");
    for folder in [sandbox.path(""), sandbox.mnt()] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("opened up");
    }
    let path = sandbox.file("file");
    let zeros = "fallocate -o 0 -l 3 ";
    for script in [
        "echo x >> \"$1\"".to_owned(),
        "truncate -s 3 \"$1\"".to_owned(),
        format!("{zeros} \"$1\""),
        format!("{zeros} --punch-hole \"$1\""),
        format!("{zeros} --zero-range \"$1\""),
    ] {
        fs::write(&path, "some text").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o6777)).expect("set");
        assert_eq!(mode_of(&path), 0o6777);
        assert!(as_nobody(&script, &path), "{script}");
        assert_eq!(mode_of(&path), 0o777, "after {script}");
    }
    sandbox.umount();
}

#[test]
fn finding_31_access_times_follow_relatime_though_the_kernel_has_the_bytes() {
    let sandbox = Sandbox::mounted("rs:2+1");
    fs::create_dir(sandbox.file("dir")).expect("made");
    fs::write(sandbox.file("dir/file"), "in the page cache").expect("written");
    std::os::unix::fs::symlink("file", sandbox.file("dir/link")).expect("linked");
    let accessed = |name: &str| {
        let found =
            rustix::fs::statx(CWD, sandbox.file(name), AtFlags::SYMLINK_NOFOLLOW, rustix::fs::StatxFlags::ATIME);
        let time = found.expect("asked").stx_atime;
        (time.tv_sec, time.tv_nsec)
    };
    type Read<'r> = Box<dyn Fn() + 'r>;
    let reads: [(&str, Read<'_>); 3] = [
        ("dir/file", Box::new(|| assert_eq!(fs::read(sandbox.file("dir/file")).expect("read"), b"in the page cache"))),
        ("dir/link", Box::new(|| drop(fs::read_link(sandbox.file("dir/link")).expect("read")))),
        ("dir", Box::new(|| assert_eq!(fs::read_dir(sandbox.file("dir")).expect("listed").count(), 2))),
    ];
    for (name, read) in &reads {
        let made = accessed(name);
        read();
        let first = accessed(name);
        assert!(first > made, "{name}: read for the first time");
        read();
        assert_eq!(accessed(name), first, "{name}: read again, and unchanged");
    }
    sandbox.umount();
}

/// As a terminal does that is closed.
#[test]
fn finding_31_a_closed_terminal_ends_a_mount_cleanly() {
    let sandbox = Sandbox::with_volume("rs:2+1");
    // A test runner under nohup ignores the signal, and what it starts would do so too.
    let weft = sandbox.command(["mount", "meta.db", &sandbox.mnt()]);
    let mut command = std::process::Command::new("env");
    command.arg("--default-signal=HUP").arg(weft.get_program()).args(weft.get_args()).current_dir(sandbox.path("."));
    let mut mount = command.spawn().expect("weft runs");
    until("it is mounted", || weft_gateways::fuse::mounts::at(Path::new(&sandbox.mnt())).expect("asked").is_some());
    let names: Vec<String> = (0..69).map(|number| format!("file{number}")).collect();
    for name in &names {
        fs::write(sandbox.file(name), name).expect("written");
    }
    rustix::process::kill_process(Pid::from_child(&mount), Signal::HUP).expect("told");
    assert!(mount.wait().expect("it ends").success());
    assert!(fs::read_dir(sandbox.mnt()).expect("no dead mount").next().is_none());
    sandbox.mount();
    for name in &names {
        assert_eq!(&fs::read(sandbox.file(name)).expect("read"), name.as_bytes());
    }
    sandbox.umount();
}

#[test]
fn finding_21_a_mount_that_cannot_show_its_metrics_is_none() {
    let sandbox = Sandbox::with_volume("rs:2+1");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let mnt = sandbox.mnt();
    for foreground in [false, true] {
        let mut arguments = vec!["mount", "meta.db", &mnt, "--metrics", &address];
        if !foreground {
            arguments.push("-d");
        }
        let sentence = sandbox.weft(arguments).sentence();
        assert!(sentence.contains(&address) && sentence.contains("--metrics"), "{sentence}");
        assert!(weft_gateways::fuse::mounts::at(Path::new(&mnt)).expect("asked").is_none(), "nothing is mounted");
        let owner = weft_meta::owner::current_owner(Path::new(&sandbox.path("meta.db")), &weft_engine::SystemClock)
            .expect("asked");
        assert_eq!(owner, None);
    }
    // Nor is a worker of its own begun.
    let sentence = sandbox.weft(["care", "meta.db", "--metrics", &address]).sentence();
    assert!(sentence.contains(&address), "{sentence}");
    drop(taken);
    sandbox.mount_by(sandbox.command(["mount", "-d", "meta.db", &mnt, "--metrics", &address]));
    sandbox.umount();
}

/// Lines of the mount table that are about this place.
fn mount_line(mountpoint: &str) -> String {
    let table = fs::read_to_string("/proc/self/mounts").expect("read");
    let line = table.lines().find(|line| line.split(' ').nth(1) == Some(mountpoint));
    line.expect("it is mounted").to_owned()
}

#[test]
fn finding_32_readers_mount_beside_the_owner_and_see_what_it_flushed() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let looks: Vec<String> = ["look1", "look2"].iter().map(|name| sandbox.path(name)).collect();
    for (look, how) in looks.iter().zip([&["--read-only"][..], &["-o", "ro,noexec"]]) {
        fs::create_dir(look).expect("made");
        sandbox.mount_by(sandbox.command(["mount", "-d", "meta.db", look].iter().chain(how)));
        assert!(mount_line(look).contains(" ro,"), "{}", mount_line(look));
    }
    assert!(mount_line(&looks[1]).contains("noexec"));
    let large = crate::content::bytes(0, 3_000_000);
    let synced = |name: &str, bytes: &[u8]| {
        let mut file = File::create(sandbox.file(name)).expect("made");
        file.write_all(bytes).and_then(|()| file.sync_all()).expect("synced");
    };
    // Large ones are on nodes, small ones in the journal.
    synced("large", &large);
    synced("small", b"one");
    let at = |look: &str, name: &str| Path::new(look).join(name);
    for look in &looks {
        until("the names are there", || at(look, "small").exists() && at(look, "large").exists());
        assert!(fs::read(at(look, "large")).expect("read") == large);
        assert_eq!(fs::read(at(look, "small")).expect("read"), b"one");
    }
    // What is written anew is seen by who opens it afterwards, in the journal or on nodes.
    synced("small", b"another");
    fs::rename(sandbox.file("large"), sandbox.file("renamed")).expect("renamed");
    File::open(sandbox.mnt()).and_then(|root| root.sync_all()).expect("synced");
    for look in &looks {
        until("it is seen", || fs::read(at(look, "small")).expect("read") == b"another");
        until("it is seen", || at(look, "renamed").exists() && !at(look, "large").exists());
        let refused = fs::write(at(look, "small"), "no").expect_err("read-only");
        assert_eq!(refused.raw_os_error(), Some(libc::EROFS));
    }
    // Readers go on when the owner has gone, and do not keep the next one out.
    let open = File::open(at(&looks[0], "renamed")).expect("opened");
    sandbox.umount();
    let mut start = vec![0; 1 << 20];
    open.read_exact_at(&mut start, 1 << 20).expect("read without an owner");
    assert!(start == large[1 << 20..2 << 20]);
    drop(open);
    sandbox.mount();
    synced("small", b"by the next owner");
    for look in &looks {
        until("it is seen", || fs::read(at(look, "small")).expect("read") == b"by the next owner");
        sandbox.weft(["umount", look]).ok();
    }
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn finding_32_set_user_id_and_devices_have_no_effect_unless_it_is_asked_for() {
    assert!(rustix::process::geteuid().is_root(), "this test needs root");
    let sandbox = Sandbox::with_volume("rs:2+1");
    let mnt = sandbox.mnt();
    for (options, there, not_there) in [
        (&[][..], &["nosuid", "nodev"][..], &["noexec", "noatime"][..]),
        (&["-o", "suid,dev,noexec"], &["noexec"], &["nosuid", "nodev"]),
        (&["-o", "suid", "-o", "nosuid,noatime"], &["nosuid", "nodev", "noatime"], &["noexec"]),
    ] {
        sandbox.mount_by(sandbox.command(["mount", "-d", "meta.db", &mnt].iter().chain(options)));
        let line = mount_line(&mnt);
        let words: Vec<&str> = line.split(' ').nth(3).expect("options").split(',').collect();
        assert!(there.iter().all(|word| words.contains(word)), "{options:?}: {line}");
        assert!(!not_there.iter().any(|word| words.contains(word)), "{options:?}: {line}");
        sandbox.umount();
    }
    let said = sandbox.weft(["mount", "-d", "meta.db", &mnt, "-o", "quota"]);
    assert!(!said.success && said.stderr.contains("`quota` is not a mount option"), "{}", said.stderr);
}

/// Memory of a process that no file stands behind.
fn anonymous_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line for it");
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kib << 10
}

#[test]
fn an_idle_mount_gives_its_memory_back() {
    let sandbox = Sandbox::mounted("rs:4+2");
    let process = sandbox.mount_process();
    let mut file = File::create(sandbox.file("large")).expect("made");
    let part = vec![7; 1 << 20];
    (0..256).for_each(|_| file.write_all(&part).expect("written"));
    file.sync_all().expect("synced");
    drop(file);
    println!("busy: {} bytes", anonymous_bytes(process));
    until("it holds less than 40 MiB", || anonymous_bytes(process) < 40 << 20);
    sandbox.umount();
}
