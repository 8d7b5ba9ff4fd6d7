//! Every experiment runs at small scale, twice to the same bytes, is resumed where it was interrupted, and has a page.

#[path = "../../codes/tests/it/effort.rs"]
mod effort;

use super::*;
use crate::experiment::{Point, Scale};
use crate::record::{FORMAT, RunInfo, read_samples};
use crate::rig::Bench;
use crate::{page, run};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

fn info(experiment: &str, seed: u64) -> RunInfo {
    RunInfo {
        format: FORMAT,
        experiment: experiment.to_owned(),
        scale: Scale::Small,
        seed,
        version: "test".to_owned(),
        machine: "any".to_owned(),
    }
}

fn run_all(experiment: &dyn Experiment, seed: u64, directory: &Path) -> Vec<u8> {
    run::run(experiment, &info(experiment.about().name, seed), directory, &no_bench(), |_| ()).unwrap();
    fs::read(directory.join("data.jsonl")).unwrap()
}

/// Computed points need none; real ones are tested where the program is.
fn no_bench() -> Bench {
    Bench { program: "weft".into(), folder: "nowhere".into(), server: None }
}

fn is_real(experiment: &dyn Experiment) -> bool {
    experiment.points(Scale::Small).iter().any(Point::is_real)
}

#[test]
fn names_and_points_are_unique() {
    let names: BTreeSet<&str> = experiments().iter().map(|experiment| experiment.about().name).collect();
    assert_eq!(names.len(), experiments().len());
    for experiment in experiments() {
        for scale in [Scale::Small, Scale::Paper] {
            let points = experiment.points(scale);
            let names: BTreeSet<&str> = points.iter().map(|point| &*point.name).collect();
            assert_eq!(names.len(), points.len(), "{}", experiment.about().name);
        }
    }
    assert!(find("availability").is_ok());
    assert!(find("nothing").err().unwrap().to_string().contains("weft lab list"));
}

#[test]
fn one_seed_gives_one_file_and_a_page_with_every_figure() {
    for experiment in experiments().iter().filter(|experiment| !is_real(**experiment)) {
        let name = experiment.about().name;
        let folder = tempfile::tempdir().unwrap();
        let first = run_all(*experiment, 1, &folder.path().join("first"));
        // Those that take seconds are run twice in a long run only.
        if effort::is_long() || !["durability", "wide-area"].contains(&name) {
            assert_eq!(first, run_all(*experiment, 1, &folder.path().join("second")), "{name}");
        }
        let (samples, complete) = read_samples(&folder.path().join("first")).unwrap();
        assert_eq!(complete, experiment.points(Scale::Small).len());
        let text = fs::read_to_string(page::report(&folder.path().join("first")).unwrap()).unwrap();
        for figure in experiment.figures() {
            assert!(text.contains(figure.title), "{name}: {}", figure.title);
            assert!(samples.iter().any(|sample| sample.figure == figure.name), "{name}: nothing in {}", figure.name);
        }
        let figures: BTreeSet<&str> = experiment.figures().iter().map(|figure| figure.name).collect();
        assert!(samples.iter().all(|sample| figures.contains(&*sample.figure) && sample.y.is_finite()), "{name}");
        let verdict = experiment.verdict(&samples);
        assert!(!verdict.agrees.contains("NaN") && !verdict.differs.contains("NaN"), "{name}: {verdict:?}");
        // Nothing is fetched from elsewhere.
        assert!(!text.contains("src=") && !text.contains("href=\"http"), "{name}");
    }
}

/// Cut anywhere, even within a line, a run goes on to the same bytes; an incomplete one has no verdict.
#[test]
fn an_interrupted_run_goes_on() {
    let experiment = find("overhead").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let whole = run_all(experiment, 5, folder.path());
    for kept in [0, 1, whole.len() / 3, whole.len() / 2, whole.len() - 1] {
        fs::write(folder.path().join("data.jsonl"), &whole[..kept]).unwrap();
        page::report(folder.path()).unwrap();
        assert!(fs::read_to_string(folder.path().join("report.html")).unwrap().contains("run the experiment again"));
        assert_eq!(run_all(experiment, 5, folder.path()), whole, "cut at {kept}");
    }
}

#[test]
fn another_run_and_strange_files_are_refused() {
    let experiment = find("overhead").unwrap();
    let folder = tempfile::tempdir().unwrap();
    run_all(experiment, 5, folder.path());
    let refused =
        |info: &RunInfo| run::run(experiment, info, folder.path(), &no_bench(), |_| ()).unwrap_err().to_string();
    assert!(refused(&info("overhead", 6)).contains("--out"));
    fs::write(folder.path().join("data.jsonl"), "nonsense\n").unwrap();
    assert!(refused(&info("overhead", 5)).contains("new directory"));
    let newer = RunInfo { format: FORMAT + 1, ..info("overhead", 5) };
    fs::write(folder.path().join("run.json"), serde_json::to_string(&newer).unwrap()).unwrap();
    assert!(refused(&info("overhead", 5)).contains("format 2"));
}
