//! A mount that outlives the command that started it.
//!
//! The command runs itself again with `--detached`; the child mounts, and says on its standard output how that went: one
//! line of JSON, then it lets go of it. A process cannot fork once it has threads, and starting anew needs no unsafe code.

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use weft_engine::MetaUrl;

/// How the start of a mount ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is in service.
    Ready,
    /// It is not; the sentence says why.
    Failed(String),
    /// It is not, because this machine or user has no FUSE.
    NoFuse(String),
}

/// Where a mount in the background writes what it has to say.
pub fn log_path(meta: &MetaUrl) -> PathBuf {
    meta.note_file(".log")
}

/// Starts `weft mount META DIRECTORY` in the background and waits until it is in service or has given up.
pub fn start(meta: &MetaUrl, mountpoint: &Path, flags: &[OsString]) -> Result<Outcome> {
    let log_path = log_path(meta);
    let log = OpenOptions::new().create(true).append(true).mode(0o600).open(&log_path);
    let log = log
        .with_context(|| format!("the log {} cannot be written: mount as the owner of {}", log_path.display(), meta))?;
    let program = std::env::current_exe().context("the path of this program cannot be determined")?;
    let mut child = Command::new(program)
        .arg("mount")
        .arg("--detached")
        .args(flags)
        .arg(meta.to_os_string())
        .arg(mountpoint)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .context("the mount process cannot be started")?;
    let Some(output) = child.stdout.take() else { bail!("the mount process has no output") };
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).context("the output of the mount process cannot be read")?;
    let said = || anyhow!("the mount process ended without a message: see {}", log_path.display());
    serde_json::from_str(&line).map_err(|_| said())
}

/// In the child: leave the terminal and its session, so that neither ends the mount.
pub fn detach() -> Result<()> {
    // It fails only for a session leader, which needs no session of its own.
    let _ = rustix::process::setsid();
    std::env::set_current_dir("/").context("the root directory cannot be entered")
}

/// In the child: tell the waiting command how it went, and let go of its pipe.
pub fn report(outcome: &Outcome) -> Result<()> {
    let mut output = std::io::stdout();
    // Who started us may be gone; the mount stands all the same.
    let _ = writeln!(output, "{}", serde_json::to_string(outcome)?).and_then(|()| output.flush());
    let nowhere = File::options().write(true).open("/dev/null").context("/dev/null cannot be opened")?;
    rustix::stdio::dup2_stdout(&nowhere).context("the output cannot be closed")
}
