//! What one of several processes that change a volume does for all of them: inodes without a name are reclaimed when nobody has them open, and
//! what is journaled goes to segments. Each process says which inodes without a name it has open; see `weft_meta::store::sessions`.

pub(crate) mod notes;

use crate::error::VfsError;
use crate::policies::write_request;
use crate::request::milliseconds;
use crate::volume::Volume;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Weak;
use std::sync::atomic::Ordering;
use std::time::Duration;
use weft_env::Clock;
use weft_format::removal::{Candidate, Evidence, Removable, Verdict, may_remove};
use weft_format::{Ino, PolicyId};
use weft_meta::{CopiedPage, JournalPage, MetaError};

const ROUND: Duration = Duration::from_millis(500);
/// What is journaled is looked at once in this number of rounds; a page that is the same twice goes to a segment.
const JOURNAL_EVERY: u32 = 8;
/// Pages read at once.
const JOURNAL_PAGES: usize = 1024;
/// More than this in the journal does not wait.
const JOURNAL_PAGES_MAX: usize = 2048;

/// Since when inodes are known to have no name: how often each process had looked by then.
#[derive(Default)]
struct Waiting {
    since: HashMap<Ino, BTreeMap<i64, u64>>,
}

impl Waiting {
    /// Those for which everybody has looked twice since. `looks` and `members` were read after it was known that the orphans have no name. The
    /// first look of the two may have begun before.
    fn ready(&mut self, orphans: &[Ino], looks: &BTreeMap<i64, u64>, members: &BTreeSet<i64>) -> Vec<Ino> {
        let looks_of = |session: &i64| looks.get(session).copied().unwrap_or(0);
        let known: BTreeSet<Ino> = orphans.iter().copied().collect();
        self.since.retain(|ino, _| known.contains(ino));
        for ino in &known {
            let now = || members.iter().map(|session| (*session, looks_of(session))).collect();
            self.since.entry(*ino).or_insert_with(now);
        }
        let has_looked =
            |(session, before): (&i64, &u64)| !members.contains(session) || looks_of(session) >= before + 2;
        known.into_iter().filter(|ino| self.since[ino].iter().all(has_looked)).collect()
    }
}

/// Inodes without a name that go in one round. The next begins with the locks of sessions that have ended, for which others wait.
const RECLAIMED_MAX: usize = 256;

/// The rounds of a process.
#[derive(Default)]
struct Rounds {
    count: u32,
    waiting: Waiting,
    /// What was journaled when it was looked at last.
    journaled: HashMap<(Ino, u64), JournalPage>,
    /// After which page it is looked at next: there was too much for one round.
    next_page: Option<(Ino, u64)>,
}

/// Ends with the volume.
pub(crate) fn keep(volume: &Weak<Volume>, clock: &dyn Clock) {
    let mut rounds = Rounds::default();
    loop {
        clock.block(ROUND);
        let Some(volume) = volume.upgrade() else { return };
        if volume.is_ending() {
            return;
        }
        volume.unlock_again();
        if let Err(error) = volume.house_round(&mut rounds) {
            // Whether it still is the one that keeps house it learns with the next round.
            volume.house.keeps.store(false, Ordering::Release);
            tracing::debug!("a round of the house was not finished: {error}");
        }
    }
}

impl Volume {
    /// Does what is for one process to do fall to this one?
    pub fn keeps_house(&self) -> bool {
        !self.is_shared() || self.house.keeps.load(Ordering::Acquire)
    }

    fn house_round(&self, rounds: &mut Rounds) -> Result<(), VfsError> {
        let is_open = |ino| self.files.is_open(ino);
        let orphans = self.store.look_at_orphans(&mut self.house.holding.lock(), is_open)?;
        let keeps = self.store.keeps_house()?;
        self.house.keeps.store(keeps, Ordering::Release);
        if !keeps {
            *rounds = Rounds::default();
            return Ok(());
        }
        rounds.count = rounds.count.wrapping_add(1);
        if !orphans.is_empty() {
            let (looks, members) = (self.store.looks()?, self.store.members()?);
            let ready = rounds.waiting.ready(&orphans, &looks, &members);
            let nameless = |ino: Ino| Candidate::Inode { ino, is_in_use: self.files.is_open(ino) };
            let unused =
                ready.into_iter().filter_map(|ino| match may_remove(nameless(ino), Evidence::Owner { seen_ms: 0 }) {
                    Verdict::Remove(unused) => Some(unused),
                    _ => None,
                });
            let unused: Vec<Removable> = unused.take(RECLAIMED_MAX).collect();
            self.reclaim_each(&unused);
        }
        if (rounds.count.is_multiple_of(JOURNAL_EVERY) || rounds.next_page.is_some())
            && let Err(error) = self.settle_journal(rounds)
        {
            // The bytes stay in the journal. It is the one that keeps house all the same.
            tracing::debug!("journaled bytes were not moved to segments: {error}");
        }
        Ok(())
    }

