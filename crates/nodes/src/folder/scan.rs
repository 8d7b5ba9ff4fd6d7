//! Listing. Subfolders are by the random end of the segment id, so ascending order needs a scan of all of them; one scan
//! serves the pages that follow it.

use super::files::{names, open_beneath};
use super::layout::{IDENTITY_FILE, TEMPORARY_PREFIX, is_subfolder, subfolder};
use super::place::{Place, Root};
use crate::error::NodeError;
use crate::node::Page;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weft_format::ShardKey;

/// Most keys kept of one scan: 32 MiB of them. A larger folder is scanned again for each million.
const KEYS_PER_SCAN: usize = 1 << 20;

/// Most foreign names reported by one scan: enough to see what is going on.
const FOREIGN_PER_SCAN: usize = 1000;

/// No put takes a day.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(24 * 3600);

/// The keys after one key, as one scan found them.
pub(super) struct Scan {
    /// Weak: a listing that nobody goes on with must not keep the disk busy.
    root: Weak<Root>,
    after: Option<ShardKey>,
    /// Ascending.
    pub(super) keys: Vec<ShardKey>,
    foreign: Vec<String>,
    /// Are there keys beyond the last?
    pub(super) more: bool,
}

/// Up to `limit` keys after `after`.
pub(super) fn page(
    place: &Place,
    last: &Mutex<Option<Scan>>,
    after: Option<ShardKey>,
    limit: usize,
) -> Result<Page, NodeError> {
    let root = place.attached()?;
    // Only a page that goes on where the last one ended: whoever begins anew wants to see what is there now.
    let continued = last.lock().take_if(|scan| {
        after.is_some()
            && scan.after == after
            && scan.root.as_ptr() == Arc::as_ptr(&root)
            && (scan.keys.len() > limit || !scan.more)
    });
    let mut scan = match continued {
        Some(scan) => scan,
        None => {
            let found = scan_all(&root, after, KEYS_PER_SCAN.max(limit));
            found.map_err(|errno| match errno {
                Errno::NOENT => place.absent_folder(&root),
                errno => place.failure(errno, "listing it"),
            })?
        }
    };
    // The folder may have gone while it was read, and then looks empty.
    if !Arc::ptr_eq(&place.attached()?, &root) {
        return Err(place.absent_folder(&root));
    }
    let rest = scan.keys.split_off(limit.min(scan.keys.len()));
    let keys = std::mem::replace(&mut scan.keys, rest);
    let foreign = std::mem::take(&mut scan.foreign);
    let more = scan.more || !scan.keys.is_empty();
    if more && !keys.is_empty() {
        scan.after = keys.last().copied();
        *last.lock() = Some(scan);
    }
    Ok(Page { keys, foreign, more })
}

pub(super) fn scan_all(root: &Arc<Root>, after: Option<ShardKey>, key_limit: usize) -> rustix::io::Result<Scan> {
    // The largest is on top and leaves first.
    let mut smallest = BinaryHeap::new();
    let mut foreign = Vec::new();
    let mut more = false;
    let mut report = |name: String| {
        // Once for the whole listing, not with every scan of it.
        if after.is_none() && foreign.len() < FOREIGN_PER_SCAN {
            foreign.push(name);
        }
    };
    for folder_name in names(&root.dir)? {
        let folder_name = folder_name.to_string_lossy().into_owned();
        if folder_name == IDENTITY_FILE || folder_name == "lost+found" || folder_name.starts_with(TEMPORARY_PREFIX) {
            continue;
        }
        if !is_subfolder(&folder_name) {
            report(folder_name);
            continue;
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let folder = match open_beneath(&root.dir, &folder_name, flags, ResolveFlags::empty()) {
            Ok(folder) => folder,
            Err(Errno::NOTDIR | Errno::LOOP) => {
                report(folder_name);
                continue;
            }
            Err(errno) => return Err(errno),
        };
        for name in names(&folder)? {
            let name = name.to_string_lossy();
            if name.starts_with(TEMPORARY_PREFIX) {
                remove_if_given_up(&folder, &name);
                continue;
            }
            match name.parse::<ShardKey>() {
                Ok(key) if subfolder(key) == folder_name => {
                    if after.is_none_or(|after| key > after) {
                        smallest.push(key);
                    }
                }
                _ => report(format!("{folder_name}/{name}")),
            }
            if smallest.len() > key_limit {
                smallest.pop();
                more = true;
            }
        }
    }
    foreign.sort_unstable();
    Ok(Scan { root: Arc::downgrade(root), after, keys: smallest.into_sorted_vec(), foreign, more })
}

/// A put that a crash cut off leaves its file where there are no unnamed ones. Should the clock be wrong and the put be
/// under way, that put fails and nothing else.
fn remove_if_given_up(folder: &OwnedFd, name: &str) {
    let Ok(stat) = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let modified = Duration::from_secs(u64::try_from(stat.st_mtime).unwrap_or(0));
    let age = SystemTime::now().duration_since(UNIX_EPOCH + modified).unwrap_or_default();
    if age > GIVEN_UP_AFTER {
        // Next time, if not now.
        let _ = rustix::fs::unlinkat(folder, name, AtFlags::empty());
    }
}
