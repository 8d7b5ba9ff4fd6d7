//! Backups of stores on servers: files of SQLite, as those of other stores.

use crate::engines::{OpenError, Pieces, sqlite};
use crate::kv::{Kv, Slot};
use crate::pages::Pages;
use crate::unfinished::marked;
use std::path::Path;

/// Pairs that are loaded at once.
const PAGE: usize = 1000;

/// Writes a store as of one moment, while others change it.
///
/// # Errors
/// The store cannot be read, or the file not be written.
pub(in crate::engines) fn write(store: &dyn Kv, to: &Path) -> Result<(), OpenError> {
    let snapshot = store.snapshot()?;
    let mut pages = Pages::of(&*snapshot);
    sqlite::load_backup(to, &mut || {
        let page = pages.next().transpose().map_err(|error| error.to_string())?;
        Ok(page.map(|pairs| pairs.into_iter().map(|(key, value)| (key, Some(value))).collect()))
    })
}

/// Loads what a backup has.
///
/// # Errors
/// It is none, or those of `load`.
pub(in crate::engines) fn read(
    from: &Path,
    load: impl FnOnce(&mut Pieces<'_>) -> Result<(), OpenError>,
) -> Result<(), OpenError> {
    let pairs = sqlite::read_backup(from)?;
    let mut pages = pairs.chunks(PAGE).map(<[Slot]>::to_vec);
    load(&mut marked(&mut || Ok(pages.next())))
}
