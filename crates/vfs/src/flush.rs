//! Which dirty bytes are uploaded when, with which others, and which upload is committed next: a state machine. Pure: what happened
//! and the time come in, what to do goes out; nothing here locks, waits, holds bytes, or looks at a clock.
//!
//! ```text
//! changed:  a file holds something else now: it waits for its upload, or has nothing left to wait for
//! due:      files that have waited long enough, or all where room is short: alone, or with others of their policy
//! staged:   an upload of some files is in flight
//! written:  nodes have it; it is committed next unless an earlier one in flight shares a file with it
//! settled:  it is committed, or its bytes are dirty again: another may be next
//! admit:    a writer waits while all files together hold too much
//! ```
//!
//! `write_back.rs` does what this decides. It knows a file by an `F`. Start reading at [`Flush::changed`], then [`Flush::due`].

use crate::error::VfsError;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weft_env::planted::{Planted, has_planted};
use weft_format::{Ino, PolicyId};

/// Dirty bytes wait this long for company before they are uploaded: many small files share a segment, and files that are
/// deleted again within a moment never leave memory.
pub(crate) const DIRTY_AGE: Duration = Duration::from_secs(1);
/// Bytes that the journal holds are safe already; waiting longer lets a page that is written over and over be uploaded once.
const JOURNALED_AGE: Duration = Duration::from_secs(5);
/// The journal is emptied into segments beyond this; it bounds replay at mount and the size of the metadata.
const JOURNAL_BYTES_MAX: u64 = 16 << 20;
/// An fsync with more new bytes than this writes a segment: the journal would write them twice.
const JOURNALED_FSYNC_BYTES_MAX: u64 = 64 << 10;
/// Pieces of one segment. Keeps one commit below 1,000 keys, the least that a metadata engine must carry: a piece is an extent and
/// perhaps a journal page.
pub(crate) const PIECES_PER_SEGMENT_MAX: usize = 300;
/// Files with more than this are uploaded alone: sharing a segment would save them nothing.
const LARGE_BYTES: u64 = 1 << 20;
/// This many small dirty files are uploaded without waiting for their age.
const DIRTY_FILES_MAX: usize = 512;
/// A writer that finds no room for this long, because nodes take nothing, gets an error instead of hanging.
const STALL_MAX: Duration = Duration::from_secs(60);

/// What a file has that the store does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// The policy of its next bytes.
    pub policy: PolicyId,
    /// Memory of its bytes, dirty and in flight.
    pub memory_bytes: u64,
    /// Bytes that no upload carries yet.
    pub dirty_bytes: u64,
    /// Pieces of those.
    pub dirty_piece_count: usize,
    /// Of the dirty bytes, those that the journal does not hold either.
    pub unjournaled_bytes: u64,
    /// Pages that it has in the journal.
    pub journal_bytes: u64,
    /// Its size or times differ from the store's.
    pub unsaved: bool,
}

impl Held {
    fn is_nothing(&self) -> bool {
        self.memory_bytes == 0 && !self.unsaved
    }

    /// How long it waits: bytes that the journal holds are safe already.
    fn patience(&self) -> Duration {
        if self.unjournaled_bytes == 0 { JOURNALED_AGE } else { DIRTY_AGE }
    }

    /// Sharing a segment would save it nothing.
    fn is_large(&self) -> bool {
        self.dirty_bytes > LARGE_BYTES || self.dirty_piece_count > PIECES_PER_SEGMENT_MAX / 2
    }
}

/// Threads that have to look again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub(crate) struct Wake {
    /// Writers that wait for room.
    pub writers: bool,
    /// The background loop, before its time.
    pub background: bool,
}

/// What is to be done with files whose time has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Due<F> {
    /// Upload its dirty bytes in segments of its own.
    Alone(F),
    /// Upload the dirty bytes of these in segments that they share. Directory neighbours are made one after another, so the order
    /// of their inodes keeps them together.
    Together(PolicyId, Vec<F>),
    /// Commit its size and times; it has no dirty bytes.
    Attributes(F),
}

