//! A table that is read beside another of the same order: each record of both is read once, and no record is held.

use std::collections::VecDeque;
use std::ops::Range;

use super::Survey;
use crate::MetaError;
use crate::keys::Key;
use crate::kv::Pair;

/// What a check does with a record.
pub(super) type Look<'s> = fn(&mut Survey<'s>, Key<'_>, &[u8]) -> Result<(), MetaError>;

/// The records of a range, in pages.
pub(super) struct Lane {
    range: Range<Vec<u8>>,
    page: VecDeque<Pair>,
    page_pairs: usize,
}

impl Lane {
    pub fn new(range: Range<Vec<u8>>, page_pairs: usize) -> Self {
        Self { range, page: VecDeque::new(), page_pairs }
    }

    /// The next record, if it lies before `end`.
    pub fn next_before(&mut self, end: &[u8], survey: &mut Survey<'_>) -> Result<Option<Pair>, MetaError> {
        if self.page.is_empty() {
            self.page = survey.page(&mut self.range, self.page_pairs)?.into();
        }
        Ok(self.page.pop_front_if(|(key, _)| key.as_slice() < end))
    }

    /// Reads up to `end`, and looks at each record.
    pub fn skip_to<'s>(&mut self, end: &[u8], survey: &mut Survey<'s>, look: Look<'s>) -> Result<(), MetaError> {
        while let Some((key, value)) = self.next_before(end, survey)? {
            survey.see(&key, &value, look)?;
        }
        Ok(())
    }

    /// The value of `key`; looks at each record before it. Keys ascend from call to call.
    pub fn at<'s>(
        &mut self,
        key: Key<'_>,
        survey: &mut Survey<'s>,
        look: Look<'s>,
    ) -> Result<Option<Vec<u8>>, MetaError> {
        let key = key.encode();
        self.skip_to(&key, survey, look)?;
        Ok(self.page.pop_front_if(|(next, _)| *next == key).map(|(_, value)| value))
    }

    /// Reads to the end, and looks at each record.
    pub fn finish<'s>(mut self, survey: &mut Survey<'s>, look: Look<'s>) -> Result<(), MetaError> {
        let end = self.range.end.clone();
        self.skip_to(&end, survey, look)
    }
}
