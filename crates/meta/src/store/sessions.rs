//! Several processes change one volume: which of them live, which one keeps house, and which files without a name they have open.
//!
//! A file that lost its last name may be open elsewhere. Nobody notes what is open, so each process looks, every now and then, which files
//! without a name it has open, and notes those (`held`) and that it has looked (`look`). A file that nobody holds after everybody has looked
//! twice since it was found without a name is used by nobody: a look that began before it was found has ended by then.

use std::collections::{BTreeMap, BTreeSet};

use weft_env::sync::Receiver;
use weft_format::Ino;

use super::Store;
use super::txn::Txn;
use super::values;
use crate::MetaError;
use crate::keys::{Key, Table, of_ino};
use crate::kv::{ChangedKeys, Pair};

/// Pairs read at once.
const READ_PAIRS: usize = 1000;
/// Records changed in one transaction.
const CHANGED_AT_ONCE: usize = 200;

/// What another process has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The attributes of an inode, or that it is there.
    Inode(Ino),
    /// What a name in a directory means.
    Name(Ino, Vec<u8>),
}

impl Changed {
    /// Out of a key that [`Store::changes`] gave.
    pub fn of(key: &[u8]) -> Option<Self> {
        match Key::parse(key)? {
            Key::Inode(ino) => Some(Self::Inode(ino)),
            Key::Dirent(parent, name) => Some(Self::Name(parent, name.to_vec())),
            _ => None,
        }
    }
}

/// What a process noted of files without a name that it has open.
#[derive(Debug, Default)]
pub struct Holding {
    held: BTreeSet<Ino>,
    /// Of these a note may be there or not: a commit has failed, or is under way.
    doubtful: BTreeSet<Ino>,
    looks: u64,
}

/// What sessions have noted, by session.
#[derive(Default)]
struct Left {
    notes: Vec<(i64, Vec<u8>)>,
    locked: Vec<(i64, Ino)>,
}

impl Left {
    fn sessions(&self) -> impl Iterator<Item = i64> {
        self.notes.iter().map(|(session, _)| *session).chain(self.locked.iter().map(|(session, _)| *session))
    }

    fn retain(&mut self, sessions: &BTreeSet<i64>) {
        self.notes.retain(|(session, _)| sessions.contains(session));
        self.locked.retain(|(session, _)| sessions.contains(session));
    }
}

impl Store {
    /// The same, as one of several processes that change the volume.
    ///
    /// # Errors
    /// The engine's; `Refused`: it has no sessions.
    pub fn as_member(mut self) -> Result<Store, MetaError> {
        let Some(sessions) = self.kv.sessions() else {
            return Err(MetaError::Refused("this metadata engine lets one process at a time change a volume".into()));
        };
        self.session = Some(sessions.own()?);
        Ok(self)
    }

    /// Keys of names and attributes that the others change, soon after; see [`Changed`]. `None`: the engine does not tell.
    pub fn changes(&self) -> Option<Receiver<ChangedKeys>> {
        const TABLES: &[u8] = &[Table::Inode as u8, Table::Dirent as u8];
        self.kv.sessions().filter(|_| self.is_shared())?.changes(TABLES)
    }

    /// Do other processes change the volume, too?
    pub fn is_shared(&self) -> bool {
        self.session.is_some()
    }

    /// The sessions of those that change the volume; none: one process does, alone.
    ///
    /// # Errors
    /// The engine's.
    pub fn members(&self) -> Result<BTreeSet<i64>, MetaError> {
        let sessions = self.kv.sessions().filter(|_| self.is_shared());
        Ok(sessions.map_or_else(|| Ok(BTreeSet::new()), |sessions| sessions.members())?)
    }

    /// Which of these sessions, which were read before, have ended.
    pub(super) fn ended_of(&self, named: BTreeSet<i64>) -> Result<BTreeSet<i64>, MetaError> {
        Ok(&named - &self.members()?)
    }