/// May a writer add bytes?
#[derive(Debug)]
pub(crate) enum Admission {
    Enter,
    /// Not yet: to be asked again after this time, or when [`Wake::writers`] says so.
    Wait(Duration),
    Refuse(VfsError),
}

struct Waiting<F> {
    file: F,
    /// Since when it has something, or was tried last.
    since: Instant,
    held: Held,
}

/// See the module's head.
pub(crate) struct Flush<F> {
    held_bytes_max: u64,
    /// Files with anything that is not committed.
    files: BTreeMap<Ino, Waiting<F>>,
    /// Sum over these: memory ...
    held_bytes: u64,
    /// ... and pages in the journal.
    journal_bytes: u64,
    next_sequence: u64,
    /// Files of each upload in flight, in the order of staging.
    in_flight: BTreeMap<u64, BTreeSet<Ino>>,
    /// Those that nodes have.
    written: BTreeSet<u64>,
    /// The last failure to write, while it lasts.
    trouble: Option<Arc<VfsError>>,
    is_called: bool,
    is_stopped: bool,
}

impl<F: Clone> Flush<F> {
    /// Writers wait while files hold `held_bytes_max` bytes of memory.
    pub fn new(held_bytes_max: u64) -> Self {
        Self {
            held_bytes_max,
            files: BTreeMap::new(),
            held_bytes: 0,
            journal_bytes: 0,
            next_sequence: 0,
            in_flight: BTreeMap::new(),
            written: BTreeSet::new(),
            trouble: None,
            is_called: false,
            is_stopped: false,
        }
    }

    /// The file holds this now.
    pub fn changed(&mut self, ino: Ino, file: &F, held: Held, now: Instant) -> Wake {
        let sums = |held: &Held| (held.memory_bytes, held.journal_bytes);
        let (memory_before, journal_before) = self.files.get(&ino).map_or((0, 0), |waiting| sums(&waiting.held));
        let held = Some(held).filter(|held| !held.is_nothing());
        let (memory_bytes, journal_bytes) = held.as_ref().map_or((0, 0), sums);
        let had_room = self.has_room();
        self.held_bytes = self.held_bytes - memory_before + memory_bytes;
        self.journal_bytes = self.journal_bytes - journal_before + journal_bytes;
        let mut is_crowded = journal_bytes > journal_before && self.journal_bytes > JOURNAL_BYTES_MAX / 2;
        match (self.files.get_mut(&ino), held) {
            (Some(waiting), Some(held)) => waiting.held = held,
            (Some(_), None) => drop(self.files.remove(&ino)),
            (None, Some(held)) => {
                self.files.insert(ino, Waiting { file: file.clone(), since: now, held });
                is_crowded |= self.files.len() == DIRTY_FILES_MAX;
            }
            (None, None) => {}
        }
        self.is_called |= is_crowded;
        Wake { writers: !had_room && self.has_room(), background: is_crowded }
    }

    /// Bytes of it are dirty again: it waits its turn again, so that a full volume is not hammered.
    pub fn postpone(&mut self, ino: Ino, now: Instant) {
        if let Some(waiting) = self.files.get_mut(&ino) {
            waiting.since = now;
        }
    }

    /// Files whose time has come, or all that have something dirty: `everything`. If that fails they wait their turn again.
    pub fn due(&mut self, everything: bool, now: Instant) -> Vec<Due<F>> {
        let is_crowded = everything
            || self.files.len() >= DIRTY_FILES_MAX
            || self.held_bytes > self.held_bytes_max / 2
            || self.journal_bytes > JOURNAL_BYTES_MAX / 2;
        let mut due = Vec::new();
        let mut small: BTreeMap<PolicyId, Vec<F>> = BTreeMap::new();
        for Waiting { file, since, held } in self.files.values_mut() {
            let is_time = is_crowded || now.saturating_duration_since(*since) >= held.patience();
            // Where all is in flight its commit has the attributes, too.
            let is_in_flight = held.dirty_bytes == 0 && held.memory_bytes > 0;
            if !is_time || is_in_flight {
                continue;
            }
            *since = now;
            match held {
                Held { dirty_bytes: 0, .. } => due.push(Due::Attributes(file.clone())),
                held if held.is_large() => due.push(Due::Alone(file.clone())),
                held => small.entry(held.policy).or_default().push(file.clone()),
            }
        }
        due.extend(small.into_iter().map(|(policy, files)| Due::Together(policy, files)));
        due
    }

