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
mod info;
mod lab;
mod ls;
mod mount;
mod node;
mod placement;
mod policy;
mod put;
mod quickstart;
mod repair;
mod restore;
mod rm;
mod scrub;
mod status;
mod trash;
mod umount;

pub use node::moved_sentence;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// An erasure-coded file system over any folders: losing some of them costs nothing.
///
/// META is the path of a volume's metadata file. `weft quickstart ./try` shows everything at once.
#[derive(Debug, Parser)]
#[command(name = "weft", version, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Make a volume over new folders, mount it, and say what to try
    Quickstart(quickstart::Arguments),
    /// Make a new volume
    Format(format::Arguments),
    /// Add, list, replace or remove the nodes of a volume
    #[command(subcommand)]
    Node(node::Arguments),
    /// Mount a volume at a directory
    Mount(mount::Arguments),
    /// Unmount, and wait until everything is on the nodes
    Umount(umount::Arguments),
    /// Copy files into a volume, mounted or not
    Put(put::Arguments),
    /// Copy files out of a volume, mounted or not
    Get(get::Arguments),
    /// List a directory of a volume
    Ls(ls::Arguments),
    /// Remove files from a volume
    Rm(rm::Arguments),
    /// See and bring back what was deleted
    #[command(subcommand)]
    Trash(trash::Arguments),
    /// Say or choose how what is written to a directory is protected
    #[command(subcommand)]
    Policy(policy::Arguments),
    Placement(placement::Arguments),
    Status(status::Arguments),
    Info(info::Arguments),
    Repair(repair::Arguments),
    Scrub(scrub::Arguments),
    Care(care::Arguments),
    Fsck(fsck::Arguments),
    Backup(backup::Arguments),
    Restore(restore::Arguments),
    Gc(gc::Arguments),
    /// Erasure codes: which there are, what they can lose, whether that is true
    #[command(subcommand)]
    Codes(codes::Arguments),
    Choose(choose::Arguments),
    Encode(encode::Arguments),
    Decode(decode::Arguments),
    /// Run the papers' experiments, and report what agrees with them
    #[command(subcommand)]
    Lab(lab::Arguments),
    /// Measure any directory: creates, small files, sequential and random
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
        Command::Umount(arguments) => umount::run(&arguments),
        Command::Put(arguments) => put::run(&arguments),
        Command::Get(arguments) => get::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Rm(arguments) => rm::run(&arguments),
        Command::Trash(arguments) => trash::run(&arguments),
        Command::Policy(arguments) => policy::run(&arguments),
        Command::Placement(arguments) => placement::run(&arguments),
        Command::Status(arguments) => return status::run(&arguments),
        Command::Info(arguments) => return info::run(&arguments),
        Command::Repair(arguments) => return repair::run(&arguments),
        Command::Scrub(arguments) => return scrub::run(&arguments),
        Command::Care(arguments) => return care::run(&arguments),
        Command::Fsck(arguments) => return fsck::run(&arguments),
        Command::Gc(arguments) => return gc::run(&arguments),
        Command::Backup(arguments) => backup::run(&arguments),
        Command::Restore(arguments) => return restore::run(&arguments),
        Command::Codes(arguments) => return codes::run(&arguments),
        Command::Choose(arguments) => choose::run(&arguments),
        Command::Encode(arguments) => encode::run(&arguments),
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
