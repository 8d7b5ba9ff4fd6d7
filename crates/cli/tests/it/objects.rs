//! Objects on real daemons, without a volume: processes on 127.0.0.1, of which some are killed, and some lie.

use crate::helpers::metric;
use crate::sandbox::served::Served;
use crate::sandbox::{Sandbox, any_port, until};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use weft_format::NodeIdentity;
use weft_format::ShardKey;
use weft_format::records::{ObjectId, ObjectRecord, ObjectState};
use weft_format::shard::{ShardBuilder, ShardHeader, verify_object};

/// Daemons that hold objects.
struct Store {
    sandbox: Sandbox,
    daemons: Vec<Served>,
    from: String,
}

impl Store {
    fn of(count: usize) -> Self {
        let sandbox = Sandbox::empty();
        let mut daemons: Vec<Served> = Vec::new();
        for number in 0..count {
            let through = daemons.first().map(|first| first.url.clone());
            daemons.push(start(&sandbox, number, through.as_deref()));
        }
        let from = daemons.iter().take(3).map(|daemon| daemon.url.clone()).collect::<Vec<_>>().join(",");
        let store = Self { sandbox, daemons, from };
        until("all know all", || {
            store.daemons.iter().all(|daemon| {
                let members = store.members(&daemon.url);
                members.len() == count && members.iter().all(|of| of["state"] == "alive" && of["node"] != "")
            })
        });
        store
    }

    fn members(&self, from: &str) -> Vec<serde_json::Value> {
        let key = self.sandbox.path("cluster-key");
        let arguments = ["node", "list", "--from", from, "--cluster-key", &key, "--json"];
        serde_json::from_slice(&self.sandbox.command(arguments).output().expect("run").stdout).unwrap_or_default()
    }

