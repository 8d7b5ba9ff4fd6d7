//! Names: each leads to an inode of its kind, from a directory whose listing has it, below the root.

use weft_format::Ino;

use super::columns::Keyed as _;
use super::lane::Lane;
use super::{Finding, PAGE_PAIRS, Survey, Writes, put, remove};
use crate::MetaError;
use crate::keys::{Key, Table, of_ino};
use crate::store::values::{self, Dirent};

/// The listing of a directory, read after its names.
struct Listing {
    entries: Lane,
    directory: Ino,
    /// Names of the directory that the listing has in their places.
    right: u64,
}

/// A name.
#[derive(Clone, Copy)]
struct Name<'n> {
    parent: Ino,
    name: &'n [u8],
    dirent: Dirent,
}

impl Name<'_> {
    fn key(&self) -> Key<'_> {
        Key::Dirent(self.parent, self.name)
    }

    fn lossy(&self) -> String {
        self.name.escape_ascii().to_string()
    }
}

/// Is a directory below the root?
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Unknown,
    /// It is, or is below one without a name, which is a finding or an orphan.
    Ends,
    /// It is not, or it is on the way that is followed: to meet it again is a loop.
    Loops,
}

impl Survey<'_> {
    pub(super) fn read_names(&mut self) -> Result<(), MetaError> {
        let entries = Lane::new(Table::Entry.range(), PAGE_PAIRS);
        let mut listing = Listing { entries, directory: Ino(0), right: 0 };
        self.each_page(Table::Dirent.range(), |survey, pairs| {
            let mut names = Vec::with_capacity(pairs.len());
            for (key, value) in pairs {
                let dirent = survey.see(key, value, |_, key, value| Dirent::decode(&key, value))?;
                if let (Some(Key::Dirent(parent, name)), Some(dirent)) = (Key::parse(key), dirent) {
                    names.push(Name { parent, name, dirent });
                }
            }
            let listed = survey.get_many(names.iter().map(|name| Key::Entry(name.parent, name.dirent.cookie)))?;
            for (name, listed) in names.into_iter().zip(listed) {
                if name.parent != listing.directory {
                    survey.compare_listing(&mut listing)?;
                    (listing.directory, listing.right) = (name.parent, 0);
                }
                let is_listed = survey.name(name, listed.as_deref());
                listing.right += u64::from(survey.note(is_listed)? == Some(true));
            }
            Ok(())
        })?;
        self.compare_listing(&mut listing)?;
        listing.entries.finish(self, Survey::entry)
    }

    /// Has the listing another entry than those of the directory's names? Each of these is another one, so their numbers tell.
    fn compare_listing(&mut self, listing: &mut Listing) -> Result<(), MetaError> {
        let range = of_ino(Table::Entry, listing.directory);
        // Of directories without a name in them.
        listing.entries.skip_to(&range.start, self, Survey::entry)?;
        let mut is_right = true;
        while let Some((key, value)) = listing.entries.next_before(&range.end, self)? {
            let entry = Key::parse(&key).filter(|key| values::decode_entry(key, &value).is_ok());
            is_right &= entry.is_some() && listing.right > 0;
            listing.right = listing.right.saturating_sub(1);
            if let Some(Key::Entry(_, cookie)) = entry {
                self.last_cookie = self.last_cookie.max(cookie);
            }
        }
        if is_right { Ok(()) } else { self.each(range, Survey::entry) }
    }

    /// Looks at a name, and at what the listing has in its place. Does the listing have the name there?
    fn name(&mut self, name: Name<'_>, listed: Option<&[u8]>) -> Result<bool, MetaError> {
        let Name { parent, dirent, .. } = name;
        let ino = dirent.ino;
        self.last_cookie = self.last_cookie.max(dirent.cookie);
        let is_listed = self.check_listing(name, listed)?;
        let kind = self.inodes.get(ino).map(|inode| (inode.kind, inode.is_directory()));
        match self.inodes.get_mut(parent) {
            Some(directory) if directory.is_directory() => {
                directory.has_children = true;
                directory.subdirectories += u32::from(kind.is_some_and(|(_, is_directory)| is_directory));
            }
            _ if self.unreadable_inodes.contains(&parent) => {}
            _ => self.report(Finding::NameOutsideDirectory { parent, name: name.lossy() }, Writes::new()),
        }
        match self.inodes.get_mut(ino) {
            Some(inode) => {
                inode.names += 1;
                inode.parent = parent;
                let kind = inode.kind;
                if kind != dirent.kind {
                    let mend = vec![put(name.key(), Dirent { kind, ..dirent }.encode())];
                    self.report(Finding::WrongKind { parent, name: name.lossy(), ino }, mend);
                }
            }
            None if self.unreadable_inodes.contains(&ino) => {}
            None => {
                let mend = vec![remove(name.key()), remove(Key::Entry(parent, dirent.cookie))];
                self.report(Finding::DanglingName { parent, name: name.lossy(), ino }, mend);
            }
        }
        Ok(is_listed)
    }

    fn check_listing(&mut self, name: Name<'_>, listed: Option<&[u8]>) -> Result<bool, MetaError> {
        let Name { parent, name: bytes, dirent } = name;
        let key = Key::Entry(parent, dirent.cookie);
        let Some(listed) = listed else {
            self.missing(key, values::entry(dirent.ino, bytes));
            return Ok(false);
        };
        let (ino, listed) = values::decode_entry(&key, listed)?;
        if listed != bytes {
            // Another name is there. If it is in the wrong place it goes, and this one can come in the next round.
            self.report(Finding::WrongListing { parent, name: name.lossy() }, Writes::new());
            return Ok(false);
        }
        if ino != dirent.ino {
            let mend = vec![put(key, values::entry(dirent.ino, bytes))];
            self.report(Finding::WrongListing { parent, name: name.lossy() }, mend);
        }
        Ok(true)
    }

    fn entry(&mut self, key: Key<'_>, value: &[u8]) -> Result<(), MetaError> {
        let Key::Entry(parent, cookie) = key else { return Ok(()) };
        self.last_cookie = self.last_cookie.max(cookie);
        let (_, name) = values::decode_entry(&key, value)?;
        let name_key = Key::Dirent(parent, name);
        let dirent = self.get(name_key)?.map(|bytes| Dirent::decode(&name_key, &bytes)).transpose()?;
        if dirent.is_none_or(|dirent| dirent.cookie != cookie) {
            self.stray(key);
        }
        Ok(())
    }

    /// Every directory with a name must lead up to the root, or to one without a name, which is a finding or an orphan.
    pub(super) fn reachability(&mut self) {
        let mut known = vec![Way::Unknown; self.inodes.len()];
        if let Some(root) = self.inodes.place(Ino::ROOT) {
            known[root] = Way::Ends;
        }
        let (mut unreachable, mut way) = (Vec::new(), Vec::new());
        for (place, inode) in self.inodes.iter().enumerate().filter(|(_, inode)| inode.is_directory()) {
            let mut at = place;
            let end = loop {
                if known[at] != Way::Unknown {
                    break known[at];
                }
                known[at] = Way::Loops;
                way.push(at);
                let above = Some(self.inodes.at(at)).filter(|inode| inode.names > 0);
                match above.and_then(|inode| self.inodes.place(inode.parent)) {
                    Some(above) => at = above,
                    None => break Way::Ends,
                }
            };
            for place in way.drain(..) {
                known[place] = end;
            }
            if end == Way::Loops {
                unreachable.push(inode.key());
            }
        }
        for ino in unreachable {
            self.report(Finding::Unreachable { ino }, Writes::new());
        }
    }
}
