//! docs/json.md names every field that `--json` prints, and no other.

use crate::sandbox::Sandbox;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

const PAGE: &str = include_str!("../../../../docs/json.md");

/// Maps by names of codes, units and files, and by counts.
const MAPS: &[&str] = &["codes", "margins", "lost_bytes", "units"];
/// The page says once for all what ranges are.
const RANGE: &[&str] = &["start", "end"];

/// All keys of objects in it but those of maps.
fn keys_of(value: &Value, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object.iter().filter(|(key, _)| !RANGE.contains(&&key[..])) {
                keys.insert(key.clone());
                match value {
                    Value::Object(map) if MAPS.contains(&&key[..]) => {
                        map.values().for_each(|value| keys_of(value, keys));
                    }
                    _ => keys_of(value, keys),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys_of(value, keys)),
        _ => {}
    }
}

/// The text of each command's section.
fn section(command: &str) -> &'static str {
    let heading = format!("## `weft {command} --json");
    let from = PAGE.find(&heading).unwrap_or_else(|| panic!("no section of {command}"));
    PAGE[from + heading.len()..].split("\n## ").next().unwrap_or_default()
}

/// Fields that a section names: words between backticks that are no values, which have quotes, and no commands, which have blanks.
fn named(section: &str) -> BTreeSet<String> {
    // The rest of the heading.
    let body = section.split_once('\n').map_or("", |(_, body)| body);
    let is_field = |word: &&str| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
    };
    body.split('`').skip(1).step_by(2).filter(is_field).filter(|word| *word != "null").map(str::to_owned).collect()
}

/// Compares the section of a command with what it prints. `unseen`: fields for which there is no occasion here, or which another section
/// describes.
fn compare(sandbox: &Sandbox, command: &str, arguments: &[&str], unseen: &[&str]) {
    let words = command.split(' ').chain(["--json"]).chain(arguments.iter().copied());
    let run = sandbox.weft(words);
    let printed: Value =
        serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{command}: {error}; {}", run.stderr));
    let (mut keys, named) = (BTreeSet::new(), named(section(command)));
    keys_of(&printed, &mut keys);
    let unsaid: Vec<&String> = keys.difference(&named).filter(|key| !unseen.contains(&&key[..])).collect();
    assert!(unsaid.is_empty(), "docs/json.md does not say of `weft {command} --json`: {unsaid:?}");
    let is_gone = |field: &&String| !keys.contains(*field) && !unseen.contains(&&field[..]);
    let gone: Vec<&String> = named.iter().filter(is_gone).collect();
    assert!(gone.is_empty(), "`weft {command} --json` does not print, and docs/json.md says: {gone:?}");
}

