//! A drive over daemons on machines of their own: cables are pulled, and lines are slow.

mod two_cables;

use crate::sandbox::network::Network;
use crate::sandbox::served::{Served, read_with, write_with};
use crate::sandbox::{Said, Sandbox};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A volume of six daemons with keys and TLS, used from machine 0 of a network.
struct Cluster {
    // Before the network: processes end before their machines.
    daemons: Vec<Served>,
    network: Network,
    sandbox: Sandbox,
}

impl Cluster {
    fn of_six(policy: &str) -> Self {
        let (sandbox, network) = (Sandbox::empty(), Network::of(6));
        let mut cluster = Self { daemons: Vec::new(), network, sandbox };
        cluster.weft(&["format", "--policy", policy, "meta.db"]).ok();
        for machine in 1..=6 {
            let (folder, key) =
                (cluster.sandbox.path(&format!("served{machine}")), cluster.sandbox.path(&format!("key{machine}")));
            fs::create_dir(&folder).expect("made");
            let listen = format!("{}:7600", Network::address(machine));
            let arguments = ["node", "serve", &folder, "--listen", &listen, "--key", &key, "--tls"];
            let served = Served::of(cluster.network.weft(&cluster.sandbox, machine, &arguments));
            cluster.weft(&["node", "add", "meta.db", &machine.to_string(), &served.url, "--key", &key]).ok();
            cluster.daemons.push(served);
        }
        cluster
    }

    fn weft(&self, arguments: &[&str]) -> Said {
        self.network.weft(&self.sandbox, 0, arguments).output().expect("weft runs").into()
    }

    fn mount(&self) {
        self.sandbox.mount_by(self.network.weft(&self.sandbox, 0, &["mount", "-d", "meta.db", &self.sandbox.mnt()]));
    }
}

pub(crate) fn content(length: u64) -> Vec<u8> {
    (0..length).map(|at| (at * 31 / 7) as u8).collect()
}

#[test]
fn a_cut_network_is_done_without() {
    let cluster = Cluster::of_six("rs:4+2");
    let (network, sandbox) = (&cluster.network, &cluster.sandbox);
    cluster.mount();
    let content = content(40_000_000);
    let calm = write_with(&sandbox.file("first"), &content, || {});
    let read = read_with(&sandbox.file("first"), &content, || network.pull(&[1, 2]));
    network.plug(&[1, 2]);
    let written = write_with(&sandbox.file("second"), &content, || network.pull(&[3, 4]));
    println!(
        "longest call: {calm:?} in a calm write; {read:?} reading and {written:?} writing with two cables pulled midway"
    );
    network.plug(&[3, 4]);
    let said = cluster.weft(&["repair", "meta.db"]).ok();
    assert!(said.contains("every file survives the loss of any 2 more nodes"), "{said}");
    // Two others, for good.
    network.pull(&[5, 6]);
    sandbox.umount();
    cluster.mount();
    for name in ["first", "second"] {
        read_with(&sandbox.file(name), &content, || {});
    }
    sandbox.umount();
    cluster.weft(&["fsck", "meta.db"]).ok();
}

const MEGABYTE: u64 = 1_000_000;

impl Cluster {
    /// Lines of so many bytes a second.
    fn limit(&self, bytes_per_second: [u64; 6]) {
        for (machine, rate) in (1..).zip(bytes_per_second) {
            self.network.limit(machine, rate);
        }
    }

    /// How long it takes to get `/file`.
    fn get(&self, profile: &str, right: &[u8]) -> Duration {
        let copy = self.sandbox.path("copy");
        let began = Instant::now();
        self.weft(&["get", "meta.db", "/file", &copy, "--read-profile", profile]).ok();
        let took = began.elapsed();
        assert!(fs::read(&copy).expect("read") == right, "{profile}");
        fs::remove_file(&copy).expect("removed");
        took
    }
}

