//! What the repair of lost nodes reads: helpers that combine, alone and in a chain, one loss and two, and one that lies.

use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, any_port};
use std::fs;
use std::io::Write;

fn content(number: u64) -> Vec<u8> {
    crate::content::bytes(number, 300_000 + number as usize * 777)
}

/// What all daemons have answered to one kind of request: `weft_node_sent_bytes_total` and requests.
pub fn metric(daemons: &[Served], series: &str) -> u64 {
    let value = |daemon: &Served| {
        let mut stream = std::net::TcpStream::connect(&daemon.address).expect("connected");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").expect("asked");
        let text = std::io::read_to_string(stream).expect("answered");
        let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse::<u64>().expect("a number"))
    };
    daemons.iter().map(value).sum()
}

/// What the repair of lost nodes said, and the daemons that are left.
struct Repaired {
    report: serde_json::Value,
    daemons: Vec<Served>,
}

impl Repaired {
    fn number(&self, field: &str) -> u64 {
        self.report["report"][field].as_u64().expect("a number")
    }

    /// Bytes that the daemons sent in answer to `request`.
    fn sent(&self, request: &str) -> u64 {
        metric(&self.daemons, &format!("weft_node_sent_bytes_total{{{request}}}"))
    }

    /// Bytes of payload of each shard that was rebuilt, of cells of `alpha` symbols.
    fn payload_bytes(&self, alpha: u64) -> u64 {
        (self.number("bytes_written") / self.number("rebuilt_count") - 256) * 4096 / 4104 / alpha * alpha
    }
}

/// Loses and replaces the daemons of these numbers out of `n`, with one file of `code` on them.
fn lose_and_repair(code: &str, n: usize, lost: &[usize], is_keyed: bool) -> Repaired {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", code, "meta.db"]).ok();
    let serve = |name: &str| {
        let folder = sandbox.path(name);
        fs::create_dir(&folder).expect("made");
        let key = is_keyed.then(|| sandbox.path(&format!("{name}-key")));
        let key: Vec<String> = key.into_iter().flat_map(|key| ["--key".into(), key]).collect();
        // Without TLS their metrics can be asked for by a few lines.
        let listen = any_port();
        let arguments = ["node", "serve", &folder, "--listen", &listen, "--open-metrics"].into_iter();
        let served = Served::of(sandbox.command(arguments.chain(key.iter().map(String::as_str))));
        let added = [vec![served.url.clone()], key].concat();
        (served, added)
    };
    let mut daemons = Vec::new();
    for number in 1..=n {
        let (served, added) = serve(&format!("served{number}"));
        let name = number.to_string();
        sandbox.weft(["node", "add", "meta.db", &name].into_iter().chain(added.iter().map(String::as_str))).ok();
        daemons.push(served);
    }
    let data = content(1 << 13);
    fs::write(sandbox.path("data"), &data).expect("written");
    sandbox.weft(["put", "meta.db", &sandbox.path("data"), "/data"]).ok();
    let mut fresh = Vec::new();
    for &number in lost.iter().rev() {
        daemons[number - 1].kill();
        drop(daemons.remove(number - 1));
    }
    for number in lost {
        let ((served, added), name) = (serve(&format!("new{number}")), number.to_string());
        sandbox.weft(["node", "replace", "meta.db", &name].into_iter().chain(added.iter().map(String::as_str))).ok();
        fresh.push(served);
    }
    let report = serde_json::from_str(&sandbox.weft(["repair", "--json", "meta.db"]).ok()).expect("JSON");
    sandbox.weft(["get", "meta.db", "/data", &sandbox.path("back")]).ok();
    assert!(fs::read(sandbox.path("back")).expect("read") == data);
    Repaired { report, daemons }
}

/// Repair bandwidth of regenerating codes (Rashmi, Shah, Kumar 2011): `d` helpers send `1/alpha` of a shard each.
#[test]
fn helpers_that_combine_send_what_the_theory_says() {
    for (code, n, helpers, alpha, lost) in
        [("msr:4+4,d=7", 8, 7, 4, 8), ("mbr:4+4,d=5", 8, 5, 5, 1), ("basic:4+4,d=6", 8, 6, 3, 8)]
    {
        // Which shard a node has is the placement's affair; a symbol of it is sent by each helper whichever it is.
        let repaired = lose_and_repair(code, n, &[lost], false);
        let sent = repaired.sent("request=\"combine\",status=\"200\"");
        assert_eq!(repaired.number("bytes_read"), sent, "{code}");
        let read = metric(&repaired.daemons, "weft_node_combined_bytes_total");
        assert_eq!(repaired.number("bytes_read_by_nodes"), read, "{code}");
        let payload = repaired.payload_bytes(alpha);
        println!("{code}: {payload} bytes rebuilt, helpers read {read} and sent {sent}");
        // The last frame's check is counted in what is stored: a few bytes of rounding.
        assert!(sent.abs_diff(payload * helpers / alpha) <= 8 * helpers, "{code}: {sent} for a payload of {payload}");
    }
}

