//! Making sure that the folder at the path is this node, before and after anything is believed of it.
//!
//! A folder goes away in many ways: removed, unmounted, swapped for another disk's, emptied. All of them change or hide
//! the identity file, so each call begins with one `stat` of it by path. Only when that differs from last time is the
//! file read again. *Unknown is not absent*: nothing here ever answers `NotFound`, and a folder that is empty or gone is
//! `Wiped` only if this process had the node open when its identity file was deleted, and the disk it was on is still there:
//! else it may be unmounted, or moved. So is one in which a deletion left shards, which it does where others are stored meanwhile.
//!
//! Two folders that were swapped are found by who they are: where the path has another node, or none, the paths of the volume's other
//! nodes are looked at.

use super::files::{self, Owner, open_beneath};
use super::layout::{IDENTITY_FILE, TEMPORARY_PREFIX, is_subfolder};
use crate::error::{NodeError, NodeErrorKind};
use crate::node::NodeIdentity;
use crate::system::medium::Medium;
use crate::system::shard_files::ShardFiles;
use crate::system::{self, read_at};
use parking_lot::{Mutex, RwLock};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::collections::BTreeSet;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_format::identity::MAX_IDENTITY_BYTES;
use weft_format::{NodeId, VolumeId};

/// A node's folder, by path; attached while it is there.
pub(super) struct Place {
    path: PathBuf,
    identity_path: PathBuf,
    name: String,
    expected: NodeIdentity,
    root: RwLock<Option<Arc<Root>>>,
    /// The folder when it was found without an identity file, be it under another name.
    emptied: Mutex<Option<Emptied>>,
    neighbours: Arc<Neighbours>,
    /// When the neighbours were looked at last.
    sought: Mutex<Option<Instant>>,
}

/// A folder that lost its identity file.
#[derive(Clone, Copy, Debug)]
struct Emptied {
    device: u64,
    inode: u64,
}

/// The neighbours are not looked at again for so long.
const SEEK_EVERY: Duration = Duration::from_secs(1);

/// Folders of this machine where nodes of one volume are, or were: a node that is not at its own path may be at another's.
#[derive(Debug, Default)]
pub struct Neighbours(Mutex<BTreeSet<PathBuf>>);

impl Neighbours {
    /// From now on a node that is not where it should be is looked for here, too.
    pub fn add(&self, folder: &Path) {
        self.0.lock().insert(folder.to_owned());
    }

    /// Where this node is, but for `besides`.
    fn find(&self, expected: NodeIdentity, besides: &Path) -> Option<PathBuf> {
        let folders = self.0.lock().clone();
        folders.into_iter().find(|folder| folder != besides && probe(folder).is_ok_and(|found| found == Some(expected)))
    }
}

/// The folder, open and known to be this node.
pub(super) struct Root {
    identity_path: PathBuf,
    pub(super) dir: OwnedFd,
    pub(super) medium: Medium,
    pub(super) shard_files: ShardFiles,
    /// Whose node it is: user and group of its identity file.
    pub(super) owner: Owner,
    stamp: Stamp,
}

/// What tells one state of the identity file from another; the change time catches an inode number used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: i64,
    changed: (i64, u64),
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            device: stat.st_dev,
            inode: stat.st_ino,
            size: stat.st_size,
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }
}

