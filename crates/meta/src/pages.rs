//! All pairs of a store, some at a time: for copies of it.

use crate::kv::{KvError, Pair, Snapshot};

/// Pairs of a page.
const PAGE: usize = 1000;
/// Beyond every key of a store.
const END: [u8; 1] = [u8::MAX];

/// The pairs of a snapshot, ascending, in pages of which none is empty.
pub struct Pages<'s> {
    snapshot: &'s dyn Snapshot,
    has_begun: bool,
    /// Where the next page starts; `None`: there is none.
    next: Option<Vec<u8>>,
}

impl<'s> Pages<'s> {
    /// All of them.
    #[must_use]
    pub fn of(snapshot: &'s dyn Snapshot) -> Self {
        Self { snapshot, has_begun: false, next: Some(Vec::new()) }
    }
}

/// Asks a question whose answer never changes. With the next question the snapshot then has its moment for good, and changes by others do not
/// end it. For a caller that asks many.
///
/// # Errors
/// The engine's.
pub fn fix_moment(snapshot: &dyn Snapshot) -> Result<(), KvError> {
    // No table has an empty key.
    snapshot.get(&[]).map(drop)
}

impl Iterator for Pages<'_> {
    type Item = Result<Vec<Pair>, KvError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.next.take()?;
        if !self.has_begun {
            self.has_begun = true;
            if let Err(error) = fix_moment(self.snapshot) {
                return Some(Err(error));
            }
        }
        let pairs = match self.snapshot.scan(&start, &END, PAGE) {
            Ok(pairs) => pairs,
            Err(error) => return Some(Err(error)),
        };
        let (last, _) = pairs.last()?;
        if pairs.len() == PAGE {
            self.next = Some([&last[..], &[0]].concat());
        }
        Some(Ok(pairs))
    }
}
