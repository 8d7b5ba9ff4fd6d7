//! The kernel's answers and the volume's, on the same tree: random trees with random modes, owners and groups, and random operations by
//! random callers, once through system calls on tmpfs by a thread that is the caller, and once through [`weft_vfs::Checked`]. Errors,
//! answers and the attributes of the whole tree must be the same after each.
//!
//! Needs root, to be other users and to mount a tmpfs in a mount namespace of its own. `WEFT_TREES` makes it longer, `WEFT_SEED` begins
//! at another tree.
//!
//! Of the settings of the machine only `fs.protected_hardlinks` changes what a kernel answers here. Volumes decide as if it were 1; where it
//! is 0, only root links. `fs.protected_symlinks`, `fs.protected_regular` and `fs.protected_fifos` are asked about paths through links and
//! creations that may find a file, which a volume has not.

mod kernel;

use crate::support::World;
use kernel::Local;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use std::collections::BTreeMap;
use weft_format::Ino;
use weft_format::records::{Attributes, Kind, Timestamp};
use weft_meta::{Owner, RenameFlags, XattrMode};
use weft_vfs::{AttributeChange, Caller, Capabilities, Checked, Handle, SetTime, VfsError, Volume, Wanted};

/// Trees, unless `WEFT_TREES` says how many, and operations on each.
const TREES: u64 = 20;
const OPERATIONS: usize = 250;
/// Of them, the first ones are root's, and make most of the tree.
const ROOT_OPERATIONS: usize = 60;
/// Trees of which the difference is shown.
const SHOWN: usize = 12;
/// Times before this many seconds, and after the first, were set by the test.
const SET_TIMES_S: i64 = 1_000;

const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];
const IDS: [u32; 4] = [0, 1001, 1002, 1003];
const MODES: [u16; 18] = [
    0o777, 0o755, 0o700, 0o711, 0o733, 0o744, 0o555, 0o070, 0o007, 0o000, 0o1777, 0o1755, 0o2775, 0o2755, 0o3777,
    0o4755, 0o6775, 0o2644,
];
const CAPABILITY: &str = "security.capability";
const XATTRS: [&str; 9] =
    ["user.a", "user.b", "trusted.a", "security.a", "system.a", "other.a", "user.", CAPABILITY, CAPABILITY];
/// File capabilities in the form that an ordinary process reads and sets: CAP_CHOWN, permitted and effective.
const CAPABILITIES: [u8; 20] = [1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
/// The nodes of this test do not say what room they have, so none can be allocated.
const PUNCH: i32 = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
/// One byte more than a name may have, of a file and of an attribute.
const TOO_LONG_BYTES: usize = 256;

/// What a call asks for, by paths relative to the root of the tree.
#[derive(Clone, Debug)]
pub enum Call {
    Resolve { path: String },
    Stat { path: String },
    Access { path: String, wanted: Wanted },
    Readlink { path: String },
    List { path: String },
    Create { path: String, mode: u16 },
    Make { path: String, kind: Kind, mode: u16, rdev: u32 },
    Symlink { path: String, target: String },
    Link { from: String, to: String },
    Unlink { path: String },
    RemoveDirectory { path: String },
    Rename { from: String, to: String, flags: RenameFlags },
    ChangeMode { path: String, mode: u16 },
    ChangeOwner { path: String, uid: Option<u32>, gid: Option<u32> },
    ChangeTimes { path: String, atime: Option<SetTime>, mtime: Option<SetTime> },
    Cut { path: String, size: u64 },
    Open { path: String, flags: i32, then: Then },
    GetXattr { path: String, name: String },
    SetXattr { path: String, name: String, value: Vec<u8>, mode: XattrMode },
    ListXattrs { path: String },
    RemoveXattr { path: String, name: String },
    Statfs { path: String },
}

/// What is done with what was opened.
#[derive(Clone, Copy, Debug)]
pub enum Then {
    Read,
    Write,
    WriteNothing,
    Cut(u64),
    Punch,
    Close,
}

/// What a call answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Bytes(Vec<u8>),
    Names(Vec<Vec<u8>>),
}

