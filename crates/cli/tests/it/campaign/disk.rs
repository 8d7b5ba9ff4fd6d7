//! A file system of its own on a loop device, whose power can be cut: what was not flushed is gone, as the kernel's own
//! `goingdown` has it (XFS and ext4).

use std::path::{Path, PathBuf};
use std::process::Command;

pub struct Disk {
    image: PathBuf,
    pub folder: PathBuf,
}

impl Disk {
    /// Makes `<folder>.img` and mounts it at `folder`; `kind`: `xfs` or `ext4`.
    pub fn new(folder: PathBuf, kind: &str) -> Self {
        let image = folder.with_extension("img");
        // Sparse. The least that mkfs.xfs takes is 300 MB.
        std::fs::File::create(&image).and_then(|file| file.set_len(2 << 30)).expect("an image");
        run(Command::new(format!("mkfs.{kind}")).arg("-q").arg(&image));
        std::fs::create_dir(&folder).expect("a folder");
        let disk = Self { image, folder };
        disk.mount();
        disk
    }

    fn mount(&self) {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.folder));
    }

    /// From here on nothing reaches it, and what it had not flushed is lost.
    pub fn cut(&self) {
        // Without -f: not even the log is flushed.
        run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(&self.folder));
    }

    /// Power is back. Whoever had files of it open has ended: so that nothing of before the cut can still reach it.
    pub fn restore(&self) {
        run(Command::new("umount").arg(&self.folder));
        self.mount();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.folder).status();
    }
}

fn run(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| {
        panic!("{command:?}: {error}; the campaign needs root, xfsprogs and e2fsprogs");
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {said}; the campaign needs root, loop devices, xfsprogs and e2fsprogs"
    );
}

/// Where disks' images lie: in memory where this machine has that.
pub fn place() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory } else { Path::new("/tmp") }
}
