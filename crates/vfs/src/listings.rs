//! Directories that are being listed. A kernel takes some 25 entries a call, an engine gives a thousand in one fetch: the rest of a page
//! is kept until it is asked for.
//!
//! A page is dropped as soon as this process changes any metadata, so that no name or attribute is older than the call that asked for
//! it. Where others change names, nothing is kept.

use crate::files::Files;
use weft_env::sync::Mutex;
use weft_format::Ino;
use weft_format::records::Attributes;
use weft_meta::{Entry, MetaError, Store};

/// Entries of one fetch.
const PAGE_ENTRIES: usize = 1000;

/// Directories listed at one time; of more, the first begins again.
const PAGES_MAX: usize = 8;

/// The part of a directory that was read and not listed yet.
struct Page {
    directory: Attributes,
    /// It continues after this entry.
    after_cookie: u64,
    entries: std::vec::IntoIter<Entry>,
    /// How many of it were listed.
    listed_count: usize,
    /// Nothing comes after it.
    is_last: bool,
    /// The store's changes, and the files that had left the table, before it was read.
    change_count: u64,
    left_count: u64,
}

/// What a call lists.
pub(crate) struct Listed {
    pub directory: Attributes,
    pub entries: Vec<Entry>,
    /// See [`Files::left_count`].
    pub left_count: u64,
}

/// Pages that are kept, the latest last.
#[derive(Default)]
pub(crate) struct Listings {
    pages: Mutex<Vec<Page>>,
}

impl Listings {
    /// Up to `limit` entries after `after_cookie`. `keeps`: nobody else changes names, so that the rest of the page may be kept.
    pub fn next(
        &self,
        store: &Store,
        files: &Files,
        directory: Ino,
        (after_cookie, limit): (u64, usize),
        keeps: bool,
    ) -> Result<Listed, MetaError> {
        let known = self.take(directory, after_cookie);
        let mut page = match known {
            Some(page) if page.change_count == store.change_count() => page,
            // Whoever changes what it lists drops page after page: twice what it used of the last one is enough.
            stale => {
                let used = stale.map_or(PAGE_ENTRIES, |stale| 2 * stale.listed_count);
                let wanted = if keeps { used.clamp(limit, PAGE_ENTRIES.max(limit)) } else { limit };
                Page::read(store, files, directory, after_cookie, wanted)?
            }
        };
        let entries: Vec<Entry> = page.entries.by_ref().take(limit).collect();
        let listed = Listed { directory: page.directory, left_count: page.left_count, entries };
        page.listed_count += listed.entries.len();
        page.after_cookie = listed.entries.last().map_or(after_cookie, |entry| entry.cookie);
        if keeps && (page.entries.len() > 0 || page.is_last && !listed.entries.is_empty()) {
            let mut pages = self.pages.lock();
            if pages.len() == PAGES_MAX {
                pages.remove(0);
            }
            pages.push(page);
        }
        Ok(listed)
    }

    fn take(&self, directory: Ino, after_cookie: u64) -> Option<Page> {
        let mut pages = self.pages.lock();
        let is_next = |page: &Page| page.directory.ino == directory && page.after_cookie == after_cookie;
        pages.iter().position(is_next).map(|index| pages.remove(index))
    }
}

impl Page {
    fn read(store: &Store, files: &Files, directory: Ino, after_cookie: u64, wanted: usize) -> Result<Self, MetaError> {
        let (change_count, left_count) = (store.change_count(), files.left_count());
        let listing = store.read_directory(directory, after_cookie, wanted)?;
        Ok(Self {
            directory: listing.directory,
            after_cookie,
            is_last: listing.entries.len() < wanted,
            entries: listing.entries.into_iter(),
            listed_count: 0,
            change_count,
            left_count,
        })
    }
}