    /// Does what is for one process to do fall to this one? It falls to the one that has been there longest. Removes what processes have
    /// left behind that have ended.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn keeps_house(&self) -> Result<bool, MetaError> {
        let openings = self.openings()?;
        let ended = self.ended_of(openings.current().map(|current| current.session).collect())?;
        let live = openings.current().find(|current| !ended.contains(&current.session));
        if live.map(|current| current.session) != self.session {
            return Ok(false);
        }
        let mut left = self.left_by_sessions()?;
        let ended = &ended | &self.ended_of(left.sessions().collect())?;
        if openings.clone().without(|session| ended.contains(&session)) != openings {
            self.end_openings(|session| ended.contains(&session))?;
        }
        left.retain(&ended);
        self.clear(&left, &ended)?;
        Ok(true)
    }

    /// Nobody else is there: what sessions have noted is of no use.
    pub(super) fn clear_all_notes(&self) -> Result<(), MetaError> {
        if self.kv.sessions().is_none() {
            return Ok(());
        }
        let left = self.left_by_sessions()?;
        let ended = left.sessions().collect();
        self.clear(&left, &ended)
    }

    fn end_openings(&self, is_over: impl Fn(i64) -> bool) -> Result<(), MetaError> {
        self.transact(|txn| {
            let openings = txn.openings()?.without(&is_over);
            txn.put(Key::Openings, openings.encode());
            Ok(())
        })
    }

    fn left_by_sessions(&self) -> Result<Left, MetaError> {
        let mut left = Left::default();
        for table in [Table::Look, Table::Held, Table::Locks] {
            for (key, value) in self.all_pairs(table)? {
                match Key::parse(&key) {
                    Some(Key::Look(session) | Key::Held(_, session)) => left.notes.push((session.cast_signed(), key)),
                    Some(parsed @ Key::Locks(ino)) => {
                        let locks = values::decode_locks(&parsed, &value)?;
                        left.locked.extend(locks.iter().map(|lock| (lock.session, ino)));
                    }
                    _ => {}
                }
            }
        }
        Ok(left)
    }

    /// Removes the notes and locks of sessions that have ended.
    fn clear(&self, left: &Left, ended: &BTreeSet<i64>) -> Result<(), MetaError> {
        for notes in left.notes.chunks(CHANGED_AT_ONCE) {
            self.transact(|txn| {
                notes.iter().filter_map(|(_, key)| Key::parse(key)).for_each(|key| txn.remove(key));
                Ok(())
            })?;
        }
        let locked: BTreeSet<Ino> = left.locked.iter().map(|(_, ino)| *ino).collect();
        for ino in locked {
            self.change_locks(ino, |locks| locks.retain(|lock| !ended.contains(&lock.session)))?;
        }
        Ok(())
    }

    /// Looks which inodes without a name this process has open. `is_open` is asked after it is known which have no name.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn look_at_orphans(&self, holding: &mut Holding, is_open: impl Fn(Ino) -> bool) -> Result<Vec<Ino>, MetaError> {
        let session = self.own_session()?;
        // All of them: a look that has seen some only says nothing of the others.
        let orphans = self.orphans(usize::MAX)?;
        if orphans.is_empty() && holding.held.is_empty() && holding.doubtful.is_empty() {
            return Ok(orphans);
        }
        let open: BTreeSet<Ino> = orphans.iter().copied().filter(|ino| is_open(*ino)).collect();
        let Holding { held, doubtful, .. } = &mut *holding;
        doubtful.extend(open.symmetric_difference(held));
        let changed: Vec<Ino> = holding.doubtful.iter().copied().collect();
        for inos in changed.chunks(CHANGED_AT_ONCE) {
            self.transact(|txn| {
                for ino in inos {
                    txn.hold(*ino, session, open.contains(ino))?;
                }
                Ok(())
            })?;
        }
        holding.held = open;
        holding.doubtful.clear();
        // It counts when it is noted: of one that failed nobody knows how long ago it began.
        let looks = holding.looks + 1;
        self.transact(|txn| {
            txn.put(Key::Look(session), values::number(looks));
            Ok(())
        })?;
        holding.looks = looks;
        Ok(orphans)
    }

    /// This process has an inode without a name open from now on.
    ///
    /// # Errors
    /// `NotFound`: it is gone.
    pub fn hold(&self, holding: &mut Holding, ino: Ino) -> Result<(), MetaError> {
        let session = self.own_session()?;
        holding.doubtful.insert(ino);
        self.transact(|txn| {
            txn.inode(ino)?;
            txn.hold(ino, session, true)
        })?;
        holding.doubtful.remove(&ino);
        holding.held.insert(ino);
        Ok(())
    }

    /// How often each session has looked.
    ///
    /// # Errors
    /// Those of the engine, and damage.
    pub fn looks(&self) -> Result<BTreeMap<i64, u64>, MetaError> {
        let mut looks = BTreeMap::new();
        for (key, value) in self.all_pairs(Table::Look)? {
            if let Some(key @ Key::Look(session)) = Key::parse(&key) {
                looks.insert(session.cast_signed(), values::decode_number(&key, &value)?);
            }
        }
        Ok(looks)
    }

    /// Leaves: what this process has noted goes, and no other process waits for it.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn leave(&self) -> Result<(), MetaError> {
        let Some(own) = self.session else { return Ok(()) };
        let own = BTreeSet::from([own]);
        let mut left = self.left_by_sessions()?;
        left.retain(&own);
        self.clear(&left, &own)?;
        self.end_openings(|session| own.contains(&session))
    }

    pub(super) fn own_session(&self) -> Result<u64, MetaError> {
        let none = MetaError::Refused("only one of several mounts has a session".into());
        self.session.map(i64::cast_unsigned).ok_or(none)
    }

    /// All pairs of a table that has few.
    pub(super) fn all_pairs(&self, table: Table) -> Result<Vec<Pair>, MetaError> {
        self.view(|txn| {
            let (mut range, mut pairs) = (table.range(), Vec::new());
            loop {
                let page = txn.look_through(&range, READ_PAIRS)?;
                let last = page.last().filter(|_| page.len() == READ_PAIRS).map(|(key, _)| key.clone());
                pairs.extend(page);
                match last {
                    Some(mut last) => {
                        last.push(0);
                        range.start = last;
                    }
                    None => return Ok(pairs),
                }
            }
        })
    }
}

impl Txn<'_> {
    fn hold(&mut self, ino: Ino, session: u64, is_held: bool) -> Result<(), MetaError> {
        let key = Key::Held(ino, session);
        match (is_held, self.get(key)?) {
            (true, None) if self.find_inode(ino)?.is_some() => self.put(key, values::mark()),
            (false, Some(_)) => self.remove(key),
            _ => {}
        }
        Ok(())
    }

    /// Has any process the inode open, as far as they have noted?
    pub(super) fn is_held(&mut self, ino: Ino) -> Result<bool, MetaError> {
        Ok(!self.scan(&of_ino(Table::Held, ino), 1)?.is_empty())
    }
}

#[cfg(test)]
#[path = "sessions_tests.rs"]
mod tests;
