//! Extended attributes.

use weft_format::Ino;
use weft_format::records::{Attributes, Timestamp};

use super::{Guarded, Store};
use crate::MetaError;
use crate::keys::{Key, Table, after, of_ino};
use crate::types::{CAPABILITY_XATTR, XattrMode};

/// Linux's own limits (`XATTR_NAME_MAX`, `XATTR_SIZE_MAX`).
const MAX_NAME_BYTES: usize = 255;
const MAX_VALUE_BYTES: usize = 64 << 10;

/// Attributes read at once; a value may have 64 KiB.
const LIST_PAIRS: usize = 64;

fn check_name(name: &[u8]) -> Result<(), MetaError> {
    if name.len() > MAX_NAME_BYTES {
        return Err(MetaError::NameTooLong { bytes: name.len() });
    }
    if name.is_empty() || name.contains(&0) { Err(MetaError::InvalidName) } else { Ok(()) }
}

impl Store {
    /// An extended attribute's value.
    ///
    /// # Errors
    /// `NoAttribute`, `NotFound`, `NameTooLong`, `InvalidName`.
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>, MetaError> {
        check_name(name)?;
        self.view(|txn| {
            txn.fetch(&[Key::Inode(ino), Key::Xattr(ino, name)], &[])?;
            match txn.get(Key::Xattr(ino, name))? {
                Some(value) => Ok(value),
                None => txn.inode(ino).and(Err(MetaError::NoAttribute)),
            }
        })
    }

    /// The attributes of an inode, and whether it has [`CAPABILITY_XATTR`].
    ///
    /// # Errors
    /// `NotFound`.
    pub fn attributes_and_capability(&self, ino: Ino) -> Result<(Attributes, bool), MetaError> {
        let capability = Key::Xattr(ino, CAPABILITY_XATTR);
        self.view(|txn| {
            txn.fetch(&[Key::Inode(ino), capability], &[])?;
            Ok((txn.inode(ino)?, txn.get(capability)?.is_some()))
        })
    }

    /// [`Guarded::set_xattr`], of whom nobody need ask.
    ///
    /// # Errors
    /// As there.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: Timestamp,
    ) -> Result<(), MetaError> {
        self.guarded(&()).set_xattr(ino, name, value, mode, now)
    }

    /// [`Guarded::remove_xattr`], of whom nobody need ask.
    ///
    /// # Errors
    /// As there.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8], now: Timestamp) -> Result<(), MetaError> {
        self.guarded(&()).remove_xattr(ino, name, now)
    }

    /// The names of all extended attributes of an inode.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>, MetaError> {
        self.view(|txn| {
            txn.inode(ino)?;
            let mut names = Vec::new();
            let mut range = of_ino(Table::Xattr, ino);
            loop {
                let pairs = txn.scan(&range, LIST_PAIRS)?;
                let keys = pairs.iter().filter_map(|(key, _)| Key::parse(key));
                names.extend(keys.filter_map(|key| match key {
                    Key::Xattr(_, name) => Some(name.to_vec()),
                    _ => None,
                }));
                match pairs.last().filter(|_| pairs.len() == LIST_PAIRS) {
                    Some((last, _)) => range = after(range, Key::parse(last)),
                    None => return Ok(names),
                }
            }
        })
    }
}

impl Guarded<'_> {
    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute` (by `mode`), `NotFound`, `NameTooLong`, `InvalidName`, `AttributeTooLarge`.
    pub fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
        now: Timestamp,
    ) -> Result<(), MetaError> {
        check_name(name)?;
        if value.len() > MAX_VALUE_BYTES {
            return Err(MetaError::AttributeTooLarge { bytes: value.len() });
        }
        self.store.transact_by_key(|txn| {
            txn.fetch(&[Key::Inode(ino), Key::Xattr(ino, name)], &[])?;
            let mut attributes = txn.inode(ino)?;
            self.guard.change_xattr(&attributes, name)?;
            let exists = txn.get(Key::Xattr(ino, name))?.is_some();
            match mode {
                XattrMode::Create if exists => return Err(MetaError::Exists),
                XattrMode::Replace if !exists => return Err(MetaError::NoAttribute),
                _ => {}
            }
            txn.put(Key::Xattr(ino, name), value.to_vec());
            attributes.ctime = now;
            txn.put_inode(&attributes);
            Ok(())
        })
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `NotFound`, `NameTooLong`, `InvalidName`.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8], now: Timestamp) -> Result<(), MetaError> {
        check_name(name)?;
        self.store.transact_by_key(|txn| {
            txn.free_room();
            txn.fetch(&[Key::Inode(ino), Key::Xattr(ino, name)], &[])?;
            let mut attributes = txn.inode(ino)?;
            self.guard.change_xattr(&attributes, name)?;
            txn.get(Key::Xattr(ino, name))?.ok_or(MetaError::NoAttribute)?;
            txn.remove(Key::Xattr(ino, name));
            attributes.ctime = now;
            txn.put_inode(&attributes);
            Ok(())
        })
    }
}

#[cfg(test)]
#[path = "xattrs_tests.rs"]
mod tests;
