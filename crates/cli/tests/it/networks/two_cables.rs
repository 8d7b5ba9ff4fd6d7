//! Daemons with two cables: both carry, and either may be pulled.

use super::{MEGABYTE, content};
use crate::sandbox::network::Network;
use crate::sandbox::served::{Served, read_with, write_with};
use crate::sandbox::{Said, Sandbox, until};
use std::fs;
use std::process::Stdio;
use std::time::Instant;

/// Three daemons of machine 1, with keys and TLS, used from machine 0.
struct World {
    // Before the network: processes end before their machines.
    _daemons: Vec<Served>,
    network: Network,
    sandbox: Sandbox,
}

impl World {
    fn new() -> Self {
        let (sandbox, network) = (Sandbox::empty(), Network::of(1).with_second_cables());
        let weft = |machine, arguments: &[&str]| network.weft(&sandbox, machine, arguments);
        let said = |arguments: &[&str]| Said::from(weft(0, arguments).output().expect("weft runs")).ok();
        said(&["format", "--policy", "rs:2+1", "meta.db"]);
        let mut daemons = Vec::new();
        for number in 0..3 {
            let (folder, key) = (sandbox.path(&format!("served{number}")), sandbox.path(&format!("key{number}")));
            fs::create_dir(&folder).expect("made");
            let (port, listen) = (7600 + number, format!("0.0.0.0:{}", 7600 + number));
            let [first, second] = [0, 1].map(|cable| format!("{}:{port}", Network::address_of(1, cable)));
            let advertise = format!("{first},{second}");
            let arguments =
                ["node", "serve", &folder, "--listen", &listen, "--key", &key, "--tls", "--advertise", &advertise];
            let served = Served::of(weft(1, &arguments));
            // The user knows one of them.
            let url = served.url.replace(&listen, &first);
            said(&["node", "add", "meta.db", &number.to_string(), &url, "--key", &key]);
            daemons.push(served);
        }
        Self { _daemons: daemons, network, sandbox }
    }

    fn weft(&self, arguments: &[&str]) -> Said {
        self.network.weft(&self.sandbox, 0, arguments).output().expect("weft runs").into()
    }

    fn mount(&self) {
        self.sandbox.mount_by(self.network.weft(&self.sandbox, 0, &["mount", "-d", "meta.db", &self.sandbox.mnt()]));
    }

    /// How many links are down, of six.
    fn down_count(&self) -> usize {
        let said = self.weft(&["node", "list", "meta.db", "--json"]).ok();
        let nodes: Vec<serde_json::Value> = serde_json::from_str(&said).expect("JSON");
        let links = nodes.iter().flat_map(|node| node["links"].as_array().cloned().unwrap_or_default());
        let states: Vec<bool> = links.map(|link| link["state"] == "down").collect();
        assert_eq!(states.len(), 6, "{said}");
        states.into_iter().filter(|is_down| *is_down).count()
    }

    fn moved(&self) -> [u64; 2] {
        [0, 1].map(|cable| self.network.moved_bytes(1, cable))
    }

    /// Writes until a cable carries again.
    fn is_used_again(&self, cable: usize) {
        let (before, mut number) = (self.moved()[cable], 0);
        until("a cable that is plugged in carries again", || {
            number += 1;
            let file = self.sandbox.file(&format!("again{cable}-{number}"));
            write_with(&file, &content(MEGABYTE), || {});
            self.moved()[cable] > before + MEGABYTE / 2
        });
    }
}

#[test]
fn both_cables_carry_and_either_is_pulled_in_the_middle() {
    let world = World::new();
    let (network, sandbox) = (&world.network, &world.sandbox);
    (0..2).for_each(|cable| network.limit_cable(1, cable, 40 * MEGABYTE));
    until("all links are known", || world.weft(&["node", "list", "meta.db"]).ok().matches(": link").count() == 6);
    assert_eq!(world.down_count(), 0);
    world.mount();
    let before = world.moved();
    let content = content(24 * MEGABYTE);
    let calm = write_with(&sandbox.file("calm"), &content, || {});
    let calm_moved = [0, 1].map(|cable| world.moved()[cable] - before[cable]);
    println!("24 MB written: {calm_moved:?} bytes by the two cables, the longest call took {calm:?}");
    // On a busy machine one of them may seem slow for a while.
    (0..2).for_each(|cable| world.is_used_again(cable));
    for cable in [0, 1] {
        // At the switch no program learns of it, at the user's machine its programs do.
        for is_silent in [true, false] {
            let set = |is_in| match is_silent {
                true => network.set_cable(1, cable, is_in),
                false => network.set_device(0, cable, is_in),
            };
            let name = format!("pulled{cable}{is_silent}");
            let written = write_with(&sandbox.file(&name), &content, || set(false));
            assert_eq!(world.down_count(), 3);
            set(true);
            world.is_used_again(cable);
            // A new mount has read nothing yet.
            sandbox.umount();
            world.mount();
            let read = read_with(&sandbox.file(&name), &content, || set(false));
            println!(
                "longest call, cable {cable} pulled midway (silently: {is_silent}): {written:?} writing, {read:?} reading"
            );
            set(true);
            until("all links are up", || world.down_count() == 0);
            world.is_used_again(cable);
        }
    }
    sandbox.umount();
    world.weft(&["fsck", "meta.db"]).ok();
    let said = world.weft(&["status", "meta.db"]).ok();
    assert!(said.contains("every file survives"), "{said}");
}

