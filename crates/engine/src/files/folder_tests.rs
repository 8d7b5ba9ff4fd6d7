use super::*;
use crate::files::{Copying, copy, copy_bytes};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn tree(folder: &TempDir) -> FolderTree {
    FolderTree::of_folder(folder.path().to_owned()).expect("opened")
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("there").mode() & 0o7777
}

#[test]
fn finding_11_special_bits_are_copied_only_if_asked() {
    let (from, to) = (folder(), folder());
    for (name, mode) in [("setuid", 0o4755), ("setgid", 0o2755), ("private", 0o600)] {
        fs::write(from.path().join(name), name).expect("written");
        fs::set_permissions(from.path().join(name), Permissions::from_mode(mode)).expect("set");
    }
    fs::create_dir(from.path().join("shared")).expect("made");
    fs::set_permissions(from.path().join("shared"), Permissions::from_mode(0o3777)).expect("set");
    let copied = |target: &str, preserve| {
        let how = Copying { preserve, progress: &() };
        copy(&tree(&from), Path::new("/"), &tree(&to), &Path::new("/").join(target), how).expect("copied");
        ["setuid", "setgid", "private", "shared"].map(|name| mode(&to.path().join(target).join(name)))
    };
    assert_eq!(copied("plain", false), [0o755, 0o755, 0o600, 0o777]);
    assert_eq!(copied("whole", true), [0o4755, 0o2755, 0o600, 0o3777]);
}

/// Looks, before each piece, and fails after two.
struct Watched<'t> {
    look: &'t dyn Fn(),
    pieces: u32,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        (self.look)();
        self.pieces += 1;
        if self.pieces > 2 {
            return Err(std::io::Error::other("the source broke"));
        }
        buffer[..3].copy_from_slice(b"new");
        Ok(3)
    }
}

#[test]
fn finding_11_a_file_has_its_name_when_it_is_whole_and_is_private_before() {
    let to = folder();
    fs::write(to.path().join("there"), "old").expect("written");
    fs::set_permissions(to.path().join("there"), Permissions::from_mode(0o644)).expect("set");
    for (name, old) in [("fresh", None), ("there", Some("old"))] {
        let look = || {
            assert_eq!(fs::read_to_string(to.path().join(name)).ok().as_deref(), old);
            let unfinished = fs::read_dir(to.path()).expect("listed").filter_map(|entry| {
                let path = entry.expect("an entry").path();
                path.to_string_lossy().contains("unfinished").then_some(path)
            });
            assert_eq!(unfinished.map(|path| mode(&path)).collect::<Vec<_>>(), [0o600]);
        };
        let mut source = Watched { look: &look, pieces: 0 };
        let target = Path::new("/").join(name);
        copy_bytes(&mut source, &tree(&to), &target, &()).expect_err("it broke");
        assert_eq!(fs::read_to_string(to.path().join(name)).ok().as_deref(), old);
    }
    assert_eq!(fs::read_dir(to.path()).expect("listed").count(), 1, "nothing unfinished stays");
    copy_bytes(&mut &b"new"[..], &tree(&to), Path::new("/there"), &()).expect("copied");
    assert_eq!(
        (fs::read_to_string(to.path().join("there")).expect("read"), mode(&to.path().join("there"))),
        ("new".into(), 0o644)
    );
}

#[test]
fn finding_12_nothing_is_reached_through_a_link() {
    let (inside, outside) = (folder(), folder());
    fs::write(outside.path().join("secret"), "s").expect("written");
    symlink(outside.path(), inside.path().join("out")).expect("linked");
    symlink(outside.path().join("secret"), inside.path().join("file")).expect("linked");
    let tree = tree(&inside);
    assert!(tree.make_file(Path::new("/out/new")).is_err());
    assert!(tree.make_directory(Path::new("/out/new")).is_err());
    assert!(tree.make_link(Path::new("/out/new"), Path::new("x")).is_err());
    assert!(tree.make_file(Path::new("/../new")).is_err());
    assert!(tree.read(Path::new("/file")).is_err() && tree.read(Path::new("/out/secret")).is_err());
    assert!(tree.list(Path::new("/out")).is_err());
    assert!(tree.remove(Path::new("/out/secret"), Kind::File).is_err());
    let attributes =
        Attributes { kind: Kind::File, mode: 0o777, owner: None, modified: Timestamp { seconds: 0, nanoseconds: 0 } };
    assert!(tree.set(Path::new("/file"), &attributes).is_err(), "what is there is a link, not a file");
    assert_eq!(tree.entry(Path::new("/file")).expect("asked").expect("there").kind, Kind::Symlink);
    assert_eq!(tree.read_link(Path::new("/file")).expect("read"), outside.path().join("secret"));
    tree.set(Path::new("/file"), &Attributes { kind: Kind::Symlink, ..attributes }).expect("of the link itself");
    assert_ne!(mode(&outside.path().join("secret")), 0o777);
    assert_ne!(fs::metadata(outside.path().join("secret")).expect("there").mtime(), 0);
    assert_eq!(fs::read_dir(outside.path()).expect("listed").count(), 1);
}

#[test]
fn a_directory_is_not_copied_into_itself() {
    let folder = folder();
    fs::create_dir_all(folder.path().join("a/b")).expect("made");
    let (tree, how) = (tree(&folder), Copying { preserve: false, progress: &() });
    // What is there when the copy begins is copied, once.
    copy(&tree, Path::new("/a"), &tree, Path::new("/a/new"), how).expect("copied");
    assert!(folder.path().join("a/new/b").is_dir() && !folder.path().join("a/new/new").exists());
    for target in ["/a", "/a/b"] {
        let refused = copy(&tree, Path::new("/a"), &tree, Path::new(target), how).expect_err(target).to_string();
        assert!(refused.contains("into itself"), "{refused}");
    }
}