    fn arguments<'a>(&'a self, arguments: &[&'a str]) -> Vec<&'a str> {
        [&["object"], arguments, &["--from", &self.from, "--cluster-key", "cluster-key"]].concat()
    }

    fn object(&self, arguments: &[&str]) -> crate::sandbox::Said {
        self.sandbox.weft(self.arguments(arguments))
    }

    fn write(&self, name: &str, data: &[u8]) {
        fs::write(self.sandbox.path(name), data).expect("written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.sandbox.path(name)).expect("read")
    }

    /// Shards that were found of the first segment.
    fn shards(&self, name: &str) -> u64 {
        let stat: serde_json::Value =
            serde_json::from_str(&self.object(&["stat", name, "--json"]).stdout).unwrap_or_default();
        stat["shards"][0][0].as_u64().unwrap_or(0)
    }

    /// The files of shards of data at a member.
    fn shard_files(&self, number: usize) -> Vec<(ShardKey, PathBuf)> {
        let files = self.files(number).into_iter();
        files.filter(|(key, _)| ObjectId::of(key.segment).is_data).collect()
    }

    /// Has a member the word that an object was removed?
    fn has_removal(&self, number: usize, name: &str) -> bool {
        let identity = fs::read(self.sandbox.path(&format!("served{number}/weft-node.json"))).expect("read");
        let volume = NodeIdentity::decode(&identity).expect("an identity").volume;
        self.files(number).into_iter().any(|(key, path)| {
            // Others may be on their way.
            let record = fs::read(path).ok().and_then(|object| ObjectRecord::unseal(volume, key, &object).ok());
            record.is_some_and(|record| record.name == name && record.state == ObjectState::Removed)
        })
    }

    /// All files of a member, of shards and of records.
    fn files(&self, number: usize) -> Vec<(ShardKey, PathBuf)> {
        let mut found = Vec::new();
        for folder in fs::read_dir(self.sandbox.path(&format!("served{number}"))).expect("listed").flatten() {
            for file in fs::read_dir(folder.path()).into_iter().flatten().flatten() {
                let key: Option<ShardKey> = file.file_name().to_string_lossy().parse().ok();
                found.extend(key.map(|key| (key, file.path())));
            }
        }
        found
    }
}

fn start(sandbox: &Sandbox, number: usize, through: Option<&str>) -> Served {
    let folder = sandbox.path(&format!("served{number}"));
    fs::create_dir_all(&folder).expect("made");
    let listen = any_port();
    let mut arguments =
        vec!["node", "serve", &folder, "--listen", &listen, "--cluster-key", "cluster-key", "--objects"];
    arguments.extend(["--rebuild-after", "2", "--leftover-grace", "20", "--open-metrics"]);
    arguments.extend(through.into_iter().flat_map(|url| ["--join", url]));
    Served::of(sandbox.command(arguments))
}

fn data(length: usize) -> Vec<u8> {
    crate::content::bytes(0, length)
}

#[test]
fn fifteen_daemons_serve_fifty_clients_at_once_while_three_are_killed() {
    let mut store = Store::of(15);
    let contents = data(3 << 20);
    store.write("file", &contents);
    let said = store.object(&["put", "file", "run/1.root", "--code", "ldpc:cube-8-6"]).ok();
    assert!(said.contains("run/1.root") && !said.contains("alternates"), "{said}");
    assert_eq!(store.shards("run/1.root"), 14);
    let client = |number: usize| -> Child {
        let target = format!("got{number}");
        // Three seconds each.
        let command = store
            .arguments(&["get", "run/1.root", &target, "--bwlimit", "1M"])
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>();
        store.sandbox.command(command).stderr(Stdio::piped()).spawn().expect("weft runs")
    };
    let mut clients: Vec<Child> = (0..50).map(client).collect();
    let sent =
        |status| metric(&store.daemons, &format!("weft_node_sent_bytes_total{{request=\"get\",status=\"{status}\"}}"));
    until("a tenth is read", || sent(200) + sent(206) > 5 * contents.len() as u64);
    let reading =
        clients.iter_mut().filter_map(|client| client.try_wait().expect("asked").is_none().then_some(())).count();
    println!("{reading} of 50 are in the middle of their reads");
    assert!(reading > 0, "all have ended");
    let killed = [3, 8, 12];
    let killed_urls: Vec<String> = killed.iter().map(|number| store.daemons[*number].url.clone()).collect();
    killed.iter().for_each(|number| store.daemons[*number].kill());
    for (number, client) in clients.into_iter().enumerate() {
        let output = client.wait_with_output().expect("it ends");
        assert!(output.status.success(), "client {number}: {}", String::from_utf8_lossy(&output.stderr));
        let got = format!("got{number}");
        assert!(store.read(&got) == contents, "client {number} got something else");
        fs::remove_file(store.sandbox.path(&got)).expect("removed");
    }
    // Daemons notice who is gone, and make of the three lost shards the one for which there is a member.
    until("they are dead by rumour", || {
        let members = store.members(&store.daemons[0].url);
        members.iter().filter(|member| member["state"] == "dead").count() == killed_urls.len()
    });
    // Two members that make them at once may give the one free member a shard each.
    until("what can be made is made", || store.shards("run/1.root") >= 12);
    // New objects are stored with the shards that there are members for. Of another with this name the two closest members could know, which may
    // be gone.
    let said = store.object(&["put", "file", "run/2.root", "--replace"]).ok();
    assert!(said.contains("2 of them could not be stored") || said.contains("4 of them could not be stored"), "{said}");
    store.object(&["get", "run/2.root", "again"]).ok();
    assert!(store.read("again") == contents);
    let listed = store.object(&["ls", "run/"]).ok();
    assert!(listed.contains("run/1.root") && listed.contains("run/2.root"), "{listed}");
}

#[test]
fn shards_of_killed_daemons_are_rebuilt_by_the_others_and_one_that_is_back_hears_what_was_removed() {
    let mut store = Store::of(8);
    let contents = data(1 << 20);
    store.write("file", &contents);
    for name in ["a", "b", "c"] {
        store.object(&["put", "file", name, "--code", "rs:4+2"]).ok();
    }
    let [one, two] = [1, 4];
    store.daemons[one].kill();
    store.daemons[two].kill();
    until("all is whole again", || ["a", "b", "c"].iter().all(|name| store.shards(name) == 6));
    let total = |series: &str| -> u64 {
        let living = store.daemons.iter().enumerate().filter(|(number, _)| ![one, two].contains(number));
        living.map(|(_, daemon)| metric(std::slice::from_ref(daemon), series)).sum()
    };
    let (rebuilt, payload_bytes) = (total("weft_objects_rebuilt_shards_total"), (1 << 20) / 4);
    // Of two of one segment four shards are read, as of one.
    assert!(total("weft_objects_rebuild_read_bytes_total") >= 2 * rebuilt * payload_bytes);
    assert!(rebuilt > 0 && total("weft_objects_rebuild_written_bytes_total") >= rebuilt * payload_bytes);
    // Two more fall.
    store.daemons[6].kill();
    store.daemons[7].kill();
    for name in ["a", "b", "c"] {
        store.object(&["get", name, &format!("{name}.got")]).ok();
        assert!(store.read(&format!("{name}.got")) == contents);
    }
    // One is back with what it had, after an object was removed.
    store.object(&["rm", "a"]).ok();
    let first = store.daemons[0].url.clone();
    store.daemons[one] = start(&store.sandbox, one, Some(&first));
    until("it is there", || {
        let members = store.members(&first);
        members.iter().filter(|member| member["state"] == "alive").count() == 5
    });
    let sentence = store.object(&["get", "a", "a.again"]).sentence();
    assert!(sentence.contains("a does not exist"), "{sentence}");
    until("it has heard of the removal", || store.has_removal(one, "a"));
    let listed: serde_json::Value = serde_json::from_str(&store.object(&["ls", "--json"]).ok()).expect("JSON");
    let names = listed["objects"].as_array().expect("a list").iter().map(|object| object["name"].as_str());
    assert_eq!(names.collect::<Vec<_>>(), [Some("b"), Some("c")]);
    assert!(listed["silent"].is_u64(), "{listed}");
}

#[test]
fn a_daemon_that_lies_is_named_and_its_bytes_are_not_used() {
    let store = Store::of(6);
    let contents = data(300_000);
    store.write("file", &contents);
    store.object(&["put", "file", "a", "--code", "rs:4+2"]).ok();
    // Sound by themselves, and not what was put.
    for (_, path) in store.shard_files(2) {
        let header = ShardHeader::decode(&fs::read(&path).expect("read")).expect("a shard");
        let mut builder = ShardBuilder::new(&header).expect("a header");
        let payload = vec![0x5a; builder.payload_bytes() as usize];
        builder.write(0, &payload).expect("it fits");
        fs::write(&path, builder.finish().0).expect("written");
    }
    let output = store.sandbox.command(store.arguments(&["get", "a", "got"])).output().expect("run");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{stderr}");
    assert!(store.read("got") == contents);
    // It has data or a check; of a check nothing is read while all is well.
    let identity = fs::read(store.sandbox.path("served2/weft-node.json")).expect("read");
    assert!(NodeIdentity::decode(&identity).is_ok());
    let is_data = store.shard_files(2).iter().any(|(key, _)| key.index.as_usize() < 4);
    assert_eq!(stderr.contains(&store.daemons[2].url), is_data, "{stderr}");
}

#[test]
fn a_shard_that_rots_on_a_disk_is_made_again_by_its_daemon() {
    let store = Store::of(6);
    let contents = data(300_000);
    store.write("file", &contents);
    store.object(&["put", "file", "a", "--code", "rs:4+2"]).ok();
    let [(key, path)] = &store.shard_files(2)[..] else { panic!("a shard of each") };
    let mut bytes = fs::read(path).expect("read");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).expect("written");
    let header = |path: &PathBuf| ShardHeader::decode(&fs::read(path).expect("read")).expect("a shard");
    until("it is replaced", || {
        let shards = store.shard_files(2);
        shards.len() == 1 && shards[0].0 != *key
    });
    let shards = store.shard_files(2);
    let identity = header(&shards[0].1).identity;
    assert_eq!((identity.key, identity.key.index), (shards[0].0, key.index));
    assert!(verify_object(&identity, &fs::read(&shards[0].1).expect("read")).is_ok());
    let output = store.sandbox.command(store.arguments(&["get", "a", "got"])).output().expect("run");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(store.read("got") == contents);
}

#[test]
fn a_transfer_goes_on_when_daemons_are_killed_in_the_middle_of_it() {
    let mut store = Store::of(8);
    let contents = data(70 << 20);
    store.write("file", &contents);
    store.object(&["put", "file", "a", "--code", "rs:4+2"]).ok();
    let mut client =
        store.sandbox.command(store.arguments(&["get", "a", "-"])).stdout(Stdio::piped()).spawn().expect("weft runs");
    let mut output = client.stdout.take().expect("piped");
    let mut got = vec![0; 1 << 20];
    output.read_exact(&mut got).expect("a beginning");
    // It has given a segment away, and waits for a reader of the others.
    store.daemons[3].kill();
    store.daemons[5].kill();
    output.read_to_end(&mut got).expect("the rest");
    assert!(client.wait().expect("it ends").success());
    assert!(got == contents);
}

#[test]
fn what_is_wrong_is_said_in_a_sentence() {
    let store = Store::of(3);
    store.write("file", b"contents");
    store.object(&["put", "file", "a", "--code", "replica:3"]).ok();
    let key = store.sandbox.path("stranger");
    fs::write(&key, "07".repeat(32)).expect("written");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("kept");
    let stranger = ["object", "ls", "--from", &store.from, "--cluster-key", &key];
    assert!(store.sandbox.weft(stranger).sentence().contains("no daemon answered"));
    let nowhere = ["object", "ls", "--from", "127.0.0.1:1", "--cluster-key", "cluster-key"];
    assert!(store.sandbox.weft(nowhere).sentence().contains("no daemon answered"));
    for (arguments, part) in [
        (vec!["put", "file", "a", "--code", "replica:3"], "a exists (version "),
        (vec!["put", "file", "b"], "ldpc:cube-8-6 needs 12 members in domains of their own, and 3 are there"),
        (vec!["put", "nothing", "b", "--code", "replica:3"], "nothing"),
        (vec!["put", "file", "", "--code", "replica:3"], "cannot name an object"),
        (vec!["get", "b", "got"], "b does not exist: 3 members were asked"),
        (vec!["get", "a", "file"], "file exists already"),
        (vec!["rm", "b"], "b does not exist"),
        (vec!["stat", "b"], "b does not exist"),
    ] {
        let sentence = store.object(&arguments).sentence();
        assert!(sentence.contains(part), "{arguments:?}: {sentence}");
    }
    // Those that can be removed are, and each that cannot is named.
    for name in ["c", "d"] {
        store.object(&["put", "file", name, "--code", "replica:3"]).ok();
    }
    let output = store.sandbox.command(store.arguments(&["rm", "b", "c", "e", "d"])).output().expect("run");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.lines().count() == 2, "{stderr}");
    assert!(stderr.contains("b does not exist") && stderr.contains("e does not exist"), "{stderr}");
    // Failed, and left nothing.
    let listed: BTreeSet<String> = store.object(&["ls"]).ok().lines().map(str::to_owned).collect();
    assert_eq!(listed.len(), 1, "{listed:?}");
    // A place of objects is no node for a volume, and a volume's node no place for objects.
    store.sandbox.weft(["format", "--policy", "replica:1", "meta.db"]).ok();
    let refused = store.sandbox.weft(["node", "add", "meta.db", "x", &store.daemons[0].url]).sentence();
    assert!(!refused.is_empty());
    let without_key = store.sandbox.weft(["node", "serve", &store.sandbox.path("served0"), "--objects"]);
    assert!(!without_key.success);
    store.sandbox.weft(["node", "add", "meta.db", "y", &store.sandbox.path("y")]).ok();
    let of_volume = ["node", "serve", "y", "--listen", &any_port(), "--cluster-key", "cluster-key", "--objects"];
    let sentence = store.sandbox.weft(of_volume).sentence();
    assert!(sentence.contains("is a node of volume"), "{sentence}");
}