#[test]
fn a_slow_line_is_gone_round() {
    let cluster = Cluster::of_six("rs:4+2");
    let content = content(24 * MEGABYTE);
    fs::write(cluster.sandbox.path("file"), &content).expect("written");
    cluster.weft(&["put", "meta.db", "file", "/file"]).ok();
    // Two send their 6 MB in an hour: the command ends because it does not wait for them.
    cluster.limit([20, 20, 20, 20, 0, 0].map(|rate| (rate * MEGABYTE).max(MEGABYTE / 500)));
    let took = cluster.get("adaptive", &content);
    println!("24 MB over four lines of 20 MB/s and two of 2 kB/s: {took:?}");
}

#[test]
#[ignore = "minutes: a table of medians, with --nocapture"]
fn profiles_over_shaped_lines() {
    const ROUNDS: usize = 5;
    let profiles = ["adaptive", "fastest0,T=20", "fastest1,T=20", "lightest,T=20", "fastest0,T=20,R=2,P=30"];
    let cluster = Cluster::of_six("rs:4+2");
    let content = content(48 * MEGABYTE);
    fs::write(cluster.sandbox.path("file"), &content).expect("written");
    cluster.weft(&["put", "meta.db", "file", "/file"]).ok();
    println!("| lines, MB/s | {} |", profiles.join(" | "));
    for rates in [[16, 12, 8, 6, 4, 2], [16, 16, 16, 16, 4, 4], [4, 4, 4, 4, 2, 1], [16, 16, 16, 16, 16, 2]] {
        cluster.limit(rates.map(|rate| rate * MEGABYTE));
        let mut took = vec![Vec::new(); profiles.len()];
        for _ in 0..ROUNDS {
            for (profile, took) in profiles.iter().zip(&mut took) {
                took.push(cluster.get(profile, &content).as_secs_f64());
            }
        }
        let cell = |mut took: Vec<f64>| {
            took.sort_by(f64::total_cmp);
            format!("{:.1}, {:.1}", took[ROUNDS / 2], took[ROUNDS - 1])
        };
        println!("| {rates:?} | {} |", took.into_iter().map(cell).collect::<Vec<_>>().join(" | "));
    }
}

/// Repair pipelining (Li et al. 2017): one block's repair in about the time of one block's read.
#[test]
#[ignore = "half a minute: three times to compare, with --nocapture"]
fn a_chain_over_shaped_lines() {
    const RATE: u64 = 4 * MEGABYTE;
    let cluster = Cluster::of_six("rs:4+2");
    let content = content(48 * MEGABYTE);
    fs::write(cluster.sandbox.path("file"), &content).expect("written");
    cluster.weft(&["put", "meta.db", "file", "/file"]).ok();
    cluster.limit([RATE; 6]);
    cluster.network.limit(0, RATE);
    (0..=6).for_each(|machine| cluster.network.limit_towards(machine, RATE));
    let took = cluster.get("adaptive", &content);
    println!("a read of 12 MB over lines of 4 MB/s: {:?}", took / 4);
    // A node with limits is asked by this client only.
    for (how, requests) in [("all to one", "100"), ("in a chain", "none")] {
        for machine in 1..=6 {
            cluster.weft(&["node", "limit", "meta.db", &machine.to_string(), "--requests", requests]).ok();
        }
        let lost = cluster.lose_shards(6);
        let began = Instant::now();
        let said = cluster.weft(&["repair", "meta.db"]).ok();
        println!("repair of {lost} bytes, {how}: {:?}; {said}", began.elapsed());
    }
}

impl Cluster {
    /// Deletes all shards of a machine's node; says how many bytes they had.
    fn lose_shards(&self, machine: usize) -> u64 {
        let mut folders = vec![PathBuf::from(self.sandbox.path(&format!("served{machine}")))];
        let mut bytes = 0;
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("read").map(|entry| entry.expect("read")) {
                match entry.metadata().expect("there") {
                    facts if facts.is_dir() => folders.push(entry.path()),
                    // The identity and the like are short.
                    facts if facts.len() > 100_000 => {
                        bytes += facts.len();
                        fs::remove_file(entry.path()).expect("removed");
                    }
                    _ => {}
                }
            }
        }
        bytes
    }
}
