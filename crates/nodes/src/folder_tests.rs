//! What befalls folders: run as root on Linux, since disks are really mounted.

use super::*;
use crate::conformance::{key, shard};
use crate::error::NodeErrorKind;
use rustix::mount::{MountFlags, UnmountFlags};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;
use weft_format::{NodeId, VolumeId};

const IDENTITY: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const SIBLING: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(3) };
const STRANGER: NodeIdentity = NodeIdentity { volume: VolumeId(9), node: NodeId(2) };

/// A tmpfs of a given size, mounted for one test.
struct Disk {
    path: PathBuf,
    _folder: TempDir,
}

impl Disk {
    fn mount(bytes: u64) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("disk");
        fs::create_dir(&path).unwrap();
        let size = std::ffi::CString::new(format!("size={bytes}")).unwrap();
        let mounted = rustix::mount::mount("weft", &path, "tmpfs", MountFlags::empty(), Some(size.as_c_str()));
        mounted.expect("these tests mount file systems: run them as root");
        Self { path, _folder: folder }
    }

    fn remount(&self, flags: MountFlags) {
        rustix::mount::mount_remount(&self.path, flags, "").unwrap();
    }

    fn unmount(&self) {
        rustix::mount::unmount(&self.path, UnmountFlags::empty()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.path, UnmountFlags::DETACH);
    }
}

fn folder() -> (TempDir, PathBuf, FolderNode) {
    let temporary = TempDir::new().unwrap();
    let path = temporary.path().join("node");
    let node = FolderNode::create(&path, "node", IDENTITY).unwrap();
    (temporary, path, node)
}

fn file_of(path: &Path, key: ShardKey) -> PathBuf {
    path.join(layout::subfolder(key)).join(key.to_string())
}

fn bytes_of(key: ShardKey, data_bytes: u64) -> Bytes {
    shard(IDENTITY.volume, key, data_bytes, u64::from(key.index.0))
}

async fn put(node: &FolderNode, key: ShardKey) -> Bytes {
    let bytes = bytes_of(key, 10_000);
    node.put(key, std::slice::from_ref(&bytes)).await.unwrap();
    bytes
}

async fn get(node: &FolderNode, key: ShardKey) -> Result<Bytes, NodeError> {
    node.get(key, 0..100_000).await
}

fn kind<T: std::fmt::Debug>(result: Result<T, NodeError>) -> NodeErrorKind {
    result.unwrap_err().kind
}

/// Every method, and what it said. The key is of a shard that the node had.
async fn ask_everything(node: &FolderNode, key: ShardKey) -> Vec<Result<(), NodeError>> {
    vec![
        node.put(key, &[bytes_of(key, 10)]).await,
        node.get(key, 0..10).await.map(|_| ()),
        node.stat(key).await.map(|_| ()),
        node.list(None, 10).await.map(|_| ()),
        node.remove(key).await,
        node.space().await.map(|_| ()),
        node.identity().await.map(|_| ()),
    ]
}

async fn expect_everywhere(node: &FolderNode, expected: NodeErrorKind) {
    for result in ask_everything(node, key(1, 0)).await {
        let error = result.unwrap_err();
        assert_eq!(error.kind, expected, "{error}");
    }
}

#[test]
fn create_refuses_places_in_use() {
    let temporary = TempDir::new().unwrap();
    let path = temporary.path().join("node");
    let create = |path: &Path, identity| FolderNode::create(path, "node", identity).map(|_| ()).unwrap_err();
    FolderNode::create(&path, "node", IDENTITY).unwrap();
    let cases = [
        (path.clone(), IDENTITY, NodeErrorKind::Exists, "of this volume already"),
        (path.clone(), SIBLING, NodeErrorKind::Exists, "of this volume already"),
        (path.clone(), STRANGER, NodeErrorKind::WrongNode, "is a node of volume 0"),
        (path.join("inner"), SIBLING, NodeErrorKind::Exists, "lies inside"),
        (temporary.path().to_owned(), SIBLING, NodeErrorKind::Exists, "is not empty (it has `node`)"),
        (path.join(IDENTITY_FILE), SIBLING, NodeErrorKind::Exists, "lies inside"),
        (temporary.path().join("no/parent"), SIBLING, NodeErrorKind::Unavailable, "does not exist"),
    ];
    for (path, identity, kind, says) in cases {
        let error = create(&path, identity);
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.detail.contains(says), "{error}");
    }
    let file = temporary.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(create(&file, SIBLING).detail.contains("is no folder"));
    let link = temporary.path().join("link");
    symlink(&path, &link).unwrap();
    assert!(create(&link, SIBLING).detail.contains("of this volume already"), "the same folder by another name");
}

