//! `weft choose`: codes are ranked for nodes of a file and of a volume, with the command that chooses one.

use crate::sandbox::Sandbox;
use std::fs;

fn write_nodes(sandbox: &Sandbox, count: usize) {
    let node = |number: usize| {
        format!(
            r#"{{"name": "{number}", "speed": "50M", "latency_ms": 5, "room": "1T", "price_per_gib_month": 0.01, "price_per_gib_read": 0.02, "annual_failure_rate": 0.03}}"#
        )
    };
    let nodes: Vec<String> = (1..=count).map(node).collect();
    fs::write(sandbox.path("nodes.json"), format!(r#"{{"nodes": [{}]}}"#, nodes.join(", "))).expect("written");
}

#[test]
fn codes_are_ranked_for_nodes_of_a_file() {
    let sandbox = Sandbox::empty();
    write_nodes(&sandbox, 6);
    let choose = ["choose", "--nodes", "nodes.json", "--capacity", "1T", "--loss", "1e-6"];
    let said = sandbox.weft(choose).ok();
    assert!(said.starts_with("6 nodes in 6 domains; 1.0 TiB of data in files of 64.0 MiB"), "{said}");
    assert!(said.contains("weft policy set META / ") && said.contains("--convert"), "{said}");
    assert!(said.contains("loss of ") && said.contains(" is above 1.0e-6"), "{said}");
    assert!(!said.contains("assumed"), "the file says it all: {said}");
    let json: serde_json::Value =
        serde_json::from_str(&sandbox.weft([&choose[..], &["--json"]].concat()).ok()).expect("JSON");
    let choices = json["choices"].as_array().expect("choices");
    let of = |code: &str| choices.iter().find(|choice| choice["code"] == code).expect(code);
    assert!((of("rs:4+2")["month_price"].as_f64().expect("a price") - 15.36).abs() < 1e-6);
    assert!(of("raid5:6")["shortfall"].is_string() && of("rs:3+3")["shortfall"].is_null());
    sandbox.weft([&choose[..], &["--page", "page.html"]].concat()).ok();
    let page = fs::read_to_string(sandbox.path("page.html")).expect("a page");
    assert!(page.contains("6 nodes in 6 domains") && page.contains("<svg") && page.contains("#rs:4+2-repair-time"));
    let explained = sandbox.weft([&choose[..], &["--explain", "rs:4+2"]].concat()).ok();
    assert!(
        explained.contains("1024 GiB of data * 1.5 = 1536 GiB") && explained.contains("all of 3 and more"),
        "{explained}"
    );
}

#[test]
fn a_volume_is_looked_at_and_a_file_completes_it() {
    let sandbox = Sandbox::with_volume("replica:3");
    fs::write(sandbox.path("file"), vec![7; 3 << 20]).expect("written");
    sandbox.weft(["put", "meta.db", "file", "/file"]).ok();
    let choose = ["choose", "meta.db", "--capacity", "1G", "--loss", "1e-3", "--files", "small"];
    let said = sandbox.weft(choose).ok();
    assert!(said.contains("fail in a year: 1, 2, 3, 4, 5, 6") && said.contains("medians of three requests"), "{said}");
    assert!(
        said.contains("weft policy set meta.db / ")
            && said.contains("converting what is stored now reads at most 3.0 MiB"),
        "{said}"
    );
    write_nodes(&sandbox, 6);
    let said = sandbox.weft([&choose[..], &["--nodes", "nodes.json"]].concat()).ok();
    assert!(!said.contains("assumed"), "{said}");
    write_nodes(&sandbox, 7);
    let sentence = sandbox.weft([&choose[..], &["--nodes", "nodes.json"]].concat()).sentence();
    assert!(sentence.contains("names the node 7"), "{sentence}");
}

#[test]
fn what_cannot_be_chosen_from_is_refused() {
    let sandbox = Sandbox::empty();
    assert!(sandbox.weft(["choose"]).stderr.contains("META"));
    write_nodes(&sandbox, 1);
    assert!(sandbox.weft(["choose", "--nodes", "nodes.json"]).sentence().contains("add nodes"));
    write_nodes(&sandbox, 3);
    assert!(sandbox.weft(["choose", "--nodes", "nodes.json", "--loss", "2"]).stderr.contains("is not a chance"));
    let sentence = sandbox.weft(["choose", "--nodes", "nodes.json", "--explain", "rs:4+2"]).sentence();
    assert!(sentence.contains("needs 6 domains"), "{sentence}");
    let said = sandbox.weft(["choose", "--nodes", "nodes.json", "--capacity", "9T"]).ok();
    assert!(said.contains("GiB fit") && said.contains("no code meets the needs"), "{said}");
}
