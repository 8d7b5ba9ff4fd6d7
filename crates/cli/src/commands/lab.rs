//! `weft lab ...`: the papers' experiments.

use crate::arguments::Output;
use crate::render;
use anyhow::Result;
use indicatif::{ProgressBar, ProgressStyle};
use std::fs;
use std::path::PathBuf;
use weft_lab::record::FORMAT;
use weft_lab::run::directory_name;
use weft_lab::{Bench, RunInfo, Scale};

#[derive(Debug, clap::Subcommand)]
#[command(after_help = "Example:
  weft lab run durability")]
pub enum Arguments {
    /// List the experiments
    List(ListArguments),
    /// Run an experiment and write its report; an interrupted run resumes where it stopped
    Run(RunArguments),
    /// Write the report of a run again
    Report(ReportArguments),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft lab list")]
pub struct ListArguments {
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft lab run durability
  weft lab run wide-area --scale paper --out wide
  weft lab run many-mounts --server postgres://weft@127.0.0.1/weft")]
pub struct RunArguments {
    /// Name of the experiment (`weft lab list`)
    name: String,
    /// Size: `small` takes seconds, `paper` has the sizes of the paper
    #[arg(long, default_value = "small", value_name = "small|paper")]
    scale: Scale,
    /// Seed of all random choices; equal seeds give equal simulated results
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory for the samples and the report [default: ./lab-NAME-SCALE-SEED]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Server for experiments that mount a volume several times; volumes are made there and stay
    #[arg(long, value_name = "postgres://... | etcd://...")]
    server: Option<String>,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft lab report lab-durability-small-1")]
pub struct ReportArguments {
    /// Directory of a run
    directory: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::List(arguments) => list(arguments),
        Arguments::Run(arguments) => run_one(arguments),
        Arguments::Report(arguments) => {
            println!("{}", weft_lab::report(&arguments.directory)?.display());
            Ok(())
        }
    }
}

fn list(arguments: &ListArguments) -> Result<()> {
    let about = weft_lab::experiments().iter().map(|experiment| experiment.about());
    if arguments.output.json {
        let all: Vec<_> = about
            .map(|about| serde_json::json!({"name": about.name, "title": about.title, "source": about.source, "method": about.method}))
            .collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let rows: Vec<Vec<String>> =
        about.map(|about| [about.name, about.title, about.source].map(str::to_owned).to_vec()).collect();
    println!("{}", render::table(&rows, &[]));
    Ok(())
}

fn run_one(arguments: &RunArguments) -> Result<()> {
    let RunArguments { name, scale, seed, out, server } = arguments;
    let experiment = weft_lab::experiments::find(name)?;
    let directory = out.clone().unwrap_or_else(|| directory_name(name, *scale, *seed).into());
    let info = RunInfo {
        format: FORMAT,
        experiment: name.clone(),
        scale: *scale,
        seed: *seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        machine: machine(),
    };
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} points, {eta} left\n{msg}");
    let bar = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let bench = Bench { program: std::env::current_exe()?, folder: std::env::temp_dir(), server: server.clone() };
    weft_lab::run(experiment, &info, &directory, &bench, |progress| {
        bar.set_length(progress.total as u64);
        bar.set_position(progress.done as u64);
        bar.set_message(progress.next.to_owned());
    })?;
    bar.finish_and_clear();
    let report = weft_lab::report(&directory)?;
    let (samples, _) = weft_lab::record::read_samples(&directory)?;
    let verdict = experiment.verdict(&samples);
    println!("{}\n\n{}\n\n{}", verdict.agrees, verdict.differs, report.display());
    Ok(())
}

/// The processor, how many cores of it, and the system.
fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let system = rustix::system::uname();
    format!(
        "{} ({cores} cores), {} {}",
        model.map_or("a processor", |(_, model)| model),
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
    )
}
