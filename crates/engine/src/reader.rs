//! A volume open for reading, beside the owner.

use crate::error::EngineError;
use crate::kinds::kinds_of;
use crate::runtime::{Threads, runtime};
use weft_env::Env;
use weft_meta::MetaUrl;
use weft_vfs::Reader;
use weft_vfs::open::Opener;

/// The files of a volume that others may own.
pub struct VolumeReader {
    reader: Reader,
    /// Runs transfers as long as the reader lives.
    _runtime: Threads,
}

impl VolumeReader {
    /// Opens the volume with the metadata at `meta`.
    ///
    /// # Errors
    /// Metadata is missing, not ours or of a newer format; a node of it cannot be opened by this program.
    pub fn open(meta: &MetaUrl, env: &Env, transfer: weft_transfer::Settings) -> Result<VolumeReader, EngineError> {
        let runtime = runtime()?;
        let opener = Opener::new(kinds_of(Some(meta), false, env));
        let reader = weft_vfs::open::open_reader(meta, &opener, transfer, env, runtime.handle())?;
        Ok(VolumeReader { reader, _runtime: runtime })
    }

    /// Its files.
    #[must_use]
    pub fn reader(&self) -> &Reader {
        &self.reader
    }
}
