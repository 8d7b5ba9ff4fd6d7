//! `weft lab`: an experiment is listed, run, and reported by one command each, and refuses what it does not know in one sentence.

use crate::sandbox::Sandbox;
use std::fs;
use std::path::PathBuf;

#[test]
fn an_experiment_is_run_and_reported() {
    let sandbox = Sandbox::empty();
    let listed = sandbox.weft(["lab", "list"]).ok();
    assert!(listed.contains("ncfs") && listed.contains("Table I"), "{listed}");
    let said = sandbox.weft(["lab", "run", "ncfs", "--seed", "7"]).ok();
    // The default directory's name has all that makes a run.
    assert!(said.contains("lab-ncfs-small-7/report.html") && said.contains("printed formulas"), "{said}");
    let folder = PathBuf::from(sandbox.path("lab-ncfs-small-7"));
    let samples = fs::read(folder.join("data.jsonl")).expect("samples");
    let info: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.join("run.json")).expect("who measured")).expect("JSON");
    assert_eq!((&info["experiment"], &info["seed"]), (&"ncfs".into(), &7.into()));
    assert!(fs::read_to_string(folder.join("repair.svg")).expect("a figure").starts_with("<svg"));
    // Again: nothing is measured twice.
    sandbox.weft(["lab", "run", "ncfs", "--seed", "7"]).ok();
    assert_eq!(fs::read(folder.join("data.jsonl")).expect("samples"), samples);
    fs::remove_file(folder.join("report.html")).expect("removed");
    sandbox.weft(["lab", "report", "lab-ncfs-small-7"]).ok();
    assert!(fs::read_to_string(folder.join("report.html")).expect("a page").contains("What agrees"));
}

/// Daemons, lines and the program itself: every figure of an experiment with real transfers gets samples.
#[test]
fn experiments_with_real_transfers_run() {
    let sandbox = Sandbox::empty();
    for name in ["ncfs-transfers", "mojette", "video-editing", "ms-basic-transfers", "chunk-servers"] {
        let said = sandbox.weft(["lab", "run", name, "--out", name]).ok();
        assert!(!said.contains("NaN") && said.contains("report.html"), "{said}");
        let experiment = weft_lab::experiments::find(name).expect("listed");
        let (samples, _) = weft_lab::record::read_samples(&PathBuf::from(sandbox.path(name))).expect("samples");
        for figure in experiment.figures() {
            let of_figure = samples.iter().filter(|sample| sample.figure == figure.name);
            assert!(of_figure.clone().count() > 0, "{name}: nothing in {}", figure.name);
            // A count of what goes wrong may be zero.
            let may_be_zero = figure.name == "dropped frames";
            assert!(of_figure.clone().all(|sample| may_be_zero || sample.y > 0.0), "{name}: {}", figure.name);
        }
        if name == "ms-basic-transfers" {
            // A block is sent, and k = 4 are received: fewer cannot be, and all seven only where nodes fail in between.
            let crs = samples.iter().find(|sample| sample.figure == "traffic" && sample.series == "CRS");
            let blocks = crs.expect("measured").y / 64.0;
            assert!((4.99..8.0).contains(&blocks), "{blocks}");
        }
    }
}

#[test]
fn what_the_laboratory_does_not_know_it_refuses() {
    let sandbox = Sandbox::empty();
    assert!(sandbox.weft(["lab", "run", "nothing"]).sentence().contains("weft lab list"));
    assert!(sandbox.weft(["lab", "report", "nowhere"]).sentence().contains("run.json"));
    let refused = sandbox.weft(["lab", "run", "ncfs", "--scale", "huge"]);
    assert!(!refused.success && refused.stderr.contains("neither `small` nor `paper`"), "{}", refused.stderr);
    sandbox.weft(["lab", "run", "ncfs", "--out", "run"]).ok();
    assert!(sandbox.weft(["lab", "run", "ncfs", "--out", "run", "--seed", "2"]).sentence().contains("--out"));
}
