//! How a mount ended: a note beside the metadata, for `weft umount`, which waits for the mount's process but is not its parent.
//!
//! The note names the process and when it began, so one that an earlier mount left is not taken for it. Where there is none
//! the process ended without having said that everything was written.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use weft_meta::MetaUrl;
use weft_meta::owner::Holder;

/// A sentence; more than this is not ours.
const NOTE_BYTES_MAX: u64 = 16 << 10;

/// `<metadata>-ended`; where several mounts change the volume one for each process.
fn path(meta: &MetaUrl, holder: &Holder, suffix: &str) -> PathBuf {
    let of = if meta.has_sessions() { format!("-{}", holder.process) } else { String::new() };
    meta.note_file(&format!("-ended{of}{suffix}"))
}

fn head(holder: &Holder) -> String {
    format!("process {}\nstarted {}\n", holder.process, holder.started)
}

/// Notes how the mount of `holder` ended: written under an unpredictable name, then renamed.
///
/// # Errors
/// The file cannot be written.
pub fn note(meta: &MetaUrl, holder: &Holder, outcome: Result<(), &str>) -> io::Result<()> {
    let text = match outcome {
        Ok(()) => format!("{}written\n", head(holder)),
        Err(sentence) => format!("{}lost {sentence}\n", head(holder)),
    };
    let new = path(meta, holder, &format!(".{}", holder.process));
    if let Err(error) = fs::remove_file(&new)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&new, path(meta, holder, ""))
}

/// How it ended: `Err` with a sentence if bytes were lost; `None` if it has not said.
#[must_use]
pub fn of(meta: &MetaUrl, holder: &Holder) -> Option<Result<(), String>> {
    let note = path(meta, holder, "");
    if fs::metadata(&note).ok()?.len() > NOTE_BYTES_MAX {
        return None;
    }
    let text = fs::read_to_string(&note).ok()?;
    if meta.has_sessions() {
        // One for each process would be many in time.
        let _ = fs::remove_file(note);
    }
    match text.strip_prefix(&head(holder))?.trim_end().split_once(' ') {
        None => Some(Ok(())),
        Some((_, sentence)) => Some(Err(sentence.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weft_env::SystemClock;

    #[test]
    fn finding_08_a_note_is_of_one_mount() {
        let folder = tempfile::tempdir().expect("a folder");
        let meta = folder.path().join("meta.db").into();
        let holder = Holder::this_process(None, &SystemClock);
        assert_eq!(of(&meta, &holder), None);
        note(&meta, &holder, Err("3 bytes are lost: why")).expect("writes");
        assert_eq!(of(&meta, &holder), Some(Err("3 bytes are lost: why".into())));
        note(&meta, &holder, Ok(())).expect("writes");
        assert_eq!(of(&meta, &holder), Some(Ok(())));
        assert_eq!(of(&meta, &Holder { started: holder.started + 1, ..holder }), None);
        assert_eq!(fs::read_dir(folder.path()).expect("lists").count(), 1);
    }
}
