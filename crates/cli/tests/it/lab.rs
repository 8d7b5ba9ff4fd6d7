//! `weft lab`: an experiment is listed, run, and reported by one command each, and refuses what it does not know in one sentence.

use crate::effort::is_long;
use crate::sandbox::Sandbox;
use std::fs;
use std::path::{Path, PathBuf};
use weft_lab::Sample;
use weft_meta::servers::{Etcd, Postgres};

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

/// Daemons, lines and the program itself: every figure of an experiment with real transfers gets samples. Each is a test, since most of
/// their time is that of lines.
fn runs(name: &str) -> Vec<Sample> {
    let sandbox = Sandbox::empty();
    let said = sandbox.weft(["lab", "run", name, "--out", name]).ok();
    samples(name, &said, &sandbox.path(name))
}

/// The other experiments with real transfers go through the same steps.
const SHORT: &str = "left out of a short run: LONG=1 ./test";

#[test]
fn transfers_of_ncfs_run() {
    if !is_long() {
        return println!("{SHORT}");
    }
    runs("ncfs-transfers");
}

#[test]
fn transfers_of_the_mojette_code_run() {
    runs("mojette");
}

#[test]
fn video_editing_runs() {
    if !is_long() {
        return println!("{SHORT}");
    }
    runs("video-editing");
}

#[test]
fn transfers_of_ms_basic_run() {
    // A block is sent, and k = 4 are received: fewer cannot be, and all seven only where nodes fail in between.
    let samples = runs("ms-basic-transfers");
    let crs = samples.iter().find(|sample| sample.figure == "traffic" && sample.series == "CRS");
    let blocks = crs.expect("measured").y / 64.0;
    assert!((4.99..8.0).contains(&blocks), "{blocks}");
}

#[test]
fn chunk_servers_run() {
    runs("chunk-servers");
}

#[test]
fn growth_runs() {
    runs("growth");
}

/// The samples of a run in this folder: every figure has some.
fn samples(name: &str, said: &str, folder: &str) -> Vec<Sample> {
    assert!(!said.contains("NaN") && said.contains("report.html"), "{said}");
    let experiment = weft_lab::experiments::find(name).expect("listed");
    let (samples, _) = weft_lab::record::read_samples(Path::new(folder)).expect("samples");
    for figure in experiment.figures() {
        let of_figure = samples.iter().filter(|sample| sample.figure == figure.name);
        assert!(of_figure.clone().count() > 0, "{name}: nothing in {}", figure.name);
        // A count of what goes wrong may be zero, and so may the load of the machine.
        let may_be_zero = ["dropped frames", "load"].contains(&figure.name);
        assert!(of_figure.clone().all(|sample| may_be_zero || sample.y > 0.0), "{name}: {}", figure.name);
    }
    samples
}

/// One volume on a server: several mounts, and several clients.
#[test]
fn many_mounts_and_clients_are_measured() {
    let (postgres, etcd) = (Postgres::start(), is_long().then(|| Etcd::start(1)));
    let sandbox = Sandbox::empty();
    let on_postgres = (format!("postgres://weft@127.0.0.1:{}/weft", postgres.port()), "postgres");
    let on_etcd = etcd.iter().map(|etcd| (format!("etcd://127.0.0.1:{}", etcd.port(0)), "etcd"));
    for (server, folder) in [on_postgres].into_iter().chain(on_etcd) {
        let said = sandbox.weft(["lab", "run", "many-mounts", "--server", &server, "--out", folder]).ok();
        let samples = samples("many-mounts", &said, &sandbox.path(folder));
        // What others are compared with.
        let of_one = samples.iter().filter(|sample| sample.x == 1.0 && !sample.figure.starts_with("rates"));
        assert!(of_one.clone().count() > 0 && of_one.clone().all(|sample| sample.y == 1.0), "{samples:?}");
    }
    let without = sandbox.weft(["lab", "run", "many-mounts"]).sentence();
    assert!(without.contains("--server"), "{without}");
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
