//! The laboratory: the papers' experiments, run again, and the models that the product answers with.
//!
//! An [`Experiment`] is a list of points to measure, and a description of what is drawn of their samples. [`run`] measures the
//! points that a directory does not have yet, [`report`] makes one page of what it has.
//!
//! Points are computed (counted or simulated) or real: daemons that serve, behind emulated lines, a volume that is used through
//! the program. It stands on `codes` for what is counted, on `transfer` over `nodes` in memory for downloads in simulated time
//! (`network.rs`), and on `meta` for volumes of many records (`generated.rs`).
//!
//! What it never does: print, or read a clock but for real points. Progress and the machine's description come in as arguments;
//! chance comes from the seed, so that a computed experiment gives the same samples to the byte.
//!
//! The loop: `points -> point.measure(random) -> samples in data.jsonl -> figures and a verdict -> report.html`.
//!
//! Start reading at `experiment.rs`, then `run.rs`, `page.rs`, and an experiment: `experiments/availability.rs`. For real
//! points: `rig.rs`, `line.rs`, `process.rs`.
//! A new experiment is one file in `experiments/` and one line in `experiments.rs`.

pub mod error;
pub mod experiment;
pub mod experiments;
pub mod generated;
pub mod line;
pub mod models;
pub mod network;
pub mod page;
pub mod plot;
pub mod process;
pub mod record;
pub mod rig;
pub mod run;

pub use error::LabError;
pub use experiment::{About, Axis, Experiment, Figure, Point, Sample, Scale, Verdict};
pub use experiments::experiments;
pub use page::report;
pub use record::RunInfo;
pub use rig::Bench;
pub use run::{Progress, run};