/// What the two trees must have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub kind: Kind,
    pub mode: u16,
    pub uid: u32,
    pub gid: u32,
    pub nlink: u32,
    pub rdev: u32,
    /// Of files.
    pub size: u64,
    /// As far as it was set.
    pub mtime: Option<i64>,
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

pub type Tree = BTreeMap<String, Facts>;

pub fn set_mtime(seconds: i64) -> Option<i64> {
    (1..SET_TIMES_S).contains(&seconds).then_some(seconds)
}

pub fn join(directory: &str, name: &str) -> String {
    if directory == "." { name.to_owned() } else { format!("{directory}/{name}") }
}

/// The directory and the name of a path.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or((".", path))
}

type Errno = i32;

/// The checked view's side.
struct Sut<'v> {
    volume: &'v Volume,
    view: Checked<'v>,
}

impl Sut<'_> {
    /// As system calls do it: by the path, as the caller.
    fn at<T>(&self, path: &str, work: impl FnOnce(&Attributes) -> Result<T, VfsError>) -> Result<T, VfsError> {
        let found = self.view.resolve(path.as_bytes())?;
        let outcome = work(&found);
        self.view.forget(found.ino, 1);
        outcome
    }

    fn in_directory<T>(&self, path: &str, work: impl FnOnce(Ino, &[u8]) -> Result<T, VfsError>) -> Result<T, VfsError> {
        let (directory, name) = split(path);
        self.at(directory, |found| work(found.ino, name.as_bytes()))
    }

    /// The system calls refuse what is no name of an attribute before they look at the path.
    fn at_xattr<T>(
        &self,
        path: &str,
        name: &str,
        work: impl FnOnce(Ino) -> Result<T, VfsError>,
    ) -> Result<T, VfsError> {
        if name.is_empty() || name.len() >= TOO_LONG_BYTES {
            return work(Ino::ROOT);
        }
        self.at(path, |found| work(found.ino))
    }

    fn made(&self, made: Result<Attributes, VfsError>) -> Result<Answer, VfsError> {
        self.view.forget(made?.ino, 1);
        Ok(Answer::Done)
    }

    fn use_handle(&self, handle: Handle, then: Then) -> Result<Answer, VfsError> {
        let view = &self.view;
        match then {
            Then::Read => return view.read(handle, 0, 100).map(|bytes| Answer::Bytes(bytes.to_vec())),
            Then::Write => drop(view.write(handle, 0, b"abc")?),
            Then::WriteNothing => drop(view.write(handle, 0, b"")?),
            Then::Cut(size) => view.truncate(handle, size)?,
            Then::Punch => view.allocate(handle, 1, 5, PUNCH)?,
            Then::Close => {}
        }
        Ok(Answer::Done)
    }

    fn call(&self, call: &Call) -> Result<Answer, VfsError> {
        let view = &self.view;
        let done = |()| Answer::Done;
        let change = |path: &str, change: AttributeChange| {
            self.at(path, |found| view.set_attributes(found.ino, &change)).map(|_| Answer::Done)
        };
        match call {
            Call::Resolve { path } | Call::Stat { path } => self.at(path, |_| Ok(Answer::Done)),
            Call::Access { path, wanted } => self.at(path, |found| view.access(found.ino, *wanted)).map(done),
            Call::Readlink { path } => self.at(path, |found| view.readlink(found.ino)).map(Answer::Bytes),
            Call::List { path } => self.at(path, |found| {
                let names = view.read_names(found.ino, 0, 1000)?.into_iter().map(|entry| entry.name);
                let mut names: Vec<_> = names.collect();
                names.sort();
                Ok(Answer::Names(names))
            }),
            Call::Create { path, mode } => self.in_directory(path, |directory, name| {
                let (made, handle) = view.create(directory, name, *mode, libc::O_WRONLY)?;
                let written = view.write(handle, 0, b"new").map(|_| Answer::Done);
                view.release(handle);
                view.forget(made.ino, 1);
                written
            }),
            Call::Make { path, kind, mode, rdev } => self
                .in_directory(path, |directory, name| self.made(view.make_node(directory, name, *kind, *mode, *rdev))),
            Call::Symlink { path, target } => {
                self.in_directory(path, |directory, name| self.made(view.symlink(directory, name, target.as_bytes())))
            }
            Call::Link { from, to } => self.at(from, |source| {
                self.in_directory(to, |directory, name| self.made(view.link(source.ino, directory, name)))
            }),
            Call::Unlink { path } => self.in_directory(path, |directory, name| view.unlink(directory, name)).map(done),
            Call::RemoveDirectory { path } => {
                self.in_directory(path, |directory, name| view.remove_directory(directory, name)).map(done)
            }
            Call::Rename { from, to, flags } => self
                .in_directory(from, |old, old_name| {
                    self.in_directory(to, |new, new_name| view.rename(old, old_name, new, new_name, *flags))
                })
                .map(done),
            Call::ChangeMode { path, mode } => {
                change(path, AttributeChange { mode: Some(*mode), ..AttributeChange::default() })
            }
            Call::ChangeOwner { path, uid, gid } => {
                change(path, AttributeChange { uid: *uid, gid: *gid, ..AttributeChange::default() })
            }
            Call::ChangeTimes { path, atime, mtime } => {
                change(path, AttributeChange { atime: *atime, mtime: *mtime, ..AttributeChange::default() })
            }
            Call::Cut { path, size } => {
                change(path, AttributeChange { size: Some(*size), ..AttributeChange::default() })
            }
            Call::Open { path, flags, then } => self.at(path, |found| {
                let handle = view.open(found.ino, *flags)?;
                let answer = self.use_handle(handle, *then);
                view.release(handle);
                answer
            }),
            Call::GetXattr { path, name } => {
                self.at_xattr(path, name, |ino| view.get_xattr(ino, name.as_bytes())).map(Answer::Bytes)
            }
            Call::SetXattr { path, name, value, mode } => {
                self.at_xattr(path, name, |ino| view.set_xattr(ino, name.as_bytes(), value, *mode)).map(done)
            }
            Call::ListXattrs { path } => self.at(path, |found| {
                let mut names = view.list_xattrs(found.ino)?;
                names.sort();
                Ok(Answer::Names(names))
            }),
            Call::RemoveXattr { path, name } => {
                self.at_xattr(path, name, |ino| view.remove_xattr(ino, name.as_bytes())).map(done)
            }
            Call::Statfs { path } => self.at(path, |_| view.statfs().map(|_| Answer::Done)),
        }
    }

    fn facts(&self, found: &Attributes) -> Facts {
        let volume = self.volume;
        let names = volume.list_xattrs(found.ino).expect("lists");
        let value = |name: Vec<u8>| (name.clone(), volume.get_xattr(found.ino, &name).expect("there"));
        Facts {
            kind: found.kind,
            mode: found.mode,
            uid: found.uid,
            gid: found.gid,
            nlink: found.nlink,
            rdev: found.rdev,
            size: if found.kind == Kind::File { found.size } else { 0 },
            mtime: set_mtime(found.mtime.seconds),
            target: if found.kind == Kind::Symlink { volume.readlink(found.ino).expect("reads") } else { Vec::new() },
            xattrs: names.into_iter().map(value).collect(),
        }
    }

    fn tree(&self) -> Tree {
        let root = self.volume.attributes(Ino::ROOT).expect("there");
        let mut tree = Tree::from([(".".to_owned(), self.facts(&root))]);
        let mut left = vec![(".".to_owned(), Ino::ROOT)];
        while let Some((path, ino)) = left.pop() {
            for entry in self.volume.read_directory(ino, 0, 1000).expect("lists") {
                let name = String::from_utf8(entry.name).expect("the test's own");
                if name == "." || name == ".." {
                    continue;
                }
                let path = join(&path, &name);
                if entry.attributes.kind == Kind::Directory {
                    left.push((path.clone(), entry.attributes.ino));
                }
                tree.insert(path, self.facts(&entry.attributes));
            }
        }
        tree
    }
}