#[test]
fn create_takes_a_fresh_disk() {
    let disk = Disk::mount(1 << 20);
    fs::create_dir(disk.path.join("lost+found")).unwrap();
    FolderNode::create(&disk.path, "node", IDENTITY).unwrap();
}

#[tokio::test]
async fn a_folder_that_vanishes_is_unavailable_until_it_is_back() {
    let (temporary, path, node) = folder();
    let bytes = put(&node, key(1, 0)).await;
    let elsewhere = temporary.path().join("elsewhere");
    fs::rename(&path, &elsewhere).unwrap();
    expect_everywhere(&node, NodeErrorKind::Unavailable).await;
    fs::create_dir(&path).unwrap();
    expect_everywhere(&node, NodeErrorKind::Unavailable).await;
    fs::remove_dir(&path).unwrap();
    fs::write(&path, "a file").unwrap();
    expect_everywhere(&node, NodeErrorKind::Unavailable).await;
    fs::remove_file(&path).unwrap();
    fs::rename(&elsewhere, &path).unwrap();
    assert_eq!(get(&node, key(1, 0)).await.unwrap(), bytes);
}

#[tokio::test]
async fn a_folder_that_is_deleted_is_wiped_for_who_had_it_open() {
    for delete_the_folder_itself in [true, false] {
        let (_temporary, path, node) = folder();
        put(&node, key(1, 0)).await;
        get(&node, key(1, 0)).await.unwrap();
        fs::remove_dir_all(&path).unwrap();
        if !delete_the_folder_itself {
            fs::create_dir(&path).unwrap();
        }
        expect_everywhere(&node, NodeErrorKind::Wiped).await;
        // Who had not cannot know that no disk is missing.
        let stranger = FolderNode::open(&path, "node", IDENTITY);
        expect_everywhere(&stranger, NodeErrorKind::Unavailable).await;
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("a file"), "of somebody").unwrap();
        expect_everywhere(&node, NodeErrorKind::Unavailable).await;
        assert!(node.space().await.unwrap_err().detail.contains("deleted in part"));
        fs::remove_dir_all(&path).unwrap();
        FolderNode::create(&path, "node", SIBLING).unwrap();
        expect_everywhere(&node, NodeErrorKind::WrongNode).await;
    }
}

