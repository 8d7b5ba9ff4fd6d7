//! The `weft` command: settings, the composition root, and one file per command.
//!
//! What it never does: decide anything about files, codes or nodes; commands ask the crates below and say what came out.
//!
//! The loop: `arguments -> commands::run -> one sentence on stderr and a status other than 0, or nothing more`.
//!
//! Start reading at `commands.rs`; `compose.rs` puts a volume together, `tree.rs` is what `put`, `get`, `ls` and `rm` walk.

// Where the reader of our output has gone (`weft node list META | head -1`), other programs are ended by SIGPIPE. Rust
// ignores that signal and std's macros panic; these end the program as quietly.
macro_rules! print {
    ($($text:tt)*) => { crate::render::say(format_args!($($text)*)) };
}
macro_rules! println {
    () => { print!("\n") };
    ($($text:tt)*) => {{
        print!($($text)*);
        print!("\n");
    }};
}

mod care;
mod catalogue;
mod commands;
mod compose;
mod daemon;
mod render;
mod tidy;
mod tree;

use clap::Parser;
use std::io::IsTerminal;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let arguments = commands::Arguments::parse();
    // WEFT_LOG as RUST_LOG elsewhere: `debug`, `weft_transfer=trace`, ...
    let filter = EnvFilter::try_from_env("WEFT_LOG").unwrap_or_else(|_| EnvFilter::new(arguments.command.log_level()));
    let colour = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colour).with_writer(std::io::stderr).init();
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(error) if commands::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft: {error:#}");
            ExitCode::FAILURE
        }
    }
}