/// Members of a store of objects, all of machine 1: a client that knows one of them learns of both cables from rumours.
#[test]
fn objects_are_read_while_a_cable_of_their_members_is_pulled() {
    let (sandbox, network) = (Sandbox::empty(), Network::of(1).with_second_cables());
    (0..2).for_each(|cable| network.limit_cable(1, cable, 8 * MEGABYTE));
    let weft = |machine, arguments: &[&str]| network.weft(&sandbox, machine, arguments);
    let cluster_key = sandbox.path("all.key");
    let at = |cable, number| format!("{}:{}", Network::address_of(1, cable), 7600 + number);
    let mut daemons = Vec::new();
    for number in 0..3 {
        let [folder, key] = ["served", "key"].map(|what| sandbox.path(&format!("{what}{number}")));
        fs::create_dir(&folder).expect("made");
        let (listen, advertise) =
            (format!("0.0.0.0:{}", 7600 + number), format!("{},{}", at(0, number), at(1, number)));
        let arguments = ["node", "serve", &folder, "--listen", &listen, "--plain", "--key", &key];
        let of_store = ["--cluster-key", &cluster_key, "--objects", "--advertise", &advertise];
        let join = ["--join", &at(0, 0)];
        let join = if number == 0 { &[][..] } else { &join };
        daemons.push(Served::of(weft(1, &[&arguments, &of_store[..], join].concat())));
    }
    let from = format!("{},{}", at(0, 0), at(1, 0));
    let said = |arguments: &[&str]| -> Said {
        let store = ["--from", &from, "--cluster-key", &cluster_key];
        weft(0, &[arguments, &store].concat()).output().expect("weft runs").into()
    };
    let down_count = || {
        let members: Vec<serde_json::Value> =
            serde_json::from_str(&said(&["node", "list", "--json"]).ok()).expect("JSON");
        let links = members.iter().flat_map(|member| member["links"].as_array().cloned().unwrap_or_default());
        let states: Vec<bool> = links.map(|link| link["state"] == "down").collect();
        (states.len() == 6).then(|| states.into_iter().filter(|is_down| *is_down).count())
    };
    until("all links are known", || down_count() == Some(0));
    assert_eq!(said(&["node", "list"]).ok().matches(": link").count(), 6);
    let content = content(12 * MEGABYTE);
    fs::write(sandbox.path("file"), &content).expect("written");
    fs::write(sandbox.path("less"), &content[..content.len() / 4]).expect("written");
    said(&["object", "put", "file", "a", "--code", "rs:2+1"]).ok();
    for cable in [0, 1] {
        let before = network.moved_bytes(1, cable);
        let got = format!("got{cable}");
        let get = ["object", "get", "a", &got, "--from", &from, "--cluster-key", &cluster_key];
        let get = weft(0, &get).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("weft runs");
        until("it is under way", || network.moved_bytes(1, cable) > before + 2 * MEGABYTE);
        network.set_cable(1, cable, false);
        let output = get.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(fs::read(sandbox.path(&got)).expect("read") == content);
        assert_eq!(down_count(), Some(3));
        said(&["object", "put", "less", &format!("b{cable}"), "--code", "rs:2+1"]).ok();
        network.set_cable(1, cable, true);
        until("all links are up", || down_count() == Some(0));
    }
}

#[test]
#[ignore = "half a minute, on a calm machine: the figures of lab/two_cables.sh, with --nocapture"]
fn two_cables_are_1_8_times_one() {
    const RATE: u64 = 8 * MEGABYTE;
    let world = World::new();
    (0..2).for_each(|cable| world.network.limit_cable(1, cable, RATE));
    let content = content(64 * MEGABYTE);
    fs::write(world.sandbox.path("file"), &content).expect("written");
    let copy = world.sandbox.path("copy");
    let mut took = Vec::new();
    for cables in [1, 2] {
        world.network.set_cable(1, 1, cables == 2);
        let name = format!("/file{cables}");
        let began = Instant::now();
        world.weft(&["put", "meta.db", "file", &name]).ok();
        let put = began.elapsed();
        let began = Instant::now();
        world.weft(&["get", "meta.db", &name, &copy]).ok();
        let get = began.elapsed();
        assert!(fs::read(&copy).expect("read") == content);
        fs::remove_file(&copy).expect("removed");
        println!("{cables} cables of 8 MB/s, 64 MB of rs:2+1: put {put:?}, get {get:?}");
        took.push((put.as_secs_f64(), get.as_secs_f64()));
    }
    let (put, get) = (took[0].0 / took[1].0, took[0].1 / took[1].1);
    println!("two cables to one: put {put:.2}, get {get:.2}");
    assert!(put >= 1.8 && get >= 1.8, "put {put:.2}, get {get:.2}");
}