#[test]
fn a_grant_opens_its_names_for_what_it_says_and_nothing_else() {
    let store = Store::of(3);
    store.write("file", b"contents");
    for name in ["run/1", "other/1"] {
        store.object(&["put", "file", name, "--code", "replica:3"]).ok();
    }
    let grant = |prefix: &str, rights: &[&str]| {
        let line =
            store.sandbox.weft([&["object", "grant", prefix, "--cluster-key", "cluster-key"], rights].concat()).ok();
        let file = store.sandbox.path(&format!("grant{}{}", prefix.replace('/', "-"), rights.concat()));
        fs::write(&file, line).expect("written");
        fs::set_permissions(&file, Permissions::from_mode(0o600)).expect("kept");
        file
    };
    let with = |key: &str, arguments: &[&str]| {
        store.sandbox.weft([&["object"], arguments, &["--from", &store.from, "--cluster-key", key]].concat())
    };
    let (reader, writer, lister) =
        (grant("run/", &["--read"]), grant("run/", &["--write"]), grant("run/", &["--list"]));
    with(&reader, &["get", "run/1", "got"]).ok();
    assert_eq!(store.read("got"), b"contents");
    with(&writer, &["put", "file", "run/2", "--code", "replica:3"]).ok();
    with(&writer, &["rm", "run/2"]).ok();
    assert!(with(&lister, &["ls", "run/"]).ok().contains("run/1"));
    // Of other names it knows nothing, and what is not granted is refused in a sentence.
    for (key, arguments) in [
        (&reader, vec!["get", "other/1", "got2"]),
        (&reader, vec!["put", "file", "run/3", "--code", "replica:3"]),
        (&reader, vec!["rm", "run/1"]),
        (&reader, vec!["ls", "run/"]),
        (&writer, vec!["get", "run/1", "got2"]),
        (&writer, vec!["put", "file", "other/2", "--code", "replica:3"]),
        (&writer, vec!["put", "file", "other/1", "--code", "replica:3", "--replace"]),
        (&lister, vec!["ls", ""]),
        (&lister, vec!["get", "run/1", "got2"]),
    ] {
        let sentence = with(key, &arguments).sentence();
        assert!(!sentence.is_empty(), "{arguments:?}: {sentence}");
    }
    assert_eq!(store.object(&["ls"]).ok().lines().count(), 2);
    // A grant that was changed is no grant.
    let changed = store.sandbox.path("changed");
    let line = fs::read_to_string(&reader).expect("read").replace(" r:", " rw:");
    fs::write(&changed, line).expect("written");
    fs::set_permissions(&changed, Permissions::from_mode(0o600)).expect("kept");
    assert!(with(&changed, &["get", "run/1", "got3"]).sentence().contains("no daemon answered"));
    let refused = store.sandbox.weft(["object", "grant", "x", "--cluster-key", "cluster-key"]).sentence();
    assert!(refused.contains("a grant of nothing"), "{refused}");
}