    /// Moves to segments what is journaled and did not change since it was looked at last.
    fn settle_journal(&self, rounds: &mut Rounds) -> Result<(), VfsError> {
        let Rounds { journaled: before, next_page: after, .. } = rounds;
        let mut pages = Vec::new();
        loop {
            let page = self.store.journal(*after, JOURNAL_PAGES)?;
            *after = page.last().filter(|_| page.len() == JOURNAL_PAGES).map(|(ino, page)| (*ino, page.page));
            pages.extend(page);
            if after.is_none() || pages.len() >= JOURNAL_PAGES_MAX {
                break;
            }
        }
        let is_full = pages.len() >= JOURNAL_PAGES_MAX;
        let (settled, fresh): (Vec<_>, Vec<_>) = pages
            .into_iter()
            .partition(|(ino, page)| is_full || before.get(&(*ino, page.page)).is_some_and(|known| known == page));
        *before = fresh.into_iter().map(|(ino, page)| ((ino, page.page), page)).collect();
        let mut by_policy: BTreeMap<PolicyId, Vec<(Ino, JournalPage)>> = BTreeMap::new();
        for of_file in settled.chunk_by(|one, next| one.0 == next.0) {
            match self.store.attributes(of_file[0].0) {
                Ok(attributes) => by_policy.entry(attributes.policy).or_default().extend_from_slice(of_file),
                Err(MetaError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
        }
        // What is kept by one policy does not wait for nodes that another one lacks.
        let mut outcome = Ok(());
        for (policy, pages) in by_policy {
            outcome = outcome.and(self.move_pages(policy, pages));
        }
        outcome
    }

    fn move_pages(&self, policy: PolicyId, pages: Vec<(Ino, JournalPage)>) -> Result<(), VfsError> {
        let policy = self.policies.get(&self.store, policy)?;
        let bytes_of = |page: &JournalPage| page.ranges.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>();
        let mut pages = pages.into_iter().peekable();
        while pages.peek().is_some() {
            let (mut copied, mut data, mut data_bytes) = (Vec::new(), Vec::new(), 0);
            while let Some((_, page)) = pages.peek()
                && (copied.is_empty() || data_bytes + bytes_of(page) <= policy.segment_bytes)
                && let Some((ino, page)) = pages.next()
            {
                data.extend(page.ranges.iter().map(|(_, bytes)| Bytes::copy_from_slice(bytes)));
                let segment_offset = data_bytes;
                data_bytes += bytes_of(&page);
                copied.push(CopiedPage { ino, page, segment_offset });
            }
            let now = self.now();
            let new = self.write_back.segment_ids().begin(milliseconds(now), self.store.env().rng.next_u16());
            let request = write_request(&policy.record, new.id, data);
            let receipt = self.runtime().block_on(self.transfer().write(request)).map_err(VfsError::Write)?;
            let moved_bytes = self.store.move_journal(&copied, new.id, &receipt.record, now)?;
            tracing::debug!(segment = %new.id, moved_bytes, "journaled bytes are in a segment");
            if !receipt.missing.is_empty() {
                self.store.mark_damaged(new.id)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inode_is_ready_when_all_who_were_there_have_looked_twice() {
        let mut waiting = Waiting::default();
        let (orphan, later) = (Ino(7), Ino(8));
        let looks = |one, two| BTreeMap::from([(1, one), (2, two)]);
        let members = BTreeSet::from([1, 2]);
        assert_eq!(waiting.ready(&[orphan], &looks(5, 9), &members), []);
        assert_eq!(
            waiting.ready(&[orphan], &looks(7, 10), &members),
            [],
            "the look of the second may have begun before"
        );
        assert_eq!(waiting.ready(&[orphan, later], &looks(7, 11), &members), [orphan]);
        // One who came later cannot have it; one who is gone has nothing.
        assert_eq!(waiting.ready(&[later], &looks(9, 11), &BTreeSet::from([1, 3])), [later]);
        assert!(!waiting.since.contains_key(&orphan));
    }
}