/// Of a volume with a node that is away, one that is wiped, and a deleted file.
#[test]
fn the_page_of_json_has_the_fields_of_a_volume() {
    let sandbox = Sandbox::with_volume("rs:4+2");
    fs::write(sandbox.path("file"), vec![7; 300_000]).expect("written");
    sandbox.weft(["trash", "keep", "meta.db", "7d"]).ok();
    for name in ["/file", "/deleted"] {
        sandbox.weft(["put", "meta.db", "file", name]).ok();
    }
    sandbox.weft(["rm", "meta.db", "/deleted"]).ok();
    for job in ["scrub", "repair"] {
        sandbox.weft([job, "meta.db"]).ok();
    }
    compare(&sandbox, "placement", &["meta.db"], &[]);
    compare(&sandbox, "placement plan", &["meta.db", "--survive", "node:1", "--survive", "unit:1"], &[]);
    compare(&sandbox, "choose", &["meta.db"], &[]);
    compare(&sandbox, "trash list", &["meta.db"], &["path_hex"]);
    compare(&sandbox, "policy get", &["meta.db", "/"], &[]);
    compare(&sandbox, "fsck", &["meta.db"], &["finding", "mend"]);
    compare(&sandbox, "ls", &["meta.db"], &["name_hex"]);
    compare(&sandbox, "info", &["meta.db", "/file"], &["path_hex"]);
    compare(&sandbox, "node kinds", &[], &[]);
    let annual_losses = &["policy", "annual_loss", "failures_per_year", "repair_ms"][..];
    let faults = &["count", "last_ms"][..];
    compare(&sandbox, "status", &["meta.db"], &[faults, &["folder", "node", "name", "why", "refuses"]].concat());
    let info: Value = serde_json::from_str(&sandbox.weft(["info", "--json", "meta.db", "/file"]).ok()).expect("JSON");
    let shard = info["segments"][0]["shards"][0]["file"].as_str().expect("a file");
    fs::remove_file(shard).expect("removed");
    compare(&sandbox, "scrub", &["meta.db"], &["name", "why", "refuses"]);
    fs::rename(sandbox.path("node6"), sandbox.path("elsewhere")).expect("moved");
    sandbox.wipe("node5");
    compare(&sandbox, "status", &["meta.db"], &[faults, annual_losses].concat());
    // No worker has cared for it, and nothing was converted.
    let of_worker = "holder has_ended is_paused now doubted history phase segments_done segments_total bytes_done bytes_total failures paths \
                     paused worked_ms task is_well what version started_ms updated_ms ended_ms request_count bytes_read bytes_verified \
                     bytes_written bytes_saved merged_count divided_count failure_count";
    compare(&sandbox, "care status", &["meta.db"], &of_worker.split_whitespace().collect::<Vec<_>>());
    let links = &["links", "address", "since_ms", "bytes_per_second", "latency_us"];
    compare(&sandbox, "node list", &["meta.db"], links);
    compare(&sandbox, "gc", &["meta.db"], &["segment", "live_bytes", "data_bytes"]);
    let tally: Vec<String> = named(section("status")).into_iter().collect();
    // And no segment fails.
    let unseen: Vec<&str> = tally.iter().map(String::as_str).chain(["reason"]).collect();
    compare(&sandbox, "repair", &["meta.db"], &unseen);
    // From now on meta.db is an older copy. There is no replica.
    sandbox.weft(["backup", "meta.db", "backup"]).ok();
    let of_recover = "restored volume record_count at_ms newest_at_ms unreadable silent node why others replica_failure segment made_ms shard_count \
                      code data_bytes";
    let unseen: Vec<&str> = unseen.into_iter().chain(of_recover.split_whitespace()).collect();
    compare(&sandbox, "restore", &["backup", "restored.db"], &unseen);
}

#[test]
fn the_page_of_json_has_the_fields_of_codes_and_measurements() {
    let sandbox = Sandbox::empty();
    compare(&sandbox, "codes list", &[], &[]);
    compare(&sandbox, "codes check", &["rs:2+1"], &[]);
    // It is no graph. The page says what else it has.
    let figures: Vec<String> = named(section("codes list")).into_iter().collect();
    let printed: Value = serde_json::from_str(&sandbox.weft(["codes", "show", "--json", "rs:2+1"]).ok()).expect("JSON");
    let mut keys = BTreeSet::new();
    keys_of(&printed, &mut keys);
    let mut said = named(section("codes show"));
    ["by_peeling", "by_elimination", "worst"]
        .iter()
        .for_each(|of_graphs| assert!(said.remove(*of_graphs), "{of_graphs}"));
    assert!(said.is_subset(&keys), "`weft codes show --json` does not print {:?}", said.difference(&keys));
    said.extend(figures);
    assert!(keys.is_subset(&said), "docs/json.md does not say of `weft codes show`: {:?}", keys.difference(&said));
    compare(&sandbox, "lab list", &[], &[]);
    fs::create_dir(sandbox.path("bench")).expect("made");
    compare(&sandbox, "bench", &[&sandbox.path("bench"), "--size-mib", "1", "--files", "1"], &[]);
    fs::write(sandbox.path("plain"), "content").expect("written");
    compare(&sandbox, "encode", &["--code", "rs:2+1", &sandbox.path("plain")], &[]);
    compare(&sandbox, "decode", &["--check", &sandbox.path("plain.shards")], &["failure"]);
}