impl Place {
    pub(super) fn new(path: &Path, name: &str, expected: NodeIdentity, neighbours: Arc<Neighbours>) -> Self {
        let identity_path = path.join(IDENTITY_FILE);
        let path = path.to_owned();
        Self {
            path,
            identity_path,
            name: name.to_owned(),
            expected,
            root: RwLock::new(None),
            emptied: Mutex::new(None),
            neighbours,
            sought: Mutex::new(None),
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where the bytes are, if the folder was there when last asked.
    pub(super) fn medium(&self) -> Option<Medium> {
        self.root.read().as_ref().map(|root| root.medium)
    }

    /// The folder, made sure of just now.
    pub(super) fn attached(&self) -> Result<Arc<Root>, NodeError> {
        // The lock is not held while a file system hangs.
        let known = self.root.read().clone();
        if let Some(root) = &known
            && let Ok(stat) = rustix::fs::statat(CWD, &root.identity_path, AtFlags::SYMLINK_NOFOLLOW)
            && root.stamp == Stamp::of(&stat)
        {
            return Ok(Arc::clone(root));
        }
        drop(known);
        // Lets go of the descriptors too, so that the disk can be unmounted.
        let left = self.root.write().take();
        if let Some(root) = left {
            *self.emptied.lock() = root.emptied();
        }
        let attached = self.attach(&self.path).or_else(|error| self.attach_elsewhere(error));
        if let Ok(root) = &attached {
            *self.root.write() = Some(Arc::clone(root));
            *self.emptied.lock() = None;
        }
        attached
    }

    /// The folder under the path of another node, where this one has none or another's; or the same error.
    fn attach_elsewhere(&self, error: NodeError) -> Result<Arc<Root>, NodeError> {
        if !matches!(error.kind, NodeErrorKind::WrongNode | NodeErrorKind::Unavailable) {
            return Err(error);
        }
        let now = Instant::now();
        let before = self.sought.lock().replace(now);
        if before.is_some_and(|before| now.duration_since(before) < SEEK_EVERY) {
            *self.sought.lock() = before;
            return Err(error);
        }
        match self.neighbours.find(self.expected, &self.path) {
            Some(folder) => {
                let attached = self.attach(&folder).map_err(|_| error)?;
                *self.sought.lock() = None;
                let (node, path) = (&self.name, self.path.display());
                tracing::warn!("node {node} is not at {path} but at {}, and is used there", folder.display());
                Ok(attached)
            }
            None => Err(error),
        }
    }

    fn attach(&self, path: &Path) -> Result<Arc<Root>, NodeError> {
        let dir = open_folder(path).map_err(|errno| self.away(errno))?;
        let (found, stamp, owner) = self.read_identity(&dir)?;
        if found != self.expected {
            return Err(self.error(NodeErrorKind::WrongNode, self.not_this_node(found)));
        }
        let medium = Medium::of(&dir).map_err(|errno| self.failure(errno, "opening it"))?;
        let identity_path = path.join(IDENTITY_FILE);
        Ok(Arc::new(Root { identity_path, dir, medium, shard_files: ShardFiles::default(), owner, stamp }))
    }

    fn not_this_node(&self, found: NodeIdentity) -> String {
        let (path, expected) = (self.path.display(), self.expected);
        let mend = "put the right disk or folder there";
        if found.volume == expected.volume {
            format!("{path} is node {} of the same volume, not {}: {mend}", found.node, expected.node)
        } else {
            format!("{path} is a node of volume {}, not of {}: {mend}", found.volume, expected.volume)
        }
    }

    /// Who the folder says it is, read afresh.
    pub(super) fn identity(&self) -> Result<NodeIdentity, NodeError> {
        let root = self.attached()?;
        Ok(self.read_identity(&root.dir)?.0)
    }

    fn read_identity(&self, dir: &OwnedFd) -> Result<(NodeIdentity, Stamp, Owner), NodeError> {
        let read = || {
            let file = open_beneath(dir, IDENTITY_FILE, OFlags::RDONLY | OFlags::NONBLOCK, ResolveFlags::empty())?;
            let stat = rustix::fs::fstat(&file)?;
            let (stamp, owner) = (Stamp::of(&stat), (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid)));
            // One byte more than it may have, so that a longer one is refused and not cut.
            let bytes = read_at(&file, 0, MAX_IDENTITY_BYTES + 1)?;
            rustix::io::Result::Ok((bytes, stamp, owner))
        };
        let (bytes, stamp, owner) = read().map_err(|errno| self.away(errno))?;
        let identity = NodeIdentity::decode(&bytes).map_err(|error| {
            self.error(NodeErrorKind::WrongNode, format!("{}: {error}", self.identity_path.display()))
        })?;
        Ok((identity, stamp, owner))
    }

    /// What it means that the folder or its identity file cannot be opened.
    fn away(&self, errno: Errno) -> NodeError {
        if !matches!(errno, Errno::NOENT | Errno::NOTDIR | Errno::LOOP) {
            return self.failure(errno, "opening it");
        }
        let path = self.path.display();
        let detail = match self.remains() {
            Some(Remains::Nothing) => {
                let detail = format!("{path} was deleted or emptied: make a new node of it (weft node replace)");
                return self.error(NodeErrorKind::Wiped, detail);
            }
            Some(Remains::Shards) => {
                let detail =
                    format!("{path} was deleted but for some shards: put {IDENTITY_FILE} back, and run `weft repair`");
                return self.error(NodeErrorKind::Wiped, detail);
            }
            Some(Remains::Others) => {
                format!(
                    "{path} was deleted in part: put {IDENTITY_FILE} back, or delete the rest for a new node in its place"
                )
            }
            None if self.path.is_dir() => {
                format!("{path} is there, but without {IDENTITY_FILE}: mount the disk that belongs there")
            }
            None => format!("{path} is not there: attach or mount its disk"),
        };
        self.error(NodeErrorKind::Unavailable, detail)
    }

    /// What is left where the folder was, when its identity file was deleted? `None`: it was not, or the device is not there that the
    /// folder was on; a disk that is unmounted shows another.
    fn remains(&self) -> Option<Remains> {
        let emptied = (*self.emptied.lock())?;
        let (there, stat) = self.path.ancestors().find_map(|path| Some((path, rustix::fs::stat(path).ok()?)))?;
        if stat.st_dev != emptied.device {
            return None;
        }
        if there != self.path {
            return Some(Remains::Nothing);
        }
        let names = open_folder(there).and_then(|dir| files::names(&dir));
        Some(match names {
            Ok(names) if foreign(&names).is_none() => Remains::Nothing,
            Ok(names) if stat.st_ino == emptied.inode && names.iter().all(is_of_a_node) => Remains::Shards,
            Ok(_) | Err(_) => Remains::Others,
        })
    }

    /// What it means that something within the folder is missing: that it is absent, only if the folder is still `root`.
    pub(super) fn absent(&self, root: &Arc<Root>, what: String) -> NodeError {
        match self.attached() {
            Ok(now) if Arc::ptr_eq(&now, root) => self.error(NodeErrorKind::NotFound, what),
            Ok(_) => {
                let detail = format!("{} was swapped during the call: try again", self.path.display());
                self.error(NodeErrorKind::Unavailable, detail)
            }
            Err(error) => error,
        }
    }

    /// What it means that `root` has no directory entry any more.
    pub(super) fn absent_folder(&self, root: &Arc<Root>) -> NodeError {
        let error = self.absent(root, String::new());
        if error.kind != NodeErrorKind::NotFound {
            return error;
        }
        let detail = format!("{} changes while it is used: see what else writes there", self.path.display());
        self.error(NodeErrorKind::Unavailable, detail)
    }

    pub(super) fn error(&self, kind: NodeErrorKind, detail: impl Into<String>) -> NodeError {
        NodeError::new(kind, &self.name, detail)
    }

    /// What a system call's failure means, for all but missing files.
    pub(super) fn failure(&self, errno: Errno, doing: &str) -> NodeError {
        system::failure(&self.name, &self.path, errno, doing)
    }
}

/// What a deletion left of a folder.
enum Remains {
    /// Nothing, perhaps not even the folder.
    Nothing,
    /// The folder, and in it nothing but subfolders of shards.
    Shards,
    /// Other things, or another folder.
    Others,
}

impl Root {
    /// The folder, if its identity file was deleted.
    fn emptied(&self) -> Option<Emptied> {
        let here = rustix::fs::statat(&self.dir, IDENTITY_FILE, AtFlags::SYMLINK_NOFOLLOW);
        let folder = rustix::fs::fstat(&self.dir).ok()?;
        let is_gone = here.err() == Some(Errno::NOENT);
        is_gone.then_some(Emptied { device: folder.st_dev, inode: folder.st_ino })
    }
}

/// Which node the folder is; `None` if it is there and is none.
pub(super) fn probe(path: &Path) -> Result<Option<NodeIdentity>, NodeError> {
    // Whoever it is: what is expected is not looked at.
    let nobody = NodeIdentity { volume: VolumeId(0), node: NodeId(0) };
    let place = Place::new(path, &path.to_string_lossy(), nobody, Arc::default());
    let dir = open_folder(path).map_err(|errno| place.away(errno))?;
    identity_in(&place, &dir)
}

/// Makes the folder into the node, if nothing is in it.
pub(super) fn create(place: &Place) -> Result<(), NodeError> {
    let path = place.path.display();
    refuse_nested(place)?;
    match rustix::fs::mkdir(&place.path, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(Errno::NOENT) => {
            let detail = format!("the folder that {path} would lie in does not exist: make it, or mount its disk");
            return Err(place.error(NodeErrorKind::Unavailable, detail));
        }
        Err(errno) => return Err(place.failure(errno, "making the folder")),
    }
    let dir = open_folder(&place.path).map_err(|errno| match errno {
        Errno::NOTDIR => place.error(
            NodeErrorKind::Exists,
            format!("{path} is no folder: give one, or block://{path} for a device or image file"),
        ),
        errno => place.failure(errno, "opening it"),
    })?;
    if let Some(found) = identity_in(place, &dir)? {
        return Err(already_a_node(place, found));
    }
    let names = files::names(&dir).map_err(|errno| place.failure(errno, "listing it"))?;
    if let Some(name) = foreign(&names) {
        let detail = format!("{path} is not empty (it has `{}`): give an empty folder", name.to_string_lossy());
        return Err(place.error(NodeErrorKind::Exists, detail));
    }
    let text = bytes::Bytes::from(place.expected.encode());
    let written = files::write_new(&dir, IDENTITY_FILE, &[text], None);
    // Somebody else was faster.
    if written == Err(Errno::EXIST)
        && let Some(found) = identity_in(place, &dir)?
    {
        return Err(already_a_node(place, found));
    }
    written.map_err(|errno| place.failure(errno, "writing its identity file"))?;
    // The folder's own name must survive a power cut too.
    let parent = open_folder(&place.path.join(".."));
    parent.and_then(rustix::fs::fsync).map_err(|errno| place.failure(errno, "making the folder durable"))
}

/// Gives a folder in which nothing but shards is left its identity file back. False: there is no such folder.
pub(super) fn put_back(place: &Place) -> Result<bool, NodeError> {
    let Ok(dir) = open_folder(&place.path) else { return Ok(false) };
    let names = files::names(&dir).map_err(|errno| place.failure(errno, "listing it"))?;
    if foreign(&names).is_none() || !names.iter().all(is_of_a_node) {
        return Ok(false);
    }
    let text = bytes::Bytes::from(place.expected.encode());
    // Whoever owns the folder owns what is in it.
    let folder = rustix::fs::fstat(&dir).map_err(|errno| place.failure(errno, "looking at it"))?;
    let owner = (Uid::from_raw(folder.st_uid), Gid::from_raw(folder.st_gid));
    match files::write_new(&dir, IDENTITY_FILE, &[text], Some(owner)) {
        Ok(()) => Ok(true),
        Err(errno) => Err(place.failure(errno, "writing its identity file")),
    }
}

/// Is this the name of something that nodes keep in their folders, but for the identity file?
fn is_of_a_node(name: &CString) -> bool {
    let name = name.to_string_lossy();
    name == "lost+found" || name.starts_with(TEMPORARY_PREFIX) || is_subfolder(&name)
}

/// The first of the names that keeps a folder from being empty.
fn foreign(names: &[CString]) -> Option<&CString> {
    // What mkfs leaves at the root of a fresh disk.
    names.iter().find(|name| name.to_bytes() != b"lost+found")
}

fn open_folder(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn identity_in(place: &Place, dir: &OwnedFd) -> Result<Option<NodeIdentity>, NodeError> {
    match rustix::fs::statat(dir, IDENTITY_FILE, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(place.failure(errno, "looking for an identity file")),
        Ok(_) => place.read_identity(dir).map(|(identity, ..)| Some(identity)),
    }
}

fn already_a_node(place: &Place, found: NodeIdentity) -> NodeError {
    let path = place.path.display();
    if found.volume == place.expected.volume {
        let detail = format!("{path} is node {} of this volume already: give another folder", found.node);
        place.error(NodeErrorKind::Exists, detail)
    } else {
        let detail = format!("{path} is a node of volume {}: give another folder", found.volume);
        place.error(NodeErrorKind::WrongNode, detail)
    }
}

/// A node inside a node would be lost with it, and the outer one would take the inner one's shards for foreign files.
fn refuse_nested(place: &Place) -> Result<(), NodeError> {
    let absolute = std::path::absolute(&place.path).unwrap_or_else(|_| place.path.clone());
    match absolute.ancestors().skip(1).find(|above| above.join(IDENTITY_FILE).exists()) {
        None => Ok(()),
        Some(above) => {
            let (path, above) = (place.path.display(), above.display());
            let detail = format!("{path} lies inside {above}, which is a node: give a folder outside of it");
            Err(place.error(NodeErrorKind::Exists, detail))
        }
    }
}