/// Two lost nodes: one plan rebuilds both shards of a segment, from what helpers send for both (the cut-set bound). E-MBR adds up
/// `k - 1` sums for the block that both have lost.
#[test]
fn two_lost_nodes_are_rebuilt_together() {
    for (code, n, symbols, alpha) in [("msr:4+4,d=7", 8, 12, 4), ("embr:n=6,k=4", 6, 11, 5)] {
        let repaired = lose_and_repair(code, n, &[2, 5], false);
        assert_eq!(repaired.number("rebuilt_count"), 2, "{code}");
        let sent = repaired.sent("request=\"combine\",status=\"200\"");
        assert_eq!(repaired.number("bytes_read"), sent, "{code}");
        let payload = repaired.payload_bytes(alpha);
        println!("{code}: twice {payload} bytes rebuilt, helpers sent {sent}");
        assert!(sent.abs_diff(payload * symbols / alpha) <= 8 * symbols, "{code}: {sent} for payloads of {payload}");
        let foretold = repaired.report["estimate"]["bytes_to_read"].as_u64().expect("a number");
        assert!(foretold.abs_diff(sent) <= 8 * symbols, "{code}: {foretold} bytes were foretold, {sent} sent");
    }
    // Nodes only send: the whole stripes of clay:4+4 take at most 55 of the 64 symbols of four shards, the last one whole shards.
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "clay:4+4", "meta.db"]).ok();
    for number in 1..=8 {
        sandbox.weft(["node", "add", "meta.db", &number.to_string(), &sandbox.path(&format!("node{number}"))]).ok();
    }
    fs::write(sandbox.path("data"), content(1 << 13)).expect("written");
    sandbox.weft(["put", "meta.db", &sandbox.path("data"), "/data"]).ok();
    for number in ["3", "7"] {
        sandbox.wipe(&format!("node{number}"));
        sandbox.weft(["node", "replace", "meta.db", number, &sandbox.path(&format!("new{number}"))]).ok();
    }
    let said: serde_json::Value =
        serde_json::from_str(&sandbox.weft(["repair", "--json", "meta.db"]).ok()).expect("JSON");
    let number = |part: &str, field: &str| said[part][field].as_u64().expect("a number");
    let (foretold, read) = (number("estimate", "bytes_to_read"), number("report", "bytes_read"));
    let shard = number("report", "bytes_written") / 2;
    println!("clay:4+4: twice {shard} bytes rebuilt, {foretold} foretold, {read} read");
    assert_eq!(number("report", "rebuilt_count"), 2);
    assert!(read < 2 * shard * 7 / 4, "less than twice what one loss takes: {read} for shards of {shard}");
    assert!(foretold.abs_diff(read) <= read / 20, "{foretold} bytes were foretold, {read} read");
    sandbox.weft(["get", "meta.db", "/data", &sandbox.path("back")]).ok();
    assert!(fs::read(sandbox.path("back")).expect("read") == content(1 << 13));
}

/// Repair pipelining (Li et al. 2017): each helper sends one shard, all but one of them to another helper.
#[test]
fn a_lost_shard_comes_through_a_chain_of_its_helpers() {
    for (code, n, helpers) in [("rs:4+2", 6, 4), ("crs:4+2", 6, 4), ("raid5:4", 4, 3)] {
        let repaired = lose_and_repair(code, n, &[2], true);
        let sent = repaired.sent("request=\"combine\",status=\"200\"");
        println!("{code}: {} bytes rebuilt, helpers sent {sent}", repaired.payload_bytes(8));
        assert!(sent.abs_diff(repaired.payload_bytes(8) * helpers) <= 64 * helpers, "{code}: {sent}");
        assert_eq!(repaired.number("bytes_read"), sent);
    }
    // Daemons without keys ask nobody, and are read.
    let repaired = lose_and_repair("rs:4+2", 6, &[2], false);
    assert_eq!(repaired.sent("request=\"combine\",status=\"200\""), 0);
    assert!(repaired.sent("request=\"get\",status=\"206\"") >= repaired.payload_bytes(1) * 4);
}

#[test]
fn a_faulty_helper_of_a_repair_is_named() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "msr:2+2,d=3", "meta.db"]).ok();
    let serve = |name: &str| {
        let folder = sandbox.path(name);
        fs::create_dir(&folder).expect("made");
        Served::start(&sandbox, &folder, &any_port(), None)
    };
    let mut daemons: Vec<Served> = ["one", "two", "three", "four"].map(serve).into();
    for (name, daemon) in ["one", "two", "three", "four"].into_iter().zip(&daemons) {
        let address =
            if name == "two" { crate::sandbox::faulty_helper::before(&daemon.address) } else { daemon.address.clone() };
        sandbox.weft(["node", "add", "meta.db", name, &format!("weft://{address}")]).ok();
    }
    fs::write(sandbox.path("data"), content(1)).expect("written");
    sandbox.weft(["put", "meta.db", &sandbox.path("data"), "/data"]).ok();
    assert!(!sandbox.weft(["status", "meta.db"]).ok().contains("wrong data"));
    daemons.truncate(3);
    let fresh = serve("fresh");
    sandbox.weft(["node", "replace", "meta.db", "four", &fresh.url]).ok();
    sandbox.weft(["repair", "meta.db"]).ok();
    let status = sandbox.weft(["status", "meta.db"]).ok();
    let note = "node two sent wrong data to 1 repair, last at ";
    assert!(status.contains(note) && status.contains("active, FAULTY"), "{status}");
    assert_eq!(status.matches("FAULTY").count(), 1, "{status}");
    let status: serde_json::Value =
        serde_json::from_str(&sandbox.weft(["status", "--json", "meta.db"]).ok()).expect("JSON");
    let faults = |name: &str| {
        let nodes = status["nodes"].as_array().expect("nodes");
        nodes.iter().find(|node| node["name"] == name).map(|node| node["faults"].clone()).expect("there")
    };
    assert_eq!((faults("two")["count"].as_u64(), faults("one").is_null()), (Some(1), true));
    sandbox.weft(["get", "meta.db", "/data", &sandbox.path("back")]).ok();
    assert!(fs::read(sandbox.path("back")).expect("read") == content(1));
}
