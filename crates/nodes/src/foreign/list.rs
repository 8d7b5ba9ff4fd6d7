//! Lists that are complete or an error.
//!
//! A service may cut a list short, or answer a page that reads as an empty one. So each list must show what is known to be
//! there: the identity file, which no shard's name follows in order, at the end of a flat list; and of a folder the folder
//! itself. A service may also give the same page again and again: a list in which names come back is an error, too.

use super::answer::silent;
use super::failure::Refusal;
use super::service::Layout;
use crate::error::NodeErrorKind;
use crate::folder::{IDENTITY_FILE, TEMPORARY_PREFIX, is_subfolder, subfolder};
use futures_util::{StreamExt, TryStreamExt, stream};
use opendal::{EntryMode, Lister, Metadata, Operator};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::time::timeout;
use weft_format::ShardKey;

/// A list is as long as the store is full. A count in the background may take longer, and stands still no longer than this.
pub(super) const LIST_DEADLINE: Duration = Duration::from_secs(600);

/// Most foreign names reported by one list: enough to see what is going on.
const FOREIGN_MAX: usize = 1000;

/// Folders listed at a time.
const FOLDERS_AT_A_TIME: usize = 8;

/// What S3 gives in one page at most.
const PAGE_MAX: usize = 1000;

/// Some drives keep two files of one name. A name that comes back oftener belongs to a list that begins again.
const SAME_NAMES_MAX: usize = 4;

/// One object that is a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Listed {
    pub(super) key: ShardKey,
    pub(super) bytes: u64,
}

/// What a list found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// In no order.
    pub(super) shards: Vec<Listed>,
    /// Ascending.
    pub(super) foreign: Vec<String>,
    /// Puts that were cut off, perhaps, with the time in milliseconds since the Unix epoch.
    pub(super) unfinished: Vec<(String, u64)>,
}

impl Found {
    fn foreign(&mut self, name: &str) {
        if self.foreign.len() < FOREIGN_MAX {
            self.foreign.push(name.to_owned());
        }
    }
}

/// All that is there.
pub(super) async fn everything(operator: &Operator, layout: Layout) -> opendal::Result<Found> {
    let mut found = match layout {
        Layout::Flat => flat(operator, None, usize::MAX).await?.0,
        Layout::Folders { show_themselves, leaves_temporary, .. } => {
            folders(operator, show_themselves, leaves_temporary).await?
        }
    };
    found.foreign.sort_unstable();
    Ok(found)
}

/// Of a flat store that lists in order: at least `limit` shards after `after`, if there are so many, with all of their
/// segments; and whether there may be more.
pub(super) async fn flat(operator: &Operator, after: Option<ShardKey>, limit: usize) -> opendal::Result<(Found, bool)> {
    let mut lister = operator.lister_with("/");
    if let Some(after) = after {
        // Within a segment names are not in the order of keys: all of its shards are looked at again.
        lister = lister.start_after(&after.segment.to_string());
    }
    if limit < PAGE_MAX {
        lister = lister.limit(limit + 1);
    }
    let mut lister = lister.await?;
    let mut found = Found::default();
    let mut ends = false;
    let mut names = Names::default();
    while let Some(entry) = next(&mut lister).await? {
        let name = entry.path();
        // Folders may be in each page.
        if !name.is_empty() && !name.ends_with('/') {
            names.go_on(name)?;
        }
        if name == IDENTITY_FILE {
            ends = true;
            continue;
        }
        match name.parse::<ShardKey>() {
            Ok(key) if after.is_some_and(|after| key <= after) => {}
            Ok(key) => {
                let begins_segment = found.shards.last().is_some_and(|last| last.key.segment != key.segment);
                if begins_segment && found.shards.len() >= limit {
                    return Ok((found, true));
                }
                found.shards.push(Listed { key, bytes: entry.metadata().content_length() });
            }
            // The prefix itself, which some tools make an object of.
            Err(_) if matches!(name, "" | "/") => {}
            Err(_) => found.foreign(name),
        }
    }
    match ends {
        true => Ok((found, false)),
        false => Err(cut_short("/")),
    }
}