#[tokio::test]
async fn finding_30_a_folder_deleted_but_for_some_shards_is_wiped_and_taken_up_again() {
    let (_temporary, path, node) = folder();
    let kept = put(&node, key(1, 0)).await;
    put(&node, key(2, 0)).await;
    // As `rm -rf` leaves it when shards are stored meanwhile: the identity file is gone, and it could not remove the folder.
    fs::remove_file(file_of(&path, key(2, 0))).unwrap();
    fs::remove_file(path.join(IDENTITY_FILE)).unwrap();
    expect_everywhere(&node, NodeErrorKind::Wiped).await;
    let stranger = FolderNode::open(&path, "node", IDENTITY);
    expect_everywhere(&stranger, NodeErrorKind::Unavailable).await;
    assert!(FolderNode::put_back(&path, "node", IDENTITY).unwrap());
    assert_eq!(get(&node, key(1, 0)).await.unwrap(), kept);
    assert_eq!(get(&node, key(2, 0)).await.unwrap_err().kind, NodeErrorKind::NotFound);
    // Other things in it, or another folder, are somebody else's to explain.
    for is_another in [false, true] {
        fs::remove_file(path.join(IDENTITY_FILE)).unwrap();
        expect_everywhere(&node, NodeErrorKind::Wiped).await;
        let aside = path.with_extension("aside");
        if is_another {
            fs::rename(&path, &aside).unwrap();
            fs::create_dir_all(path.join("0a")).unwrap();
        } else {
            fs::write(path.join("a file"), "of somebody").unwrap();
            assert!(!FolderNode::put_back(&path, "node", IDENTITY).unwrap());
        }
        expect_everywhere(&node, NodeErrorKind::Unavailable).await;
        if is_another {
            fs::remove_dir_all(&path).unwrap();
            fs::rename(&aside, &path).unwrap();
        } else {
            fs::remove_file(path.join("a file")).unwrap();
        }
        fs::write(path.join(IDENTITY_FILE), IDENTITY.encode()).unwrap();
        assert_eq!(get(&node, key(1, 0)).await.unwrap(), kept);
    }
    // An empty folder is for a new node.
    fs::remove_dir_all(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(!FolderNode::put_back(&path, "node", IDENTITY).unwrap());
}

#[tokio::test]
async fn finding_30_two_folders_that_were_swapped_are_found() {
    let (temporary, path, _) = folder();
    let other_path = temporary.path().join("other");
    FolderNode::create(&other_path, "other", SIBLING).unwrap();
    let neighbours = Arc::new(Neighbours::default());
    [&path, &other_path].iter().for_each(|folder| neighbours.add(folder));
    let node = FolderNode::open_among(&path, "node", IDENTITY, neighbours.clone());
    let other = FolderNode::open_among(&other_path, "other", SIBLING, neighbours);
    let (one, two) = (put(&node, key(1, 0)).await, put(&other, key(2, 0)).await);
    let aside = temporary.path().join("aside");
    fs::rename(&path, &aside).unwrap();
    fs::rename(&other_path, &path).unwrap();
    fs::rename(&aside, &other_path).unwrap();
    for (node, key, bytes, identity) in [(&node, key(1, 0), &one, IDENTITY), (&other, key(2, 0), &two, SIBLING)] {
        assert_eq!(get(node, key).await.unwrap(), *bytes);
        assert_eq!(node.identity().await.unwrap(), identity);
    }
    put(&node, key(3, 0)).await;
    assert!(file_of(&other_path, key(3, 0)).exists(), "it is written where the node is");
    // And back.
    fs::rename(&path, &aside).unwrap();
    fs::rename(&other_path, &path).unwrap();
    fs::rename(&aside, &other_path).unwrap();
    assert_eq!(get(&node, key(1, 0)).await.unwrap(), one);
    assert_eq!(get(&other, key(2, 0)).await.unwrap(), two);
}

#[tokio::test]
async fn a_node_may_be_opened_before_its_folder_is_there() {
    let temporary = TempDir::new().unwrap();
    let path = temporary.path().join("node");
    let node = FolderNode::open(&path, "node", IDENTITY);
    expect_everywhere(&node, NodeErrorKind::Unavailable).await;
    FolderNode::create(&path, "node", IDENTITY).unwrap();
    put(&node, key(1, 0)).await;
}

#[tokio::test]
async fn another_nodes_folder_is_the_wrong_node() {
    for other in [SIBLING, STRANGER] {
        let (temporary, path, node) = folder();
        let bytes = put(&node, key(1, 0)).await;
        let (mine, others) = (temporary.path().join("mine"), temporary.path().join("others"));
        FolderNode::create(&others, "other", other).unwrap();
        fs::rename(&path, &mine).unwrap();
        fs::rename(&others, &path).unwrap();
        expect_everywhere(&node, NodeErrorKind::WrongNode).await;
        fs::rename(&path, &others).unwrap();
        fs::rename(&mine, &path).unwrap();
        assert_eq!(get(&node, key(1, 0)).await.unwrap(), bytes);
    }
}

#[tokio::test]
async fn two_nodes_do_not_share_a_folder() {
    let (_temporary, path, _node) = folder();
    let second = FolderNode::open(&path, "second", SIBLING);
    expect_everywhere(&second, NodeErrorKind::WrongNode).await;
}

#[tokio::test]
async fn an_identity_file_that_cannot_be_is_the_wrong_node() {
    let (_temporary, path, node) = folder();
    put(&node, key(1, 0)).await;
    for content in ["", "{}", "not json", &IDENTITY.encode().replace(": 1,", ": 2,"), &"x".repeat(10_000)] {
        fs::write(path.join(IDENTITY_FILE), content).unwrap();
        expect_everywhere(&node, NodeErrorKind::WrongNode).await;
    }
    fs::write(path.join(IDENTITY_FILE), IDENTITY.encode()).unwrap();
    get(&node, key(1, 0)).await.unwrap();
}

#[tokio::test]
async fn an_unmounted_disk_is_unavailable() {
    let disk = Disk::mount(1 << 20);
    let path = disk.path.join("node");
    let node = FolderNode::create(&path, "node", IDENTITY).unwrap();
    put(&node, key(1, 0)).await;
    rustix::mount::unmount(&disk.path, UnmountFlags::DETACH).unwrap();
    expect_everywhere(&node, NodeErrorKind::Unavailable).await;
}

#[tokio::test]
async fn a_node_that_is_away_holds_no_disk_busy() {
    let disk = Disk::mount(1 << 20);
    let path = disk.path.join("node");
    let node = FolderNode::create(&path, "node", IDENTITY).unwrap();
    put(&node, key(1, 0)).await;
    put(&node, key(1, 1)).await;
    get(&node, key(1, 0)).await.unwrap();
    assert!(node.list(None, 1).await.unwrap().more);
    fs::remove_file(path.join(IDENTITY_FILE)).unwrap();
    expect_everywhere(&node, NodeErrorKind::Wiped).await;
    disk.unmount();
}

/// Stores shards until the disk is full; how many fitted.
async fn fill(node: &FolderNode, data_bytes: u64) -> u16 {
    for index in 0..u16::MAX {
        let key = key(1, index);
        match node.put(key, &[bytes_of(key, data_bytes)]).await {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.kind, NodeErrorKind::Full, "{error}");
                assert_eq!(kind(node.stat(key).await), NodeErrorKind::NotFound, "nothing is visible of a failed put");
                return index;
            }
        }
    }
    panic!("the disk is never full");
}

