//! `weft lab`: an experiment is listed, run, and reported by one command each, and refuses what it does not know in one sentence.

mod sandbox;

use sandbox::Sandbox;
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
