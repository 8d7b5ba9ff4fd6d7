//! Every family of codes as the policy of a volume: written, read with nodes lost, written with nodes lost, repaired, read
//! with others lost.

use crate::effort::is_long;
use crate::sandbox::Sandbox;
use std::fs;
use std::path::Path;
use weft_codes::Shape;

/// Of the others a short run leaves out those that lie on nodes as one of these does.
const LAYOUTS: [&str; 11] = [
    "replica:3",
    "raid6:5",
    "rs:4+2",
    "crs:4+2",
    "embr:n=6,k=3",
    "msbasic:4",
    "basic-mbr:3+2,d=4",
    "clay:4+2",
    "mojette:4+2",
    "ldpc:plank-5",
    "lrc:6+2+2",
];

/// Codes to live by, a family's every layout that matters. A family without an entry fails the test.
const SPECS: &[(&str, &[&str])] = &[
    ("replica", &["replica:3"]),
    ("raid5", &["raid5:4"]),
    ("raid6", &["raid6:5"]),
    ("rs", &["rs:4+2"]),
    ("rs-klauspost", &["rs-klauspost:4+2"]),
    ("rs-cauchy", &["rs-cauchy:3+2"]),
    ("rs-vandermonde", &["rs-vandermonde:3+2"]),
    ("crs", &["crs:4+2"]),
    ("embr", &["embr:n=6,k=5", "embr:n=6,k=3"]),
    ("msbasic", &["msbasic:4"]),
    ("basic", &["basic:3+3,d=4"]),
    ("basic-mbr", &["basic-mbr:3+2,d=4"]),
    ("clay", &["clay:4+2"]),
    ("msr", &["msr:3+3,d=4"]),
    ("mbr", &["mbr:3+2,d=4"]),
    ("mojette", &["mojette:4+2"]),
    ("ldpc", &["ldpc:plank-5"]),
    ("lrc", &["lrc:6+2+2"]),
    ("lrc-uniform", &["lrc-uniform:6+2+2"]),
];

#[test]
fn every_family_lives_in_a_volume() {
    for family in weft_codes::families() {
        let specs = SPECS.iter().find(|(name, _)| *name == family.name).map(|(_, specs)| *specs);
        let specs = specs.unwrap_or_else(|| panic!("{} has no spec in this test", family.name));
        for spec in specs.iter().filter(|spec| is_long() || LAYOUTS.contains(spec)) {
            println!("{spec}");
            live(spec);
        }
    }
}

fn live(spec: &str) {
    let shape = weft_codes::parse(spec).expect("a code").shape().clone();
    let sandbox = Sandbox::empty();
    let node = |number: usize, life: &str| sandbox.path(&format!("node{number}{life}"));
    let weft = |arguments: &[&str]| sandbox.weft(arguments).ok();
    weft(&["format", "--policy", "replica:2", "meta.db"]);
    for number in 0..shape.n {
        weft(&["node", "add", "meta.db", &format!("n{number}"), &node(number, "")]);
    }
    fs::create_dir(sandbox.path("d")).expect("made");
    weft(&["put", "meta.db", "d", "/"]);
    weft(&["policy", "set", "meta.db", "/d", spec]);
    assert_eq!(weft(&["policy", "get", "meta.db", "/d"]), format!("{spec}\n"));

    make_files(&sandbox, "first", &shape);
    weft(&["put", "meta.db", "first", "/d"]);
    read_back(&sandbox, "first");
    let info = weft(&["info", "--json", "meta.db", "/d/first/stripes"]);
    assert!(info.contains(&format!("\"code\": \"{spec}\"")), "{info}");
    assert_eq!(margin(&sandbox), shape.tolerance, "of {spec}, whole");

    let first: Vec<usize> = (0..shape.tolerance).collect();
    first.iter().for_each(|number| fs::remove_dir_all(node(*number, "")).expect("lost"));
    // Codes that are not MDS survive some losses beyond their promise; which, tests of `care` compare with the definition.
    let is_mds = shape.tolerance + shape.k == shape.n;
    assert!(margin(&sandbox) == 0 || !is_mds, "of {spec} without nodes {first:?}");
    read_back(&sandbox, "first");
    make_files(&sandbox, "second", &shape);
    weft(&["put", "meta.db", "second", "/d"]);
    read_back(&sandbox, "second");
    for number in &first {
        weft(&["node", "replace", "meta.db", &format!("n{number}"), &node(*number, "b")]);
    }
    let repaired = weft(&["repair", "--verify", "meta.db"]);
    assert!(repaired.contains("every file survives"), "{spec}: {repaired}");

    let others: Vec<usize> = (shape.n - shape.tolerance..shape.n).collect();
    for number in &others {
        let life = if first.contains(number) { "b" } else { "" };
        fs::remove_dir_all(node(*number, life)).expect("lost");
    }
    read_back(&sandbox, "first");
    read_back(&sandbox, "second");
    for number in &others {
        weft(&["node", "replace", "meta.db", &format!("n{number}"), &node(*number, "c")]);
    }
    weft(&["repair", "meta.db"]);
    assert_eq!(margin(&sandbox), shape.tolerance, "of {spec}, repaired");
    weft(&["scrub", "meta.db"]);
    weft(&["fsck", "meta.db"]);
}

/// A folder with a file of every length that matters.
fn make_files(sandbox: &Sandbox, folder: &str, shape: &Shape) {
    fs::create_dir(sandbox.path(folder)).expect("made");
    // Full cells are 64 KiB, or a frame of 4 KiB a symbol.
    let stripe_bytes = shape.native_count * (65_536 / shape.alpha).next_multiple_of(4096);
    for (name, bytes) in [("empty", 0), ("one", 1), ("odd", 12_345), ("stripes", 2 * stripe_bytes + 777)] {
        let content = crate::content::bytes(folder.len() as u64, bytes);
        fs::write(sandbox.path(&format!("{folder}/{name}")), content).expect("written");
    }
}

fn read_back(sandbox: &Sandbox, folder: &str) {
    sandbox.weft(["get", "meta.db", &format!("/d/{folder}"), "back"]).ok();
    let back = sandbox.path("back");
    for entry in fs::read_dir(sandbox.path(folder)).expect("listed") {
        let path = entry.expect("an entry").path();
        let copy = Path::new(&back).join(path.file_name().expect("a name"));
        assert!(fs::read(&path).expect("read") == fs::read(copy).expect("read"), "{} differs", path.display());
    }
    fs::remove_dir_all(back).expect("removed");
}

/// How many more nodes may be lost, as `weft status` says.
fn margin(sandbox: &Sandbox) -> usize {
    let said = sandbox.weft(["status", "--json", "meta.db"]);
    let line = said.stdout.lines().find_map(|line| line.trim().strip_prefix("\"survives_losses\": "));
    let number = line.unwrap_or_else(|| panic!("no margin: {}{}", said.stdout, said.stderr));
    number.trim_end_matches(',').parse().expect("a number")
}
