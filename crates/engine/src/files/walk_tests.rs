//! Trees with wrong entries.

use super::*;
use crate::files::{Attributes, Copying, FolderTree, Sink, copy};
use std::io::Read;
use weft_format::Ino;
use weft_format::records::Timestamp;

/// Each directory holds what `below` says of its depth.
struct FaultyTree<F> {
    is_volume: bool,
    below: F,
}

fn entry(kind: Kind, ino: u64) -> Entry {
    let modified = Timestamp { seconds: 0, nanoseconds: 0 };
    Entry { id: (7, ino), kind, mode: 0o755, uid: 0, gid: 0, nlink: 1, size: 0, modified }
}

impl<F: Fn(usize) -> Vec<(&'static str, Entry)>> Tree for FaultyTree<F> {
    fn entry(&self, _: &Path) -> Result<Option<Entry>> {
        Ok(Some(entry(Kind::Directory, 1)))
    }
    fn list(&self, directory: &Path) -> Result<Vec<(OsString, Entry)>> {
        let depth = directory.components().count() - 1;
        Ok((self.below)(depth).into_iter().map(|(name, entry)| (name.into(), entry)).collect())
    }
    fn read(&self, _: &Path) -> Result<Box<dyn Read + '_>> {
        Ok(Box::new(&b"content"[..]))
    }
    fn is_volume(&self) -> bool {
        self.is_volume
    }
    fn read_link(&self, _: &Path) -> Result<PathBuf> {
        unimplemented!()
    }
    fn make_file(&self, _: &Path) -> Result<Box<dyn Sink + '_>> {
        unimplemented!()
    }
    fn make_directory(&self, _: &Path) -> Result<()> {
        unimplemented!()
    }
    fn make_link(&self, _: &Path, _: &Path) -> Result<()> {
        unimplemented!()
    }
    fn make_special(&self, _: &Path, _: Kind) -> Result<()> {
        unimplemented!()
    }
    fn set(&self, _: &Path, _: &Attributes) -> Result<()> {
        unimplemented!()
    }
    fn rename(&self, _: &Path, _: &Path) -> Result<()> {
        unimplemented!()
    }
    fn remove(&self, _: &Path, _: Kind) -> Result<()> {
        Ok(())
    }
    fn policy(&self, _: &Path) -> Result<String> {
        unimplemented!()
    }
    fn set_policy(&self, _: &Path, _: &str) -> Result<()> {
        unimplemented!()
    }
    fn restore(&self, _: u64, _: Ino) -> Result<()> {
        unimplemented!()
    }
    fn purge(&self, _: u64, _: Ino) -> Result<()> {
        unimplemented!()
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// The steps of a whole walk.
fn steps(tree: &dyn Tree) -> Result<usize> {
    let mut walk = Walk::new(tree, Path::new("/"))?;
    let mut count = 0;
    while walk.step()?.is_some() {
        count += 1;
    }
    Ok(count)
}

#[test]
fn finding_12_names_that_lead_elsewhere_end_a_walk_and_write_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["..", ".", "", "/tmp/weft-outside", "../outside", "a/../../outside"] {
        let tree = FaultyTree { is_volume: true, below: |_| vec![(name, entry(Kind::File, 2))] };
        assert!(steps(&tree).expect_err(name).to_string().contains("is not allowed"));
        let target = folder.path().join("target");
        std::fs::create_dir_all(&target).expect("made");
        let here = FolderTree::of_folder(target.clone()).expect("opened");
        let how = Copying { preserve: false, progress: &() };
        copy(&tree, Path::new("/"), &here, Path::new("/got"), how).expect_err(name);
        let names = |path: &Path| std::fs::read_dir(path).expect("listed").count();
        assert_eq!((names(folder.path()), names(&target), names(&target.join("got"))), (1, 1, 0), "{name}");
    }
}

#[test]
fn finding_12_a_directory_within_itself_ends_a_walk() {
    for is_volume in [true, false] {
        let tree = FaultyTree { is_volume, below: |_| vec![("again", entry(Kind::Directory, 1))] };
        assert!(steps(&tree).expect_err("endless").to_string().contains("more than once"));
        assert!(crate::files::remove_all(&tree, Path::new("/")).is_err());
    }
}

#[test]
fn finding_12_many_names_of_one_directory_come_to_an_end() {
    const NAMES: [&str; 20] =
        ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", "t"];
    // Two names of each directory double the walk with each level; a folder may be mounted twice.
    let below = |depth: usize| match depth {
        0..40 => ["a", "b"].map(|name| (name, entry(Kind::Directory, depth as u64 + 2))).to_vec(),
        _ => Vec::new(),
    };
    assert!(steps(&FaultyTree { is_volume: true, below }).expect_err("endless").to_string().contains("more than once"));
    let below = |depth: usize| match depth {
        0 => NAMES.map(|name| (name, entry(Kind::Directory, 2))).to_vec(),
        _ => Vec::new(),
    };
    assert_eq!(steps(&FaultyTree { is_volume: false, below }).expect("no loop"), 42);
}

#[test]
fn finding_12_no_depth_overflows_the_stack() {
    const DEPTH: usize = 2000;
    let walk = || {
        let below = |depth: usize| match depth {
            0..DEPTH => vec![("d", entry(Kind::Directory, depth as u64 + 2))],
            _ => Vec::new(),
        };
        steps(&FaultyTree { is_volume: true, below }).expect("it ends")
    };
    let walking = std::thread::Builder::new().stack_size(64 << 10).spawn(walk).expect("a thread");
    assert_eq!(walking.join().expect("no overflow"), 2 * (DEPTH + 1));
}
