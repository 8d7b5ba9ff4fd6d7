//! `weft session list|evict META`: the processes that change a volume.

use crate::arguments::{Meta, Output};
use crate::{care, render};
use anyhow::{Result, bail};
use weft_engine::reports::{SessionLine, session_lines};

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example:
  weft session list meta.db")]
pub enum Arguments {
    /// List the processes that change the volume, with their last sign of life
    #[command(
        visible_alias = "ls",
        after_help = "Example:
  weft session list postgres://weft@db.example/weft"
    )]
    List {
        #[command(flatten)]
        meta: Meta,
        #[command(flatten)]
        output: Output,
    },
    /// End a session at once, if its machine is gone and its place is not free yet: the server refuses every later change of it, and its
    /// uncommitted changes are lost
    #[command(after_help = "Example:
  weft session evict postgres://weft@db.example/weft 12")]
    Evict {
        #[command(flatten)]
        meta: Meta,
        /// Its number, as `weft session list` shows it
        session: i64,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::List { meta, output } => list(&session_lines(meta)?, output.json),
        Arguments::Evict { meta, session } => {
            if !meta.evict(*session)? {
                bail!("{meta} has no session {session}: see `weft session list {meta}`");
            }
            println!("Session {session} changes nothing any more");
            Ok(())
        }
    }
}

fn list(lines: &[SessionLine], json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(lines)?);
        return Ok(());
    }
    print!("{}", table(lines));
    Ok(())
}

/// The sessions, for people.
pub fn table(lines: &[SessionLine]) -> String {
    let header =
        ["SESSION", "PROCESS", "HOST", "SINCE", "LAST SIGN", "ROLE", "LOCKS", "MOUNTED AT"].map(str::to_owned).to_vec();
    let row = |line: &SessionLine| {
        let times = (care::moment(line.started_ms), care::moment(line.seen_ms));
        let mountpoint = line.mountpoint.as_deref().map_or_else(|| "-".to_owned(), render::line);
        vec![
            line.id.to_string(),
            line.process.to_string(),
            render::line(&line.host),
            times.0,
            times.1,
            line.role.to_owned(),
            line.lock_count.to_string(),
            mountpoint,
        ]
    };
    let rows: Vec<_> = std::iter::once(header).chain(lines.iter().map(row)).collect();
    render::table(&rows, &[0, 1, 6])
}