#[tokio::test]
async fn a_full_disk_refuses_and_leaves_nothing_behind() {
    let disk = Disk::mount(2 << 20);
    let node = FolderNode::create(&disk.path.join("node"), "node", IDENTITY).unwrap();
    let fitted = fill(&node, 200_000).await;
    assert!(fitted > 5);
    let free_bytes = node.space().await.unwrap().free_bytes;
    for _ in 0..20 {
        let full = key(1, fitted);
        assert_eq!(kind(node.put(full, &[bytes_of(full, 200_000)]).await), NodeErrorKind::Full);
    }
    assert_eq!(node.space().await.unwrap().free_bytes, free_bytes, "failed puts leave no files");
    for index in 0..fitted {
        assert_eq!(node.get(key(1, index), 0..u64::MAX).await.unwrap(), bytes_of(key(1, index), 200_000));
    }
    // To the last byte, so that not even a directory entry has room.
    while fs::OpenOptions::new()
        .append(true)
        .create(true)
        .open(disk.path.join("filler"))
        .is_ok_and(|mut file| std::io::Write::write_all(&mut file, &[0; 512]).is_ok())
    {}
    node.remove(key(1, 0)).await.expect("a full disk can be emptied");
    let again = key(1, 0);
    node.put(again, &[bytes_of(again, 200_000)]).await.expect("and then has room");
}

#[tokio::test]
async fn a_full_disk_without_unnamed_files_is_left_clean_too() {
    let disk = Disk::mount(1 << 20);
    let open = rustix::fs::open(&disk.path, rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty()).unwrap();
    let parts = [Bytes::from(vec![1; 600_000])];
    files::write_named(&open, "first", &parts, None).unwrap();
    assert_eq!(files::write_named(&open, "second", &parts, None), Err(rustix::io::Errno::NOSPC));
    assert_eq!(files::write_named(&open, "first", &[], None), Err(rustix::io::Errno::EXIST));
    let names: Vec<_> = fs::read_dir(&disk.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["first"]);
    assert_eq!(fs::read(disk.path.join("first")).unwrap(), parts[0]);
}