    /// An upload with bytes of these files is in flight; its number. Uploads that share a file are staged one after the other.
    pub fn staged(&mut self, files: BTreeSet<Ino>) -> u64 {
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.in_flight.insert(sequence, files);
        sequence
    }

    /// Nodes have the upload, or it has failed; which is to be committed now, if nothing else is being committed?
    pub fn written(&mut self, sequence: u64) -> Option<u64> {
        self.written.insert(sequence);
        self.next()
    }

    /// The upload is committed, or its bytes are dirty again; which is to be committed now?
    pub fn settled(&mut self, sequence: u64) -> Option<u64> {
        self.in_flight.remove(&sequence);
        self.next()
    }

    /// The first upload that nodes have and that shares no file with an earlier one in flight.
    fn next(&mut self) -> Option<u64> {
        let is_next = |sequence: &&u64| {
            let Some(files) = self.in_flight.get(sequence) else { return true };
            self.in_flight.range(..*sequence).all(|(_, earlier)| earlier.is_disjoint(files))
        };
        let next = match has_planted(Planted::CommitsOutOfOrder) {
            true => self.written.last().copied(),
            false => self.written.iter().find(is_next).copied(),
        };
        next.inspect(|sequence| assert!(self.written.remove(sequence), "it was chosen among them"))
    }

    /// A commit, or the way to it, has failed.
    pub fn failed(&mut self, error: Arc<VfsError>) {
        self.trouble = Some(error);
    }

    /// A commit has succeeded: what troubled those before is over.
    pub fn succeeded(&mut self) {
        self.trouble = None;
    }

    /// Did the last attempt to write fail?
    pub fn is_in_trouble(&self) -> bool {
        self.trouble.is_some()
    }

    /// Is there room for more bytes?
    pub fn has_room(&self) -> bool {
        self.held_bytes < self.held_bytes_max
    }

    /// May a writer that has waited since `since` add bytes? While it waits everything is due.
    pub fn admit(&mut self, since: Instant, now: Instant) -> Admission {
        if self.has_room() {
            return Admission::Enter;
        }
        self.is_called = true;
        let waited = now.saturating_duration_since(since);
        match &self.trouble {
            Some(error) => Admission::Refuse(VfsError::Earlier(error.clone())),
            None if waited >= STALL_MAX => Admission::Refuse(VfsError::Stalled { seconds: STALL_MAX.as_secs() }),
            None => Admission::Wait(STALL_MAX - waited),
        }
    }

    /// May the journal take what a file has that is durable nowhere? Larger bytes go straight to nodes: the journal would write them twice.
    pub fn fits_journal(&self, unjournaled_bytes: u64) -> bool {
        let has_room = self.journal_bytes < JOURNAL_BYTES_MAX;
        unjournaled_bytes == 0 || (unjournaled_bytes <= JOURNALED_FSYNC_BYTES_MAX && has_room)
    }

    /// Bytes of the journal's pages.
    pub fn journal_bytes(&self) -> u64 {
        self.journal_bytes
    }

    /// Files with anything that is not committed, by inode.
    pub fn files(&self) -> impl Iterator<Item = &F> {
        self.files.values().map(|waiting| &waiting.file)
    }

    /// The background loop is to end.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Has the background loop something to do before its time?
    pub fn is_called(&self) -> bool {
        self.is_called || self.is_stopped
    }

    /// The background loop looks what is due now; `false`: it ends.
    pub fn answer(&mut self) -> bool {
        self.is_called = false;
        !self.is_stopped
    }
}

#[cfg(test)]
#[path = "flush_tests.rs"]
mod tests;
