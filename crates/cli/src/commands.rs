//! The commands, one file each.

mod backup;
mod bench;
mod care;
mod choose;
mod codes;
mod decode;
mod encode;
mod format;
mod fsck;
mod gc;
mod get;
mod guard;
mod info;
mod lab;
mod ls;
mod meta;
mod mount;
mod node;
mod object;
mod placement;
mod policy;
mod protect;
mod put;
mod quickstart;
mod recover;
mod repair;
mod restore;
mod rm;
mod scrub;
mod session;
mod status;
mod sync;
mod trash;
mod umount;

pub use node::moved_sentence;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// One POSIX drive of any folders, disks, servers and buckets, which survives the loss of some of them.
///
/// META is the metadata of a volume: FILE, or, built with `--features shared`, postgres://HOST/DATABASE or etcd://HOST/NAME. `weft quickstart ./try` shows
/// everything at once; `weft COMMAND --help` has examples.
#[derive(Debug, Parser)]
#[command(name = "weft", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// The commands as `weft --help` shows them.
const GROUPS: [(&str, &[&str]); 7] = [
    (
        "Volumes",
        &[
            "quickstart",
            "format",
            "mount",
            "umount",
            "sync",
            "backup",
            "restore",
            "protect",
            "recover",
            "meta",
            "session",
            "fsck",
        ],
    ),
    ("Nodes", &["node", "placement"]),
    ("Files", &["put", "get", "ls", "rm", "info", "policy", "trash"]),
    ("Objects", &["object"]),
    ("Safety", &["status", "care", "repair", "scrub", "gc"]),
    ("Codes", &["codes", "choose", "encode", "decode"]),
    ("Measurements", &["bench", "lab"]),
];

/// The whole command line, its commands in groups.
pub fn command() -> clap::Command {
    let command = Arguments::command();
    let mut groups = String::new();
    for (title, names) in GROUPS {
        groups += &format!("\n{title}:\n");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            groups += &format!("  {name:<12}{}\n", about.map(ToString::to_string).unwrap_or_default());
        }
    }
    command.help_template(format!(
        "{{about-section}}\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ))
}

/// Reads the arguments of this process.
///
/// # Errors
/// What clap prints: a refusal, or a help text that was asked for.
pub fn parse() -> Result<Arguments, clap::Error> {
    let matches = command().try_get_matches().map_err(|mut error| {
        // A refused value may be an address with a password.
        if let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) {
            let shown = ContextValue::String(weft_engine::without_password(value));
            error.insert(ContextKind::InvalidValue, shown);
        }
        error
    })?;
    Arguments::from_arg_matches(&matches)
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a volume of new folders, mount it, and show what to try
    Quickstart(quickstart::Arguments),
    /// Make a new volume
    Format(format::Arguments),
    /// Add, list, change, replace or remove the nodes of a volume
    #[command(subcommand)]
    Node(node::Arguments),
    /// Mount a volume at a directory
    Mount(mount::Arguments),
    /// Look after a mount, in a process of its own that the mount starts
    #[command(hide = true)]
    Guard(guard::Arguments),
    /// Unmount a volume, and wait until everything is on the nodes
    Umount(umount::Arguments),
    /// Wait until everything written to a mount is on the nodes, names included
    Sync(sync::Arguments),
    /// Copy files into a volume, mounted or not
    Put(put::Arguments),
    /// Copy files out of a volume, mounted or not
    Get(get::Arguments),
    /// List a directory of a volume
    Ls(ls::Arguments),
    /// Remove files from a volume
    Rm(rm::Arguments),
    /// List, restore or purge deleted files
    #[command(subcommand)]
    Trash(trash::Arguments),
    /// Show or set the code of a directory
    #[command(subcommand)]
    Policy(policy::Arguments),
    /// Store, read, list and remove objects on daemons alone, without a volume
    #[command(subcommand)]
    Object(object::Arguments),
    Placement(placement::Arguments),
    Status(status::Arguments),
    Info(info::Arguments),
    Repair(repair::Arguments),
    Scrub(scrub::Arguments),
    Care(care::Arguments),
    Fsck(fsck::Arguments),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    /// Write metadata as text, or move it to another place or engine
    #[command(subcommand)]
    Meta(meta::Arguments),
    Protect(protect::Arguments),
    Recover(recover::Arguments),
    /// List or evict the processes that change a volume
    #[command(subcommand)]
    Session(session::Arguments),
    Gc(gc::Arguments),
    /// List, show, prove and measure erasure codes
    #[command(subcommand)]
    Codes(codes::Arguments),
    Choose(choose::Arguments),
    Encode(encode::Arguments),
    Decode(decode::Arguments),
    /// Repeat the experiments of papers, and report what agrees with them
    #[command(subcommand)]
    Lab(lab::Arguments),
    /// Measure any directory: creates, small files, sequential and random access
    Bench(bench::Arguments),
}

impl Command {
    /// Does it run until it is told to end?
    pub fn is_service(&self) -> bool {
        match self {
            Command::Mount(_) | Command::Node(node::Arguments::Serve(_)) => true,
            Command::Care(arguments) => arguments.is_service(),
            _ => false,
        }
    }
}

/// Runs the command; an error ends as one sentence.
pub fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Quickstart(arguments) => quickstart::run(&arguments),
        Command::Format(arguments) => format::run(&arguments),
        Command::Node(arguments) => node::run(&arguments),
        Command::Mount(arguments) => mount::run(&arguments),
        Command::Guard(arguments) => guard::run(&arguments),
        Command::Umount(arguments) => umount::run(&arguments),
        Command::Sync(arguments) => sync::run(&arguments),
        Command::Put(arguments) => put::run(&arguments),
        Command::Get(arguments) => get::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Rm(arguments) => rm::run(&arguments),
        Command::Trash(arguments) => trash::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Object(arguments) => object::run(&arguments),
        Command::Placement(arguments) => placement::run(&arguments),
        Command::Status(arguments) => return status::run(&arguments),
        Command::Info(arguments) => return info::run(&arguments),
        Command::Repair(arguments) => return repair::run(&arguments),
        Command::Scrub(arguments) => return scrub::run(&arguments),
        Command::Care(arguments) => return care::run(&arguments),
        Command::Fsck(arguments) => return fsck::run(&arguments),
        Command::Session(arguments) => session::run(&arguments),
        Command::Gc(arguments) => return gc::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => return restore::run(&arguments),
        Command::Meta(arguments) => return meta::run(&arguments),
        Command::Protect(arguments) => protect::run(&arguments),
        Command::Recover(arguments) => return recover::run(&arguments),
        Command::Codes(arguments) => return codes::run(&arguments),
        Command::Choose(arguments) => choose::run(&arguments),
        Command::Encode(arguments) => return encode::run(&arguments),
        Command::Decode(arguments) => return decode::run(&arguments),
        Command::Lab(arguments) => lab::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// `weft ls ... | head` is no failure.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let is_pipe = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(is_pipe))
}

#[cfg(test)]
#[path = "commands_tests.rs"]
mod tests;