async fn folders(operator: &Operator, show_themselves: bool, leaves_temporary: bool) -> opendal::Result<Found> {
    let mut found = Found::default();
    let mut subfolders = Vec::new();
    let mut has_identity = false;
    for entry in one_folder(operator, "/", show_themselves).await? {
        let name = entry.name.trim_end_matches('/');
        if name == IDENTITY_FILE {
            has_identity = true;
        } else if entry.is_folder && is_subfolder(name) {
            subfolders.push(name.to_owned());
        } else if leaves_temporary && !entry.is_folder && is_temporary(name) {
            found.unfinished.push((name.to_owned(), entry.modified_ms));
        } else if name != "lost+found" && !name.starts_with(TEMPORARY_PREFIX) {
            found.foreign(&entry.name);
        }
    }
    if !has_identity {
        return Err(cut_short("/"));
    }
    let list = |name: String| {
        let operator = operator.clone();
        async move {
            let entries = one_folder(&operator, &format!("{name}/"), show_themselves).await?;
            Ok::<_, opendal::Error>((name, entries))
        }
    };
    let listed: Vec<_> = subfolders.into_iter().map(list).collect();
    let listed: Vec<_> = stream::iter(listed).buffered(FOLDERS_AT_A_TIME).try_collect().await?;
    for (folder, entries) in listed {
        for Entry { name, bytes, modified_ms, .. } in entries {
            match name.parse::<ShardKey>() {
                Ok(key) if subfolder(key) == folder => found.shards.push(Listed { key, bytes }),
                _ if name.starts_with(TEMPORARY_PREFIX) => {
                    found.unfinished.push((format!("{folder}/{name}"), modified_ms));
                }
                _ => found.foreign(&format!("{folder}/{name}")),
            }
        }
    }
    Ok(found)
}

async fn next(lister: &mut Lister) -> opendal::Result<Option<opendal::Entry>> {
    timeout(LIST_DEADLINE, lister.try_next()).await.unwrap_or_else(|_| Err(silent()))
}

/// The names of a list, in any order. One at a time is kept to see whether it comes back.
#[derive(Default)]
struct Names {
    kept: String,
    seen: usize,
    /// How often the kept one came.
    times: usize,
}

impl Names {
    /// One more name; an error if the list does not get on.
    fn go_on(&mut self, name: &str) -> opendal::Result<()> {
        self.seen += 1;
        // Each is kept for twice as long as the one before, so that one of them is kept for some rounds of any length.
        if self.seen.is_power_of_two() {
            (self.kept, self.times) = (name.to_owned(), 1);
        } else if self.kept == name {
            self.times += 1;
        }
        if self.times <= SAME_NAMES_MAX {
            return Ok(());
        }
        let detail =
            "its list gives the same names again and again: see whether what answers there gives lists in pages"
                .to_owned();
        Err(Refusal { kind: NodeErrorKind::Corrupt, detail }.into())
    }
}

/// Is it a name that OpenDAL gives to a shard while it stores it: the shard's, a dot, and eight letters and digits at random? People may name a
/// copy by a word or a date: names without capitals or without small letters are left alone. One in forty of OpenDAL's is such a name.
fn is_temporary(name: &str) -> bool {
    let Some((key, random)) = name.rsplit_once('.') else { return false };
    let has = |is: fn(&u8) -> bool| random.as_bytes().iter().any(is);
    key.parse::<ShardKey>().is_ok()
        && random.len() == 8
        && !has(|byte| !byte.is_ascii_alphanumeric())
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
}

struct Entry {
    /// Within its folder.
    name: String,
    is_folder: bool,
    bytes: u64,
    modified_ms: u64,
}

/// What is in a folder, which must show itself where folders do: one that is not there lists as empty.
async fn one_folder(operator: &Operator, path: &str, must_show_itself: bool) -> opendal::Result<Vec<Entry>> {
    let mut lister = operator.lister(path).await?;
    let mut entries = Vec::new();
    let mut shows_itself = !must_show_itself;
    let mut names = Names::default();
    while let Some(entry) = next(&mut lister).await? {
        let name = entry.path().strip_prefix(path).unwrap_or(entry.path());
        if entry.path() == path || matches!(name, "" | "/") {
            shows_itself = true;
            continue;
        }
        names.go_on(name)?;
        let metadata = entry.metadata();
        entries.push(Entry {
            name: name.to_owned(),
            is_folder: metadata.mode() == EntryMode::DIR,
            bytes: metadata.content_length(),
            modified_ms: modified_ms(metadata),
        });
    }
    match shows_itself {
        true => Ok(entries),
        false => Err(cut_short(path)),
    }
}

/// Milliseconds since the Unix epoch; 0 where the service does not say.
pub(super) fn modified_ms(metadata: &Metadata) -> u64 {
    let modified = metadata.last_modified().map(SystemTime::from);
    modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).map_or(0, |elapsed| elapsed.as_millis() as u64)
}

fn cut_short(path: &str) -> opendal::Error {
    let detail = format!("the list of {path} lacks what must be in it, so that it may be cut short: try again");
    Refusal { kind: NodeErrorKind::Unavailable, detail }.into()
}
