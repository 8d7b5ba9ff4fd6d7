//! All pairs of a store, some at a time: for copies of it.

use crate::kv::{KvError, Pair, Snapshot};

/// Pairs of a page.
const PAGE: usize = 1000;
/// Beyond every key of a store.
const END: [u8; 1] = [u8::MAX];

/// The pairs of a snapshot, ascending, in pages of which none is empty.
pub struct Pages<'s> {
    snapshot: &'s dyn Snapshot,
    /// Where the next page starts; `None`: there is none.
    next: Option<Vec<u8>>,
}

impl<'s> Pages<'s> {
    /// All of them.
    #[must_use]
    pub fn of(snapshot: &'s dyn Snapshot) -> Self {
        Self { snapshot, next: Some(Vec::new()) }
    }
}

impl Iterator for Pages<'_> {
    type Item = Result<Vec<Pair>, KvError>;

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.next.take()?;
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