#[tokio::test]
async fn a_read_only_disk_is_denied_and_still_read() {
    let disk = Disk::mount(1 << 20);
    let node = FolderNode::create(&disk.path.join("node"), "node", IDENTITY).unwrap();
    let bytes = put(&node, key(1, 0)).await;
    disk.remount(MountFlags::RDONLY);
    assert_eq!(kind(node.put(key(1, 1), std::slice::from_ref(&bytes)).await), NodeErrorKind::Denied);
    assert_eq!(kind(node.remove(key(1, 0)).await), NodeErrorKind::Denied);
    assert_eq!(get(&node, key(1, 0)).await.unwrap(), bytes);
    disk.remount(MountFlags::empty());
    node.remove(key(1, 0)).await.unwrap();
}

#[tokio::test]
async fn files_changed_behind_the_nodes_back_are_noticed_though_they_are_open() {
    let disk = Disk::mount(4 << 20);
    let (_temporary, on_disk, disk_node) = folder();
    let in_memory = disk.path.join("node");
    let memory_node = FolderNode::create(&in_memory, "node", IDENTITY).unwrap();
    for (path, node) in [(on_disk, disk_node), (in_memory, memory_node)] {
        let (one, two) = (key(1, 1), key(1, 2));
        let bytes = put(&node, one).await;
        let other_bytes = put(&node, two).await;
        let file = file_of(&path, one);
        assert_eq!(get(&node, one).await.unwrap(), bytes);

        fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(1000).unwrap();
        assert_eq!(get(&node, one).await.unwrap(), bytes[..1000], "truncated");
        assert_eq!(node.stat(one).await.unwrap().bytes, 1000);
        fs::write(&file, &bytes).unwrap();
        assert_eq!(get(&node, one).await.unwrap(), bytes, "and whole again");

        let swap = path.join("swap");
        fs::rename(&file, &swap).unwrap();
        fs::rename(file_of(&path, two), &file).unwrap();
        assert_eq!(get(&node, one).await.unwrap(), other_bytes, "swapped");
        assert_eq!(kind(get(&node, two).await), NodeErrorKind::NotFound, "moved away");
        fs::rename(&swap, &file).unwrap();
        assert_eq!(get(&node, one).await.unwrap(), bytes, "moved back over it");

        fs::remove_file(&file).unwrap();
        assert_eq!(kind(get(&node, one).await), NodeErrorKind::NotFound, "removed");
        fs::remove_dir(file.parent().unwrap()).unwrap();
        assert_eq!(kind(get(&node, one).await), NodeErrorKind::NotFound, "removed with its subfolder");
        put(&node, one).await;
    }
}

#[tokio::test]
async fn what_is_no_shard_file_is_not_opened() {
    let (temporary, path, node) = folder();
    let secret = temporary.path().join("secret");
    fs::write(&secret, "secret").unwrap();
    put(&node, key(1, 0)).await;
    let link = file_of(&path, key(1, 1));
    symlink(&secret, &link).unwrap();
    let pipe = file_of(&path, key(1, 2));
    let made = rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    );
    made.unwrap();
    fs::create_dir(file_of(&path, key(1, 3))).unwrap();
    for index in 1..4 {
        assert_eq!(kind(get(&node, key(1, index)).await), NodeErrorKind::Io, "{index}");
        assert_eq!(kind(node.stat(key(1, index)).await), NodeErrorKind::Io, "{index}");
    }
    // A whole subfolder that leads outside.
    fs::create_dir(temporary.path().join("outside")).unwrap();
    let elsewhere =
        (2..).map(|segment| key(segment, 0)).find(|&other| layout::subfolder(other) != layout::subfolder(key(1, 0)));
    let elsewhere = elsewhere.unwrap();
    symlink(temporary.path().join("outside"), path.join(layout::subfolder(elsewhere))).unwrap();
    node.put(elsewhere, &[Bytes::new()]).await.unwrap_err();
    assert_eq!(fs::read_dir(temporary.path().join("outside")).unwrap().count(), 0);
    assert_eq!(fs::read(&secret).unwrap(), b"secret");
}

