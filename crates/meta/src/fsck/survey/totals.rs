//! What is counted of the whole volume.

use std::collections::{BTreeMap, BTreeSet};

use weft_format::records::{SegmentSum, SumsRecord};

use super::{Finding, Survey, put};
use crate::MetaError;
use crate::keys::{Counter, Key};
use crate::store::values::{self, Usage, damaged};

impl Survey<'_> {
    pub(super) fn totals(&mut self) -> Result<(), MetaError> {
        let roster = self.get(Key::Roster)?.map(|bytes| values::decode_number(&Key::Roster, &bytes)).transpose();
        self.note(roster)?;
        let inodes = (self.inodes.len() + self.unreadable_inodes.len()) as u64;
        let live_bytes = self.segments.iter().map(|segment| segment.live_bytes).sum();
        let counted = Usage { inodes, live_bytes };
        let stored = self.get(Key::Usage)?.map(|bytes| Usage::decode(&bytes)).transpose();
        if let Some(stored) = self.note(stored)?
            && stored != Some(counted)
        {
            self.report(Finding::WrongUsage { inodes, live_bytes }, vec![put(Key::Usage, counted.encode())]);
        }
        let last_ino = self.inodes.last().max(self.unreadable_inodes.last().copied()).map_or(1, |ino| ino.0);
        for (counter, used) in [(Counter::Ino, last_ino), (Counter::Cookie, self.last_cookie.max(15))] {
            let key = Key::Counter(counter);
            let stored = self.get(key)?.map(|bytes| values::decode_number(&key, &bytes)).transpose();
            if let Some(stored) = self.note(stored)? {
                let next = stored.unwrap_or(0);
                if next <= used {
                    let mend = vec![put(key, values::number(used.saturating_add(1)))];
                    self.report(Finding::CounterBehind { key: key.to_string(), next, used }, mend);
                }
            }
        }
        Ok(())
    }

    /// What is counted of segments, by code. The owner's record takes all of it, and nothing has changed since.
    pub(super) fn check_sums(&mut self) -> Result<(), MetaError> {
        let mut stored = Some(SumsRecord::default());
        for key in [Key::Sums, Key::SumChanges] {
            let Some(bytes) = self.get(key)? else {
                self.missing(key, SumsRecord::default().encode());
                return Ok(());
            };
            let some = SumsRecord::decode(&bytes).map_err(|error| damaged(&key, error));
            let Some(some) = self.note(some)? else { return Ok(()) };
            stored = stored.and_then(|sums| sums.plus(&some));
        }
        // Where one cannot be read, nobody knows what it counts.
        if stored.as_ref() == Some(&self.sums) || !self.unreadable_segments.is_empty() {
            return Ok(());
        }
        let counted: BTreeMap<String, SegmentSum> = by_code(&self.sums);
        let said = by_code(&stored.unwrap_or_default());
        let mend = vec![put(Key::Sums, self.sums.encode()), put(Key::SumChanges, SumsRecord::default().encode())];
        let codes: BTreeSet<&String> = counted.keys().chain(said.keys()).collect();
        for code in codes.into_iter().filter(|code| counted.get(*code) != said.get(*code)) {
            let SegmentSum { segment_count, data_bytes, .. } = counted.get(code).cloned().unwrap_or_default();
            self.report(Finding::WrongSums { code: code.clone(), segment_count, data_bytes }, mend.clone());
        }
        Ok(())
    }
}

fn by_code(sums: &SumsRecord) -> BTreeMap<String, SegmentSum> {
    sums.by_code().map(|(code, sum)| (code.to_owned(), sum.clone())).collect()
}