/// Makes calls up.
struct Script<'t> {
    random: &'t mut StdRng,
    tree: &'t Tree,
}

impl Script<'_> {
    fn one_in(&mut self, count: u32) -> bool {
        self.random.random_range(0..count) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        *of.choose(self.random).expect("not empty")
    }

    fn directory(&mut self) -> String {
        let directories: Vec<&String> =
            self.tree.iter().filter(|(_, facts)| facts.kind == Kind::Directory).map(|(path, _)| path).collect();
        self.pick(&directories).clone()
    }

    /// A name in some directory, which may exist.
    fn name(&mut self) -> String {
        let directory = self.directory();
        let name = self.pick(&NAMES);
        join(&directory, name)
    }

    /// A name to make or to take away: the same, and what is no name.
    fn any_name(&mut self) -> String {
        if !self.one_in(12) {
            return self.name();
        }
        let directory = self.directory();
        let too_long = "n".repeat(TOO_LONG_BYTES);
        join(&directory, self.pick(&[".", "..", &too_long]))
    }

    /// What is to lose its name.
    fn victim(&mut self) -> String {
        if self.one_in(12) { self.any_name() } else { self.named() }
    }

    /// Something that exists, nearly always.
    fn path(&mut self) -> String {
        if self.one_in(20) {
            return self.name();
        }
        let paths: Vec<&String> = self.tree.keys().collect();
        self.pick(&paths).clone()
    }

    /// Something that exists and is not the root directory, nearly always.
    fn named(&mut self) -> String {
        match self.path() {
            root if root == "." => self.name(),
            path => path,
        }
    }

    fn kind(&self, path: &str) -> Option<Kind> {
        self.tree.get(path).map(|facts| facts.kind)
    }

    fn mode(&mut self) -> u16 {
        if self.one_in(4) { self.random.random_range(0..0o10000) } else { self.pick(&MODES) }
    }

    /// A path, and the name of an attribute.
    fn xattr(&mut self) -> (String, String) {
        let name = match self.random.random_range(0..30) {
            0 => String::new(),
            1 => format!("user.{}", "n".repeat(TOO_LONG_BYTES - "user.".len())),
            _ => self.pick(&XATTRS).to_owned(),
        };
        (self.path(), name)
    }

    fn id(&mut self) -> Option<u32> {
        if self.one_in(3) { None } else { Some(self.pick(&IDS)) }
    }

    fn time(&mut self) -> Option<SetTime> {
        match self.random.random_range(0..3) {
            0 => None,
            1 => Some(SetTime::Now),
            _ => Some(SetTime::To(Timestamp {
                seconds: self.random.random_range(1..SET_TIMES_S),
                nanoseconds: self.random.random_range(0..1_000_000_000),
            })),
        }
    }

    /// With turns, dots and slashes.
    fn winding_path(&mut self) -> String {
        let mut path = self.path();
        for _ in 0..self.random.random_range(0..4) {
            path += self.pick(&["/..", "/.", "/", "//", "/a", "/b", "/c"]);
        }
        path
    }

    fn caller(&mut self) -> Caller {
        let uid = self.pick(&IDS);
        let groups = IDS.into_iter().filter(|_| self.random.random_range(0..3) == 0).collect();
        let capabilities = match self.random.random_range(0..4) {
            0 => Capabilities::all().iter().filter(|_| self.random.random_range(0..4) == 0).collect(),
            _ => Caller::new(uid, 0).capabilities,
        };
        Caller::new(uid, self.pick(&IDS)).with_groups(groups).with_capabilities(capabilities)
    }

    fn call(&mut self) -> Call {
        match self.random.random_range(0..44) {
            0 => Call::Resolve { path: self.winding_path() },
            1 => Call::Stat { path: self.path() },
            2..=4 => {
                Call::Access { path: self.path(), wanted: Wanted::from_bits_truncate(self.random.random_range(0..8)) }
            }
            5 => Call::Readlink { path: self.path() },
            6 => Call::List { path: self.path() },
            7..=9 => Call::Create { path: self.any_name(), mode: self.mode() },
            10..=12 => Call::Make { path: self.any_name(), kind: Kind::Directory, mode: self.mode(), rdev: 0 },
            13 | 14 => {
                let kinds = [Kind::File, Kind::Fifo, Kind::Socket, Kind::CharDevice, Kind::BlockDevice];
                let kind = self.pick(&kinds);
                let is_device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
                let rdev = if is_device { self.pick(&[0, 0x103]) } else { 0 };
                Call::Make { path: self.any_name(), kind, mode: self.mode(), rdev }
            }
            15 => {
                let path = self.any_name();
                Call::Symlink { path, target: self.path() }
            }
            16..=18 => Call::Link { from: self.named(), to: self.any_name() },
            19 | 20 => Call::Unlink { path: self.victim() },
            21 => Call::RemoveDirectory { path: self.victim() },
            22..=26 => {
                let (from, to) = (self.victim(), if self.one_in(2) { self.named() } else { self.any_name() });
                let no_replace = self.one_in(6);
                let whiteout = self.one_in(8).then_some(Owner { uid: 0, gid: 0 });
                // Exchange excludes the others, which is said before anything is looked up.
                let exchange = !no_replace && whiteout.is_none() && self.one_in(3);
                Call::Rename { from, to, flags: RenameFlags { no_replace, exchange, whiteout } }
            }
            27..=29 => loop {
                let path = self.path();
                // The system call without a path of its own follows links.
                if self.kind(&path) != Some(Kind::Symlink) {
                    return Call::ChangeMode { path, mode: self.mode() };
                }
            },
            30..=32 => loop {
                let (path, uid, gid) = (self.path(), self.id(), self.id());
                if uid.is_some() || gid.is_some() {
                    return Call::ChangeOwner { path, uid, gid };
                }
            },
            33 | 34 => loop {
                let (path, atime, mtime) = (self.path(), self.time(), self.time());
                if atime.is_some() || mtime.is_some() {
                    return Call::ChangeTimes { path, atime, mtime };
                }
            },
            35..=38 => loop {
                let path = self.path();
                let size = self.random.random_range(0..10);
                let mut flags = self.pick(&[libc::O_RDONLY, libc::O_WRONLY, libc::O_RDWR]);
                if self.one_in(3) {
                    flags |= libc::O_TRUNC;
                }
                if self.one_in(4) {
                    flags |= libc::O_NOATIME;
                }
                let thens = [Then::Read, Then::Write, Then::WriteNothing, Then::Cut(size), Then::Punch, Then::Close];
                let then = self.pick(&thens);
                let writes = flags & libc::O_ACCMODE != libc::O_RDONLY || flags & libc::O_TRUNC != 0;
                match self.kind(&path) {
                    None | Some(Kind::File) if self.one_in(3) => return Call::Cut { path, size },
                    None | Some(Kind::File | Kind::Symlink | Kind::Socket) => {
                        return Call::Open { path, flags, then };
                    }
                    Some(Kind::Directory) if writes => return Call::Open { path, flags, then },
                    // What the local kernel opens is nothing that a volume could.
                    Some(_) => {}
                }
            },
            39 => {
                let (path, name) = self.xattr();
                Call::GetXattr { path, name }
            }
            40 | 41 => {
                let (path, name) = self.xattr();
                let is_capability = name == CAPABILITY && !self.one_in(4);
                let value = if is_capability { CAPABILITIES.to_vec() } else { vec![self.random.random()] };
                let mode = self.pick(&[XattrMode::Any, XattrMode::Any, XattrMode::Create, XattrMode::Replace]);
                Call::SetXattr { path, name, value, mode }
            }
            42 => {
                if self.one_in(2) {
                    Call::ListXattrs { path: self.path() }
                } else {
                    let (path, name) = self.xattr();
                    Call::RemoveXattr { path, name }
                }
            }
            _ => loop {
                let path = self.path();
                if self.kind(&path) != Some(Kind::Symlink) {
                    return Call::Statfs { path };
                }
            },
        }
    }
}

