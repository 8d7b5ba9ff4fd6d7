//! How many requests of each kind the kernel sends for what programs do on a mount.

use crate::sandbox::{Sandbox, free_address, http_get, until};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

/// Of each operation.
const FILES: u64 = 100;

/// What the kernel may ask besides, in all: about directories, and again about what it has kept for a minute.
const BESIDE: u64 = 6;

type Counts = BTreeMap<String, u64>;

struct Mount {
    sandbox: Sandbox,
    address: String,
}

impl Mount {
    fn new() -> Self {
        let sandbox = Sandbox::with_volume("rs:4+2");
        let address = free_address();
        let arguments = ["mount", "-d", "meta.db", &sandbox.mnt(), "--metrics", &address];
        sandbox.mount_by(sandbox.command(arguments));
        Self { sandbox, address }
    }

    /// Requests so far. Files are released after the program that closed them goes on, so that is awaited; when inodes are
    /// forgotten is up to the kernel, so that is left out.
    fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        until("files are released", || {
            counts = self.ask();
            counts["release"] == counts["open"] + counts["create"]
        });
        counts.remove("forget");
        counts
    }

    fn ask(&self) -> Counts {
        let answer = http_get(&self.address, "/metrics").expect("answered");
        let count = |line: &str| {
            let (name, count) = line.strip_prefix("weft_mount_requests_total{request=\"")?.split_once("\"} ")?;
            Some((name.to_owned(), count.parse().ok()?))
        };
        answer.lines().filter_map(count).collect()
    }

    /// Does it, and checks that the kernel asks no more than `budget` for each of `files` files, as in "lookup 1, open 1".
    fn check(&self, what: &str, files: u64, budget: &str, operation: impl Fn()) {
        let before = self.counts();
        operation();
        let after = self.counts();
        let asked: Counts = after.into_iter().map(|(kind, count)| (kind.clone(), count - before[&kind])).collect();
        let said: Vec<_> = asked.iter().filter(|(_, count)| **count > 0).collect();
        println!("{what}, {files} files: {said:?}");
        let allowed: Counts = budget
            .split_terminator(", ")
            .map(|of_kind| of_kind.split_once(' ').expect("a kind and its count"))
            .map(|(kind, each)| (kind.to_owned(), each.parse::<u64>().expect("a count") * files))
            .collect();
        let over: u64 = asked.iter().map(|(kind, count)| count.saturating_sub(*allowed.get(kind).unwrap_or(&0))).sum();
        assert!(over <= BESIDE, "{what}: {said:?} for {files} files, and {budget} is allowed for each");
    }
}

#[test]
fn what_programs_do_takes_few_requests() {
    let mount = Mount::new();
    let path = |name: &str, number: u64| mount.sandbox.file("tree").join(format!("{name}{number}"));
    let each = |operation: &dyn Fn(u64)| (0..FILES).for_each(operation);
    fs::create_dir(mount.sandbox.file("tree")).expect("made");
    // The kernel asks for the parent's attributes, since a new name changes them and it checks permissions itself.
    mount.check("create", FILES, "lookup 1, getattr 1, create 1, flush 1, release 1", || {
        each(&|n| drop(File::create(path("file", n)).expect("made")));
    });
    // Before the first write to a file the kernel asks for its capabilities.
    mount.check(
        "create and write",
        FILES,
        "lookup 1, getattr 1, create 1, getxattr 1, write 1, flush 1, release 1",
        || {
            each(&|n| fs::write(path("written", n), [7; 4096]).expect("written"));
        },
    );
    mount.check("write again", FILES, "open 1, write 1, flush 1, release 1", || {
        each(&|n| {
            let file = File::options().write(true).open(path("written", n));
            file.and_then(|mut file| file.write_all(&[8; 4096])).expect("written");
        });
    });
    // A write changes times, which the kernel asks for once.
    for (what, budget) in [("stat after a write", "getattr 1"), ("stat", "")] {
        mount.check(what, FILES, budget, || {
            each(&|n| assert_eq!(fs::metadata(path("written", n)).expect("there").size(), 4096));
        });
    }
    // The first read after a write changes the access time.
    mount.check("open and read", FILES, "open 1, read 1, getattr 1, release 1", || {
        each(&|n| assert_eq!(fs::read(path("written", n)).expect("read").len(), 4096));
    });
    mount.check("read again", FILES, "open 1, release 1", || {
        each(&|n| assert_eq!(fs::read(path("written", n)).expect("read").len(), 4096));
    });
    // The kernel looks the target of a rename up, whatever it keeps.
    mount.check("rename over", FILES, "lookup 1, rename 1, getattr 1", || {
        each(&|n| fs::rename(path("written", n), path("file", n)).expect("renamed"));
    });
    mount.check("mkdir", FILES, "lookup 1, getattr 1, mkdir 1", || {
        each(&|n| fs::create_dir(path("dir", n)).expect("made"));
    });
    mount.check("ls -l", 1, "readdir 20, readdirplus 20", || {
        let listed = Command::new("ls").arg("-l").arg(mount.sandbox.file("tree")).output().expect("ls runs");
        assert_eq!(String::from_utf8_lossy(&listed.stdout).lines().count() as u64, 1 + 2 * FILES);
    });
    mount.check("unlink", FILES, "unlink 1, getattr 1", || each(&|n| fs::remove_file(path("file", n)).expect("gone")));
    mount.check("rmdir", FILES, "rmdir 1, getattr 1", || each(&|n| fs::remove_dir(path("dir", n)).expect("gone")));
    mount.sandbox.umount();
}
