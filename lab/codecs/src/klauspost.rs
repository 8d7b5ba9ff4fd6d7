//! klauspost/reedsolomon, a Go process that measures one cell whenever it is asked to: `klauspost/main.go`.

use crate::peers::{Operation, Shape};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use weft_codes::measure::{Effort, Place, Spacing};

/// Name of the peer.
pub const NAME: &str = "klauspost";

pub struct Klauspost {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Klauspost {
    /// `None`, and a word to standard error, where Go is not there or does not build it.
    pub fn start() -> Option<Klauspost> {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/klauspost");
        let binary = std::env::temp_dir().join(format!("klauspost-{}", std::process::id()));
        let built = Command::new("go").args(["build", "-o"]).arg(&binary).arg(".").current_dir(folder).status();
        if !built.is_ok_and(|status| status.success()) {
            eprintln!("without klauspost/reedsolomon: Go did not build {folder}");
            return None;
        }
        let started = Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        // It runs on without its name.
        let _ = std::fs::remove_file(&binary);
        let mut process = started.ok()?;
        let (questions, answers) = (process.stdin.take(), BufReader::new(process.stdout.take()?));
        Some(Klauspost { process, questions, answers })
    }

    /// Seconds for a stripe, the best of the rounds.
    pub fn seconds(
        &mut self,
        shape: Shape,
        operation: Operation,
        place: &Place,
        effort: Effort,
    ) -> std::io::Result<f64> {
        let Shape { k, m } = shape;
        let (rounds, nanoseconds) = (effort.rounds, effort.round.as_nanos());
        let (cell_bytes, span_bytes, lost) = (place.cell_bytes, place.span_bytes, operation.lost(shape));
        let spacing = match place.spacing {
            Spacing::BackToBack => "none",
            Spacing::Lines => "lines",
            Spacing::Pages => "pages",
        };
        let question = format!("{k} {m} {lost} {cell_bytes} {span_bytes} {spacing} {rounds} {nanoseconds}\n");
        self.questions.as_mut().ok_or(std::io::ErrorKind::BrokenPipe)?.write_all(question.as_bytes())?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        answer.trim().parse().map_err(std::io::Error::other)
    }
}

impl Drop for Klauspost {
    fn drop(&mut self) {
        // Without questions it ends.
        drop(self.questions.take());
        let _ = self.process.wait();
    }
}
