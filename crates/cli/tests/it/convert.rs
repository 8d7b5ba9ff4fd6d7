//! `weft policy set --convert` and `--after`: directories change their code under a mount that is in use, or under `weft care`.

use crate::sandbox::caring::Caring;
use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, any_port, until};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const FILES: usize = 12;

fn content(number: usize) -> Vec<u8> {
    crate::content::bytes(number as u64, 1_500_000 + number * 777)
}

fn json(sandbox: &Sandbox, arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&sandbox.weft(arguments).stdout).expect("JSON")
}

/// Segments by code.
fn codes(sandbox: &Sandbox) -> BTreeMap<String, u64> {
    let status = json(sandbox, &["status", "--json", "meta.db"]);
    let codes = status["tally"]["codes"].as_object().expect("codes").clone();
    codes.into_iter().map(|(code, of_code)| (code, of_code["segment_count"].as_u64().expect("a count"))).collect()
}

fn is_only(sandbox: &Sandbox, code: &str) -> bool {
    codes(sandbox).keys().eq([code])
}

fn conversion(sandbox: &Sandbox) -> serde_json::Value {
    json(sandbox, &["care", "status", "--json", "meta.db"])["conversion"].clone()
}

/// A mounted volume of eight nodes with files in `/d`, in copies.
fn filled() -> Sandbox {
    let sandbox = Sandbox::with_volume("replica:3");
    for name in ["7", "8"] {
        sandbox.weft(["node", "add", "meta.db", name, &sandbox.path(&format!("node{name}"))]).ok();
    }
    sandbox.mount();
    fs::create_dir_all(sandbox.file("d/e")).expect("made");
    for number in 0..FILES {
        fs::write(sandbox.file(&name(number)), content(number)).expect("written");
    }
    // Everything is on the nodes when a mount has ended.
    sandbox.umount();
    sandbox.mount();
    sandbox
}

fn name(number: usize) -> String {
    if number.is_multiple_of(2) { format!("d/{number}") } else { format!("d/e/{number}") }
}

fn check(sandbox: &Sandbox) {
    for number in 0..FILES {
        assert!(fs::read(sandbox.file(&name(number))).expect("read") == content(number), "{number} differs");
    }
}