#[tokio::test]
async fn foreign_files_are_listed_once_and_left_alone() {
    let (_temporary, path, node) = folder();
    put(&node, key(1, 0)).await;
    put(&node, key(2, 0)).await;
    let subfolder = layout::subfolder(key(1, 0));
    let misplaced = (3..).map(|segment| key(segment, 0)).find(|&other| layout::subfolder(other) != subfolder).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    fs::write(path.join("zz"), "mine").unwrap();
    fs::write(path.join(&subfolder).join("photo.jpg"), "mine").unwrap();
    fs::write(path.join(&subfolder).join(misplaced.to_string()), "mine").unwrap();
    let unfinished = path.join(&subfolder).join("unfinished-1-2");
    fs::write(&unfinished, "").unwrap();
    let mut expected = vec![
        "notes.txt".to_owned(),
        "zz".to_owned(),
        format!("{subfolder}/photo.jpg"),
        format!("{subfolder}/{misplaced}"),
    ];
    expected.sort();
    let first = node.list(None, 1).await.unwrap();
    assert_eq!((first.keys.len(), first.more, first.foreign), (1, true, expected));
    let second = node.list(Some(first.keys[0]), 1).await.unwrap();
    assert_eq!((second.keys.len(), second.more, second.foreign.len()), (1, false, 0));
    assert!(path.join("notes.txt").exists() && unfinished.exists());
    let two_days_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 24 * 3600);
    fs::File::options().write(true).open(&unfinished).unwrap().set_modified(two_days_ago).unwrap();
    node.list(None, 1).await.unwrap();
    assert!(!unfinished.exists(), "a put that nobody will finish is cleared away");
}

#[tokio::test]
async fn scans_of_a_part_come_to_the_whole() {
    let (_temporary, _path, node) = folder();
    let mut stored: Vec<_> = (0..50).map(|segment| key(segment, 0)).collect();
    for &key in &stored {
        put(&node, key).await;
    }
    stored.sort_unstable();
    let root = node.inner.place.attached().unwrap();
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let scan = scan::scan_all(&root, after, 7).unwrap();
        assert!(scan.keys.len() <= 7);
        found.extend(scan.keys);
        after = found.last().copied();
        if !scan.more {
            break;
        }
    }
    assert_eq!(found, stored);
}

#[tokio::test]
async fn more_shards_are_read_than_may_be_open() {
    let (_temporary, path, node) = folder();
    for index in 0..400 {
        put(&node, key(1, index)).await;
    }
    for _ in 0..2 {
        for index in 0..400 {
            assert_eq!(get(&node, key(1, index)).await.unwrap(), bytes_of(key(1, index), 10_000));
        }
    }
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let open = open.filter(|entry| {
        let target = fs::read_link(entry.as_ref().unwrap().path()).unwrap_or_default();
        target.starts_with(&path)
    });
    assert!(open.count() <= 264);
}

