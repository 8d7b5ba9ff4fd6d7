//! Who may change a name: a question that an operation asks within its transaction.

use crate::MetaError;
use crate::types::NewInode;
use weft_format::records::Attributes;

/// Why a caller may not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The mode bits of a file or directory do not allow it.
    #[error("permission denied")]
    Mode,
    /// Only the owner may, or somebody with a capability that the caller lacks.
    #[error("operation not permitted")]
    Privilege,
}

/// The inodes of a rename, before it.
#[derive(Clone, Copy, Debug)]
pub struct Renaming<'a> {
    /// The directory that loses a name.
    pub old_directory: &'a Attributes,
    /// What moves.
    pub moved: &'a Attributes,
    /// The directory that gets a name; may be the same.
    pub new_directory: &'a Attributes,
    /// What has the new name, if anything does.
    pub target: Option<&'a Attributes>,
    /// Are the two names swapped?
    pub is_exchange: bool,
}

/// Says whether an operation may go on. It is asked with the attributes that the operation's transaction has read, and what is
/// read is checked at commit: an answer never rests on attributes that changed meanwhile. A transaction that is tried again
/// asks again, so an answer depends on the arguments only.
///
/// `()` allows everything: for callers that somebody else has checked, as the kernel does for FUSE.
pub trait Guard {
    /// A name is looked up in `directory`. Asked before anything is said about the name.
    fn search(&self, _directory: &Attributes) -> Result<(), MetaError> {
        Ok(())
    }

    /// `new`, whose name is free, is made in `directory`. Its mode may be changed.
    fn create(&self, _directory: &Attributes, _new: &mut NewInode) -> Result<(), MetaError> {
        Ok(())
    }

    /// `source` gets one more name, which is free, in `directory`.
    fn link(&self, _directory: &Attributes, _source: &Attributes) -> Result<(), MetaError> {
        Ok(())
    }

    /// `victim` loses a name in `directory`.
    fn remove(&self, _directory: &Attributes, _victim: &Attributes) -> Result<(), MetaError> {
        Ok(())
    }

    /// A name moves.
    fn rename(&self, _renaming: &Renaming<'_>) -> Result<(), MetaError> {
        Ok(())
    }

    /// An extended attribute of `inode` is set or removed.
    fn change_xattr(&self, _inode: &Attributes, _name: &[u8]) -> Result<(), MetaError> {
        Ok(())
    }
}

impl Guard for () {}