#[test]
fn a_tree_changes_its_code_under_readers_and_back_for_nothing() {
    let sandbox = filled();
    assert!(is_only(&sandbox, "replica:3"), "{:?}", codes(&sandbox));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&done);
        // Files that are open all the while, read by the kernel's leave from the mount each time.
        let reading = scope.spawn(|| {
            let files: Vec<_> =
                (0..FILES).map(|number| fs::File::open(sandbox.file(&name(number))).expect("opens")).collect();
            let mut rounds = 0;
            while !done.load(Ordering::Acquire) || rounds < 2 {
                for (number, file) in files.iter().enumerate() {
                    let mut bytes = vec![0; 70_000];
                    let at = (rounds * 7919 + number * 104_729) % 1_400_000;
                    file.read_exact_at(&mut bytes, at as u64).expect("reads");
                    assert!(bytes[..] == content(number)[at..at + 70_000], "{number} at {at}");
                }
                rounds += 1;
            }
        });
        // One node is away: what it holds is read from others, and converted from these.
        fs::rename(sandbox.path("node3"), sandbox.path("elsewhere")).expect("moved");
        let said = sandbox.weft(["policy", "set", "meta.db", "/d", "rs:4+2", "--convert"]).ok();
        assert!(said.contains("12 files to be converted in the background"), "{said}");
        until("converted", || is_only(&sandbox, "rs:4+2"));
        until("told", || !conversion(&sandbox)["ended_ms"].is_null());
        let first = conversion(&sandbox);
        assert_eq!(first["bytes_saved"], 0, "a copy is no quarter: {first}");
        fs::rename(sandbox.path("elsewhere"), sandbox.path("node3")).expect("moved back");
        until("it is welcome", || !is_missed(&sandbox, "3"));
        // More parities: the data stays where it is.
        sandbox.weft(["policy", "set", "meta.db", "/d", "rs:4+3", "--convert"]).ok();
        until("more parities", || is_only(&sandbox, "rs:4+3") && !conversion(&sandbox)["ended_ms"].is_null());
        let second = conversion(&sandbox);
        assert!(second["bytes_saved"].as_u64() > second["bytes_written"].as_u64(), "{second}");
        // One's mind is changed again: the copies are still there.
        sandbox.weft(["policy", "set", "meta.db", "/d", "replica:3", "--convert"]).ok();
        until("back", || is_only(&sandbox, "replica:3") && !conversion(&sandbox)["ended_ms"].is_null());
        let third = conversion(&sandbox);
        assert_eq!((&third["bytes_read"], &third["bytes_written"]), (&0.into(), &0.into()), "{third}");
        drop(ends);
        reading.join().expect("no read failed");
    });
    let said = sandbox.weft(["care", "status", "meta.db"]).ok();
    assert!(said.contains("conversion, in") && said.contains("previous shards of"), "{said}");
    assert!(sandbox.weft(["status", "meta.db"]).ok().contains("last conversion: ended"));
    // What is made now is written as before: the directory's policy is back too.
    assert_eq!(sandbox.weft(["policy", "get", "meta.db", "/d/e"]).ok(), "replica:3\n");
    check(&sandbox);
    sandbox.umount();
    // Any two nodes may go.
    for number in [2, 5] {
        sandbox.wipe(&format!("node{number}"));
    }
    sandbox.mount();
    check(&sandbox);
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn a_rule_converts_what_rests_and_a_killed_mount_goes_on_where_it_was() {
    let sandbox = filled();
    let set = ["policy", "set", "meta.db", "/d", "rs:4+2", "--after"];
    let both = sandbox.weft(set.iter().chain(&["1h", "--convert"]));
    assert!(!both.success && both.stderr.contains("--convert"), "{}", both.stderr);
    sandbox.weft(set.iter().chain(&["1h"])).ok();
    assert_eq!(sandbox.weft(["policy", "get", "meta.db", "/d"]).ok(), "replica:3 then rs:4+2 after 1h\n");
    until("looked at", || conversion(&sandbox)["request_count"] == 1 && !conversion(&sandbox)["ended_ms"].is_null());
    assert!(is_only(&sandbox, "replica:3"), "nothing rests that long");
    // Paused, so that nothing is begun before the mount dies; the next one finds what was asked for.
    sandbox.weft(["care", "pause", "meta.db"]).ok();
    sandbox.weft(set.iter().chain(&["1s"])).ok();
    // Until the rule is due: only time shows that a paused worker begins nothing.
    std::thread::sleep(Duration::from_millis(1_500));
    sandbox.kill_mount();
    sandbox.mount();
    assert!(is_only(&sandbox, "replica:3"));
    sandbox.weft(["care", "resume", "meta.db"]).ok();
    until("converted", || is_only(&sandbox, "rs:4+2"));
    check(&sandbox);
    // What changes is written by the first code again, beside what rests.
    fs::write(sandbox.file("d/new"), content(99)).expect("written");
    sandbox.umount();
    assert!(codes(&sandbox).contains_key("replica:3"), "{:?}", codes(&sandbox));
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn copies_of_a_large_file_become_the_data_of_a_wider_code_and_copies_again() {
    let sandbox = Sandbox::with_volume("replica:3");
    for name in ["7", "8", "9"] {
        sandbox.weft(["node", "add", "meta.db", name, &sandbox.path(&format!("node{name}"))]).ok();
    }
    sandbox.mount();
    fs::create_dir(sandbox.file("d")).expect("made");
    sandbox.umount();
    // Eight segments, and a ninth that is shorter. A mount that is written to slowly would store shorter ones.
    let content = crate::content::bytes(0, 65 << 20);
    fs::write(sandbox.path("large"), &content).expect("written");
    sandbox.weft(["put", "meta.db", &sandbox.path("large"), "/d/large"]).ok();
    sandbox.mount();
    assert_eq!(codes(&sandbox), [("replica:3".to_owned(), 9)].into());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&done);
        let reading = scope.spawn(|| {
            let file = fs::File::open(sandbox.file("d/large")).expect("opens");
            let mut rounds = 0;
            while !done.load(Ordering::Acquire) || rounds < 20 {
                let mut bytes = vec![0; 300_000];
                let at = rounds * 7_919_003 % (64 << 20);
                file.read_exact_at(&mut bytes, at as u64).expect("reads");
                assert!(bytes[..] == content[at..at + 300_000], "at {at}");
                rounds += 1;
            }
        });
        sandbox.weft(["policy", "set", "meta.db", "/d", "rs:4+2", "--convert"]).ok();
        until("converted", || is_only(&sandbox, "rs:4+2") && !conversion(&sandbox)["ended_ms"].is_null());
        drop(ends);
        reading.join().expect("no read failed");
    });
    let told = conversion(&sandbox);
    assert_eq!((&told["segment_count"], &told["merged_count"]), (&9.into(), &8.into()), "{told}");
    assert_eq!(codes(&sandbox), [("rs:4+2".to_owned(), 3)].into());
    // Two parities for each four segments, and the ninth; each by itself would have been half as much again as its data.
    let written = told["bytes_written"].as_u64().expect("bytes");
    assert!((4 * (8 << 20)..4 * (8 << 20) + (3 << 20)).contains(&written), "{told}");
    let saved = told["bytes_saved"].as_u64().expect("bytes");
    assert!(saved > 60 << 20, "{told}");
    let said = sandbox.weft(["care", "status", "meta.db"]).ok();
    assert!(said.contains("8 segments merged into wider ones"), "{said}");
    assert!(fs::read(sandbox.file("d/large")).expect("read") == content);
    // It is written to as any other file.
    let file = fs::OpenOptions::new().write(true).open(sandbox.file("d/large")).expect("opens");
    file.write_all_at(&[5; 100_000], 9 << 20).expect("written");
    drop(file);
    let mut expected = content;
    expected[9 << 20..][..100_000].fill(5);
    sandbox.umount();
    // What is dead goes, and of each source one copy stays.
    sandbox.weft(["gc", "meta.db", "--grace", "0s"]).ok();
    sandbox.weft(["scrub", "meta.db"]).ok();
    sandbox.mount();
    // Back to copies is a conversion as any other; and from these back again the previous shards are there still.
    for (code, is_written) in [("replica:3", true), ("rs:4+2", false), ("replica:3", false)] {
        sandbox.weft(["policy", "set", "meta.db", "/d", code, "--convert"]).ok();
        until("back", || is_only(&sandbox, code) && !conversion(&sandbox)["ended_ms"].is_null());
        let told = conversion(&sandbox);
        assert_eq!(told["bytes_written"].as_u64().expect("bytes") > 0, is_written, "{code}: {told}");
    }
    assert!(fs::read(sandbox.file("d/large")).expect("read") == expected);
    sandbox.umount();
    sandbox.weft(["gc", "meta.db", "--grace", "0s"]).ok();
    sandbox.weft(["scrub", "meta.db"]).ok();
    sandbox.weft(["fsck", "meta.db"]).ok();
    // Nothing that is needed was among what is gone: any two nodes may go.
    for number in [2, 5] {
        sandbox.wipe(&format!("node{number}"));
    }
    sandbox.mount();
    assert!(fs::read(sandbox.file("d/large")).expect("read") == expected);
    sandbox.umount();
}