/// Runs [`child`] in a process of its own whose system calls fail as `inject` says, and gives what it wrote.
fn under_strace(folder: &Path, file: Option<&Path>, inject: &str) -> String {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", inject]);
    if let Some(file) = file {
        strace.arg("-P").arg(file);
    }
    strace.arg(std::env::current_exe().unwrap());
    strace.args(["--exact", "folder::tests::child", "--ignored", "--nocapture"]);
    let output = strace.env("WEFT_TEST_FOLDER", folder).output().expect("these tests need strace: install it");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Not a test: what [`under_strace`] runs. One thread works for all calls: strace counts calls by thread.
#[test]
#[ignore = "run by the tests of failing devices"]
fn child() {
    let Some(path) = std::env::var_os("WEFT_TEST_FOLDER") else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(put_get_and_remove(Path::new(&path)));
}

async fn put_get_and_remove(path: &Path) {
    let node = FolderNode::open(path, "node", IDENTITY);
    let said = |what: &str, result: Result<(), NodeErrorKind>| println!("\n{what}: {result:?}");
    let kind = |error: NodeError| error.kind;
    said("put", node.put(key(1, 1), &[bytes_of(key(1, 1), 10_000)]).await.map_err(kind));
    said("get", node.get(key(1, 0), 0..1000).await.map(|_| ()).map_err(kind));
    said("remove", node.remove(key(1, 0)).await.map_err(kind));
}

fn said(output: &str, what: &str, result: &str) {
    assert!(output.contains(&format!("\n{what}: {result}")), "expected {what}: {result} in:\n{output}");
}

#[tokio::test]
async fn a_device_that_fails_to_sync_has_not_stored() {
    let (_temporary, path, node) = folder();
    put(&node, key(1, 0)).await;
    let output = under_strace(&path, None, "inject=fsync:error=EIO");
    said(&output, "put", "Err(Io)");
    said(&output, "get", "Ok(())");
    said(&output, "remove", "Err(Io)");
    assert_eq!(kind(node.stat(key(1, 1)).await), NodeErrorKind::NotFound);
}

#[tokio::test]
async fn a_folder_that_fails_to_sync_has_not_stored() {
    let (_temporary, path, node) = folder();
    put(&node, key(1, 0)).await;
    // By path: the directory's fsync fails, the file's own does not.
    let subfolder = path.join(layout::subfolder(key(1, 1)));
    let output = under_strace(&path, Some(&subfolder), "inject=fsync:error=EIO");
    said(&output, "put", "Err(Io)");
    assert_eq!(kind(node.stat(key(1, 1)).await), NodeErrorKind::NotFound);
}

#[tokio::test]
async fn a_device_that_fails_to_read_says_so() {
    let (_temporary, path, node) = folder();
    put(&node, key(1, 0)).await;
    let file = file_of(&path, key(1, 0));
    let output = under_strace(&path, Some(&file), "inject=pread64,preadv2:error=EIO");
    said(&output, "put", "Ok(())");
    said(&output, "get", "Err(Io)");
    assert_eq!(node.stat(key(1, 1)).await.unwrap().bytes, bytes_of(key(1, 1), 10_000).len() as u64);
}

#[tokio::test]
async fn without_descriptors_the_node_is_unavailable_and_loses_nothing() {
    let (_temporary, path, node) = folder();
    put(&node, key(1, 0)).await;
    let output = under_strace(&path, None, "inject=openat2:error=EMFILE:when=2+");
    said(&output, "put", "Err(Unavailable)");
    get(&node, key(1, 0)).await.unwrap();
}

#[tokio::test]
async fn finding_18_what_root_stores_in_a_users_node_is_the_users() {
    use std::os::unix::fs::{MetadataExt, chown};
    assert!(rustix::process::geteuid().is_root(), "this test gives files to others: run it as root");
    let owners = |path: &std::path::Path| {
        let metadata = fs::symlink_metadata(path).unwrap();
        (metadata.uid(), metadata.gid())
    };
    for (identity_of, stored_as) in [(Some((1234, 1235)), (1234, 1235)), (None, (0, 0))] {
        let (_temporary, path, node) = folder();
        // A node that a user made, and one that root made in a user's folder: what that holds is not for the user.
        chown(&path, Some(1234), Some(1235)).unwrap();
        if let Some((user, group)) = identity_of {
            chown(path.join(IDENTITY_FILE), Some(user), Some(group)).unwrap();
        }
        let shard_key = key(7, 0);
        let bytes = shard(IDENTITY.volume, shard_key, 1000, 7);
        node.put(shard_key, std::slice::from_ref(&bytes)).await.unwrap();
        let subfolder = path.join(format!("{:02x}", shard_key.segment.0 as u8));
        assert_eq!(owners(&subfolder), stored_as);
        assert_eq!(owners(&subfolder.join(shard_key.to_string())), stored_as);
        assert_eq!(node.get(shard_key, 0..u64::MAX).await.unwrap(), bytes);
    }
}
