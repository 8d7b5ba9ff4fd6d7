//! Files in which this machine remembers something of a store that is elsewhere.

use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

/// In this user's folder for what programs remember, named after the address.
pub(in crate::engines) fn file(shown: &str, suffix: &str) -> PathBuf {
    let word = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let readable: String = shown.chars().map(word).take(100).collect();
    let digest = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, shown.as_bytes());
    let folder = state_folder();
    if let Err(error) = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder) {
        tracing::debug!(folder = %folder.display(), %error, "nothing can be noted there");
    }
    folder.join(format!("{readable}-{digest:016x}{suffix}"))
}

fn state_folder() -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")));
    state.unwrap_or_else(|| PathBuf::from("/var/lib")).join("weft")
}