/// Files of a segment each, all of one length.
const ALIKE: usize = 16;
const ALIKE_BYTES: usize = 1 << 20;

fn alike(number: usize) -> Vec<u8> {
    (0..ALIKE_BYTES).map(|at| (at * 31 / 7 + number * 5) as u8).collect()
}

fn write_alike(sandbox: &Sandbox) {
    for number in 0..ALIKE {
        let file = fs::File::create(sandbox.file(&format!("d/{number}"))).expect("made");
        file.write_all_at(&alike(number), 0).and_then(|()| file.sync_all()).expect("synced");
    }
}

fn check_alike(sandbox: &Sandbox) {
    for number in 0..ALIKE {
        assert!(fs::read(sandbox.file(&format!("d/{number}"))).expect("read") == alike(number), "{number} differs");
    }
}

/// Says that it is done when it goes, also by a panic: whoever is waited for then ends.
struct Ends<'d>(&'d AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Care says so; of a node that has too little since then it says other things.
fn is_missed(sandbox: &Sandbox, node: &str) -> bool {
    sandbox.weft(["care", "status", "meta.db"]).ok().contains(&format!("node {node} cannot be used now"))
}

fn has_ended(sandbox: &Sandbox) -> bool {
    !conversion(sandbox)["ended_ms"].is_null()
}