/// What is known of everything on the paths of a call.
fn context(call: &Call, tree: &Tree) -> String {
    let words = format!("{call:?}");
    let mut lines = String::new();
    for (path, facts) in tree {
        let is_above = |word: &str| word == path || word.starts_with(&format!("{path}/")) || path == ".";
        if words.split('"').any(is_above) {
            lines += &format!(
                "    {path}: {:?} {:04o} {}:{} links {} size {} {:?}\n",
                facts.kind, facts.mode, facts.uid, facts.gid, facts.nlink, facts.size, facts.xattrs
            );
        }
    }
    lines
}

fn differences(local: &Tree, ours: &Tree) -> String {
    let mut lines = String::new();
    for path in local.keys().chain(ours.keys().filter(|path| !local.contains_key(*path))) {
        let (kernel, volume) = (local.get(path), ours.get(path));
        if kernel != volume {
            lines += &format!("    {path}\n        kernel: {kernel:?}\n        volume: {volume:?}\n");
        }
    }
    lines
}

/// What the two first differ in, if they do. `links_are_protected`: `fs.protected_hardlinks` is 1.
fn compare_tree(seed: u64, links_are_protected: bool) -> Result<(), String> {
    let mut random = StdRng::seed_from_u64(seed);
    let world = World::new("rs:2+1", 3);
    let volume = &world.volume;
    let local = Local::mount();
    let root = Caller::new(0, 0);
    let mut tree = local.tree();
    for number in 0..OPERATIONS {
        let mut script = Script { random: &mut random, tree: &tree };
        let is_first = number == 0;
        let call = match is_first {
            true => Call::ChangeMode { path: ".".into(), mode: script.pick(&[0o777, 0o1777, 0o2777, 0o755]) },
            false => script.call(),
        };
        let is_roots = number < ROOT_OPERATIONS || matches!(call, Call::Link { .. }) && !links_are_protected;
        let caller = if is_roots { root.clone() } else { script.caller() };
        let sut = Sut { volume, view: volume.as_caller(&caller) };
        let kernel: Result<Answer, Errno> = local.call_as(&caller, &call);
        let ours = sut.call(&call);
        let what = ours.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let ours: Result<Answer, Errno> = ours.map_err(|error| error.errno());
        let (after_kernel, after_ours) = (local.tree(), sut.tree());
        if kernel != ours || after_kernel != after_ours {
            return Err(format!(
                "seed {seed}, operation {number}: {call:?}\n  by {caller:?}\n  before:\n{}  kernel: {kernel:?}\n  volume: {ours:?} {what}\n  \
             after:\n{}",
                context(&call, &tree),
                differences(&after_kernel, &after_ours)
            ));
        }
        tree = after_kernel;
    }
    world.fsck();
    Ok(())
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn a_volume_answers_as_the_kernel_does() {
    kernel::must_be_root();
    let links_are_protected = kernel::protects_hard_links();
    if !links_are_protected {
        println!("only root makes hard links: fs.protected_hardlinks is 0");
    }
    let (first, trees) = (number("WEFT_SEED", 0), number("WEFT_TREES", TREES));
    println!("WEFT_SEED={first} WEFT_TREES={trees}");
    let compare = |seed| kernel::in_own_namespace(|| compare_tree(seed, links_are_protected));
    let differences: Vec<String> = (first..first + trees).filter_map(|seed| compare(seed).err()).collect();
    let shown = differences.iter().take(SHOWN).cloned().collect::<String>();
    assert!(
        differences.is_empty(),
        "{} of {trees} trees differ (WEFT_SEED=N begins at seed N):\n{shown}",
        differences.len()
    );
}
