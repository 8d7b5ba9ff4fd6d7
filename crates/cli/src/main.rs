//! The `weft` command: settings, the composition root, and one file per command.
//!
//! What it never does: decide anything about files, codes or nodes; commands ask the crates below and say what came out.
//!
//! The loop: `arguments -> commands::run -> one sentence on stderr and a status other than 0, or nothing more`.
//!
//! Start reading at `commands.rs`; the crate `engine` does what commands ask for.

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

mod amount;
mod arguments;
mod care;
mod commands;
mod compose;
mod daemon;
mod metrics;
mod render;
mod shard_files;
mod shard_inputs;
mod shard_outputs;
mod signals;
mod trace;
mod tree;
mod unfinished;

use std::collections::HashSet;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use tracing::callsite::Identifier;
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Filter, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let arguments = match commands::parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap's own status is 2, which says `degraded` here. Where its text cannot be written nobody reads it.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    log(&arguments.command);
    match commands::run(arguments.command) {
        Ok(code) => code,
        Err(error) if commands::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("weft: {}", render::sentence(&error));
            ExitCode::FAILURE
        }
    }
}

/// Where what the crates log goes: standard error. Of a mount and of a daemon everything, with times; of other commands each kind of trouble
/// once, since what is true of one segment is true of thousands.
fn log(command: &commands::Command) {
    let lines =
        tracing_subscriber::fmt::layer().with_ansi(std::io::stderr().is_terminal()).with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry();
    match chosen_targets() {
        Some(targets) => registry.with(lines.with_filter(targets)).init(),
        None if command.is_service() => {
            registry.with(lines.with_filter(LevelFilter::INFO)).init();
        }
        None => registry.with(lines.without_time().with_target(false).with_filter(OnceEach::default())).init(),
    }
}

/// WEFT_LOG as RUST_LOG elsewhere: `debug`, `weft_transfer=trace`, `info,weft_care=debug`.
fn chosen_targets() -> Option<Targets> {
    let text = std::env::var("WEFT_LOG").ok().filter(|text| !text.is_empty())?;
    match text.parse() {
        Ok(targets) => Some(targets),
        Err(error) => {
            eprintln!("weft: WEFT_LOG is `{text}` ({error}): write a level like debug, or weft_transfer=trace");
            None
        }
    }
}

/// Lets the first event of each place in the code through, from warnings up.
#[derive(Default)]
struct OnceEach {
    told: Mutex<HashSet<Identifier>>,
}

impl<S> Filter<S> for OnceEach {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).insert(event.metadata().callsite())
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }
}