#[test]
fn care_alone_merges_and_whoever_comes_meanwhile_is_let_in() {
    let sandbox = Sandbox::with_volume("replica:3");
    for name in ["7", "8", "9"] {
        sandbox.weft(["node", "add", "meta.db", name, &sandbox.path(&format!("node{name}"))]).ok();
    }
    sandbox.mount();
    fs::create_dir(sandbox.file("d")).expect("made");
    write_alike(&sandbox);
    sandbox.umount();
    let _caring = Caring::of(sandbox.command(["care", "meta.db", "--scrub-every", "0", "--balance-every", "0"]));
    let set = |code: &str| {
        sandbox.weft(["policy", "set", "meta.db", "/d", code, "--convert"]).ok();
    };
    set("rs:4+2");
    // Commands become the owner in between, as often as they like.
    until("merged", || {
        assert_eq!(sandbox.weft(["ls", "meta.db", "/d"]).ok().lines().count(), ALIKE);
        is_only(&sandbox, "rs:4+2") && has_ended(&sandbox)
    });
    let told = conversion(&sandbox);
    assert!(told["merged_count"].as_u64() >= Some(ALIKE as u64 / 2), "{told}");
    sandbox.weft(["fsck", "meta.db"]).ok();
    // A mount comes while it is at the way back.
    set("replica:3");
    until("it is at it", || codes(&sandbox).contains_key("replica:3"));
    sandbox.mount();
    check_alike(&sandbox);
    until("all is converted", || is_only(&sandbox, "replica:3") && has_ended(&sandbox));
    check_alike(&sandbox);
    // And again: nothing is written.
    set("rs:4+2");
    until("back", || is_only(&sandbox, "rs:4+2") && has_ended(&sandbox));
    let told = conversion(&sandbox);
    assert_eq!((&told["bytes_read"], &told["bytes_written"]), (&0.into(), &0.into()), "{told}");
    check_alike(&sandbox);
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn over_daemons_one_of_which_is_killed_a_tree_changes_its_code_and_back() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let serve = |number: usize, listen: &str| {
        let folder = sandbox.path(&format!("served{number}"));
        fs::create_dir_all(&folder).expect("made");
        Served::of(sandbox.command(["node", "serve", &folder, "--listen", listen, "--plain", "--key", "key"]))
    };
    let mut daemons: Vec<Served> = (0..8).map(|number| serve(number, &any_port())).collect();
    for (number, daemon) in daemons.iter().enumerate() {
        sandbox.weft(["node", "add", "meta.db", &number.to_string(), &daemon.url, "--key", "key"]).ok();
    }
    // Slow enough that something happens in between.
    sandbox.mount_by(sandbox.command(["mount", "-d", "--bwlimit", "48M", "meta.db", &sandbox.mnt()]));
    for folder in ["d", "busy"] {
        fs::create_dir(sandbox.file(folder)).expect("made");
    }
    sandbox.weft(["policy", "set", "meta.db", "/d", "replica:3"]).ok();
    write_alike(&sandbox);
    let copies_before = codes(&sandbox)["replica:3"];
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&done);
        let busy = scope.spawn(|| {
            let mut round = 0;
            while !done.load(Ordering::Acquire) || round < 2 {
                let (number, path) = (round % ALIKE, sandbox.file(&format!("busy/{}", round % 5)));
                assert!(fs::read(sandbox.file(&format!("d/{number}"))).expect("read") == alike(number));
                let file = fs::File::create(&path).expect("made");
                file.write_all_at(&alike(round)[..200_000], 0).and_then(|()| file.sync_all()).expect("synced");
                assert!(fs::read(&path).expect("read") == alike(round)[..200_000]);
                round += 1;
            }
        });
        sandbox.weft(["policy", "set", "meta.db", "/d", "rs:4+2", "--convert"]).ok();
        until("it is at it", || codes(&sandbox).get("replica:3") != Some(&copies_before));
        let address = daemons[3].address.clone();
        daemons[3].kill();
        assert!(codes(&sandbox).contains_key("replica:3"), "it is not done yet");
        until("it is missed", || is_missed(&sandbox, "3"));
        daemons[3] = serve(3, &address);
        until("converted", || is_only(&sandbox, "rs:4+2") && has_ended(&sandbox));
        // By the run that saved it: one that was left for something more urgent goes on in the same record, one that ended is past.
        until("what was saved is told", || {
            let care = json(&sandbox, &["care", "status", "--json", "meta.db"]);
            let history = care["record"]["history"].as_array().expect("a list").iter();
            let mut told =
                history.filter(|entry| entry["task"] == "conversion").filter_map(|entry| entry["what"].as_str());
            care["conversion"]["bytes_saved"].as_u64() > Some(0)
                || told.any(|told| told.contains(" saved") && !told.contains(" 0 saved"))
        });
        until("it is welcome", || !is_missed(&sandbox, "3"));
        sandbox.weft(["policy", "set", "meta.db", "/d", "replica:3", "--convert"]).ok();
        // What the busy user writes has the root's code all the while.
        until("back", || codes(&sandbox).contains_key("replica:3") && has_ended(&sandbox));
        // Every previous shard is there still, those of the killed one too.
        sandbox.weft(["policy", "set", "meta.db", "/d", "rs:4+2", "--convert"]).ok();
        until("back again", || is_only(&sandbox, "rs:4+2") && has_ended(&sandbox));
        let told = conversion(&sandbox);
        assert_eq!((&told["bytes_read"], &told["bytes_written"]), (&0.into(), &0.into()), "{told}");
        assert!(told["bytes_saved"].as_u64() > Some((ALIKE * ALIKE_BYTES) as u64), "{told}");
        drop(ends);
        busy.join().expect("no error came to the user");
    });
    check_alike(&sandbox);
    sandbox.umount();
    sandbox.weft(["scrub", "meta.db"]).ok();
    sandbox.weft(["fsck", "meta.db"]).ok();
}
