//! A volume over nodes of several kinds.

use crate::sandbox::served::{Served, read_with};
use crate::sandbox::{Sandbox, any_port};
use rustix::process::Signal;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

fn image(sandbox: &Sandbox, name: &str) -> String {
    let path = sandbox.path(name);
    File::create(&path).and_then(|file| file.set_len(64 << 20)).expect("an image file");
    format!("block://{path}")
}

fn content(number: u64) -> Vec<u8> {
    crate::content::bytes(number, 300_000 + number as usize * 777)
}

#[test]
fn folders_and_devices_make_one_drive() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    for number in 1..=6 {
        let place = match number {
            1..=3 => image(&sandbox, &format!("image{number}")),
            _ => sandbox.path(&format!("node{number}")),
        };
        sandbox.weft(["node", "add", "meta.db", &number.to_string(), &place]).ok();
    }
    let listed = sandbox.weft(["node", "list", "meta.db"]).ok();
    assert_eq!(listed.matches("block:///").count(), 3, "{listed}");
    sandbox.mount();
    let write = |number: u64| {
        let mut file = File::create(sandbox.file(&number.to_string())).expect("made");
        file.write_all(&content(number)).and_then(|()| file.sync_all()).expect("written");
    };
    (0..20).for_each(write);

    // Two devices go while the mount stands; what is written then goes elsewhere or is repaired.
    for number in [1, 2] {
        fs::remove_file(sandbox.path(&format!("image{number}"))).expect("removed");
    }
    (20..40).for_each(write);
    for number in 0..40 {
        assert!(fs::read(sandbox.file(&number.to_string())).expect("read") == content(number), "{number} differs");
    }
    for number in [1, 2] {
        let place = image(&sandbox, &format!("new{number}"));
        sandbox.weft(["node", "replace", "meta.db", &number.to_string(), &place]).ok();
    }
    // Another process than the mount's stores shards on the same devices, while the mount does. What the mount then writes
    // may lack shards again, before it knows the new nodes.
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (40..60).for_each(write));
        sandbox.weft(["repair", "meta.db"]);
        writer.join().expect("written");
    });
    let said = sandbox.weft(["repair", "meta.db"]).ok();
    assert!(said.contains("every file survives the loss of any 2 more nodes"), "{said}");
    sandbox.umount();
    fs::remove_file(sandbox.path("image3")).expect("removed");
    sandbox.wipe("node4");
    sandbox.mount();
    for number in 0..60 {
        assert!(fs::read(sandbox.file(&number.to_string())).expect("read") == content(number), "{number} differs");
    }
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn a_device_is_refused_with_a_sentence() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let add = |place: &str| sandbox.weft(["node", "add", "meta.db", "one", place]).sentence();
    fs::write(sandbox.path("used"), vec![1; 4 << 20]).expect("written");
    for (place, words) in [
        (format!("block://{}", sandbox.path("missing")), "truncate -s"),
        (format!("block://{}", sandbox.path("used")), "give a blank device"),
        (format!("block://{}", sandbox.path("mnt")), "neither a block device nor a file"),
        (sandbox.path("used"), "block://"),
    ] {
        let sentence = add(&place);
        assert!(sentence.contains(words), "{sentence}");
    }
}

#[test]
fn daemons_that_are_silent_or_dead_are_done_without() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let mut daemons = Vec::new();
    for number in 1..=6 {
        let folder = sandbox.path(&format!("served{number}"));
        fs::create_dir(&folder).expect("made");
        // Every other one has a key and TLS.
        let key = (number % 2 == 0).then(|| sandbox.path(&format!("key{number}")));
        // And every other two allow short-circuit reads: one of the silent, one of the dead.
        let start = if number % 4 < 2 { Served::start } else { Served::with_short_circuit };
        let served = start(&sandbox, &folder, &any_port(), key.as_deref());
        let (name, url) = (number.to_string(), served.url.clone());
        assert_eq!(url.starts_with("weft+tls://"), key.is_some(), "{url}");
        let key = key.iter().flat_map(|file| ["--key", file.as_str()]);
        sandbox.weft(["node", "add", "meta.db", &name, &url].into_iter().chain(key)).ok();
        daemons.push(served);
    }
    sandbox.mount_by(sandbox.command(["mount", "-d", "--short-circuit", sandbox.meta(), &sandbox.mnt()]));
    let content = crate::content::bytes(0, 40_000_000);
    let write = |name: &str| {
        let began = Instant::now();
        let mut file = File::create(sandbox.file(name)).expect("made");
        file.write_all(&content).and_then(|()| file.sync_all()).expect("written");
        began.elapsed()
    };
    write("first");

    // Silent, not dead: nothing answers and nothing refuses.
    for daemon in &daemons[..2] {
        daemon.signal(Signal::STOP);
    }
    let stall = read_with(&sandbox.file("first"), &content, || {});
    println!("longest read with two silent nodes: {stall:?}");
    let took = write("second");
    println!("40 MB written with two silent nodes in {took:?}");
    for daemon in &daemons[..2] {
        daemon.signal(Signal::CONT);
    }

    // Dead, and two others.
    let addresses: Vec<String> = daemons.iter().map(|daemon| daemon.address.clone()).collect();
    for daemon in &mut daemons[2..4] {
        daemon.kill();
    }
    read_with(&sandbox.file("first"), &content, || {});
    write("third");
    for number in [3, 4] {
        let folder = sandbox.path(&format!("served{number}"));
        let key = (number == 4).then(|| sandbox.path("key4"));
        daemons[number - 1] = Served::start(&sandbox, &folder, &addresses[number - 1], key.as_deref());
    }
    // They come back with what they had; what they missed is rebuilt.
    let said = sandbox.weft(["repair", "meta.db"]).ok();
    assert!(said.contains("every file survives the loss of any 2 more nodes"), "{said}");
    for daemon in &mut daemons[4..] {
        daemon.kill();
    }
    sandbox.umount();
    sandbox.mount();
    for name in ["first", "second", "third"] {
        read_with(&sandbox.file(name), &content, || {});
    }
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn a_daemon_is_refused_with_a_sentence() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let folder = sandbox.path("served");
    fs::create_dir(&folder).expect("made");
    let key = sandbox.path("key");
    let serve = |arguments: &[&str]| sandbox.weft(["node", "serve"].iter().chain(arguments)).sentence();
    assert!(serve(&[&folder, "--listen", "0.0.0.0:0"]).contains("--key"), "others can reach it");
    assert!(serve(&[&folder, "--listen", "0.0.0.0:0", "--key", &key]).contains("--tls"), "others can read it");
    assert!(serve(&[&folder, "--cert", &key, "--cert-key", &key]).contains("key"), "that is no certificate");
    assert!(serve(&[&sandbox.path("missing")]).contains("is not there"));
    let served = Served::start(&sandbox, &folder, &any_port(), Some(&key));
    assert!(serve(&[&folder, "--listen", &any_port()]).contains("another daemon"));
    let taken = sandbox.path("taken");
    fs::create_dir(&taken).expect("made");
    assert!(serve(&[&taken, "--listen", &served.address]).contains("cannot listen"));

    let url = served.url.clone();
    let add = |arguments: &[&str]| sandbox.weft(["node", "add", "meta.db", "one"].iter().chain(arguments)).sentence();
    assert!(add(&[&url]).contains("--key"), "nothing goes without the key");
    fs::write(sandbox.path("wrong"), "ab".repeat(32)).expect("written");
    assert!(add(&[&url, "--key", "wrong"]).contains("can be read by others"));
    fs::set_permissions(sandbox.path("wrong"), Permissions::from_mode(0o600)).expect("set");
    assert!(add(&[&url, "--key", "wrong"]).contains("another key"));
    assert!(add(&["/dev/shm/x", "--key", "key"]).contains("takes no key"));
    assert!(add(&["weft://127.0.0.1:1"]).contains("start its daemon"));
    sandbox.weft(["node", "add", "meta.db", "one", &url, "--key", "key"]).ok();
    let secret = fs::read_to_string(&key).expect("read");
    let shown = [sandbox.weft(["node", "list", "--json", "meta.db"]).ok(), sandbox.weft(["status", "meta.db"]).ok()];
    assert!(shown.iter().all(|shown| shown.contains(&url) && !shown.contains(secret.trim())), "{shown:?}");
    for secret in [key, sandbox.path("meta.db")] {
        let mode = fs::metadata(&secret).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{secret}");
    }
}

#[test]
fn what_is_refused_is_said_in_one_line_on_both_sides_and_secrets_in_none() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let (folder, key, log) = (sandbox.path("served"), sandbox.path("key"), sandbox.path("log"));
    fs::create_dir(&folder).expect("made");
    let listen = any_port();
    let arguments = ["node", "serve", &folder, "--listen", &listen, "--key", &key, "--tls", "--bwlimit", "50M"];
    let mut command = sandbox.command(arguments);
    command.stderr(File::create(&log).expect("made"));
    let mut served = Served::of(command);
    let add = |url: &str| sandbox.weft(["node", "add", "meta.db", "one", url, "--key", &key]);
    let authority = served.address.clone();
    let wrong = format!("weft+tls://{authority}/sha256:{}", "0".repeat(64));
    let unknown = format!("weft+tls://{authority}");
    let plain = format!("weft://{authority}");
    assert!(add(&wrong).sentence().contains("another fingerprint"));
    assert!(add(&unknown).sentence().contains("authority"));
    // Finding 32: asked without TLS, it is not told to be started.
    let sentence = add(&plain).sentence();
    assert!(sentence.contains("weft+tls://") && !sentence.contains("start its daemon"), "{sentence}");
    let said = fs::read_to_string(&log).expect("read");
    assert_eq!(said.lines().filter(|line| line.contains("TLS is not agreed on")).count(), 3, "{said}");
    add(&served.url).ok();
    let command = fs::read_to_string(format!("/proc/{}/cmdline", served.process.id())).expect("read");
    served.kill();
    let (secret, certificate) =
        (fs::read_to_string(&key).expect("read"), fs::read_to_string(format!("{key}.tls")).expect("read"));
    let said = fs::read_to_string(&log).expect("read");
    let private = certificate.split("PRIVATE KEY-----\n").nth(1).and_then(|rest| rest.lines().next()).expect("a key");
    for secret in [secret.trim(), private] {
        assert!(!said.contains(secret) && !command.contains(secret), "{said} {command}");
    }
    let mode = fs::metadata(format!("{key}.tls")).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The same certificate after a restart.
    let again = Served::start(&sandbox, &folder, &authority, Some(&key));
    assert_eq!(again.url, served.url);
    assert!(!sandbox.weft(["node", "list", "meta.db"]).ok().contains("away"));
}

fn secret_file(sandbox: &Sandbox, name: &str, text: &str) -> String {
    let path = sandbox.path(name);
    fs::write(&path, text).expect("written");
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("set");
    path
}

/// A folder, an image, two daemons with TLS, a bucket and a WebDAV folder make one drive, and any two of them may go.
#[cfg(feature = "clouds")]
#[test]
fn six_unlike_nodes_make_one_drive() {
    use crate::sandbox::served::write_with;
    use crate::servers;

    let sandbox = Sandbox::empty();
    let elsewhere = tempfile::tempdir().expect("a folder that other users may pass");
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let add = |name: &str, place: &str, key: Option<&str>| {
        let key = key.into_iter().flat_map(|file| ["--key", file]);
        sandbox.weft(["node", "add", "meta.db", name, place].into_iter().chain(key)).ok();
    };
    add("folder", &sandbox.path("folder"), None);
    add("image", &image(&sandbox, "image"), None);
    let mut daemons = Vec::new();
    for number in 1..=2 {
        let folder = sandbox.path(&format!("served{number}"));
        fs::create_dir(&folder).expect("made");
        let key = sandbox.path(&format!("key{number}"));
        let daemon = Served::start(&sandbox, &folder, &any_port(), Some(&key));
        add(&format!("daemon{number}"), &daemon.url, Some(&key));
        daemons.push(daemon);
    }
    let bucket = servers::s3(&elsewhere.path().join("s3"), "shards");
    let place = format!("s3://shards/weft?endpoint=http://{}", bucket.address);
    add("bucket", &place, Some(&secret_file(&sandbox, "s3.key", servers::S3_KEYS)));
    let webdav = servers::webdav(elsewhere.path());
    let place = servers::url("webdav", &webdav, "/dav/weft");
    add("webdav", &place, Some(&secret_file(&sandbox, "webdav.key", servers::WEBDAV_KEYS)));
    let shown = [sandbox.weft(["node", "list", "--json", "meta.db"]).ok(), sandbox.weft(["status", "meta.db"]).ok()];
    let secrets = ["not-a-secret-but-signed-with", "pass word"];
    assert!(shown.iter().all(|text| secrets.iter().all(|secret| !text.contains(secret))), "{shown:?}");

    sandbox.mount();
    let content = crate::content::bytes(0, 24_000_000);
    write_with(&sandbox.file("first"), &content, || {});
    let calm = read_with(&sandbox.file("first"), &content, || {});

    // Silent in mid-read, a bucket and a daemon.
    let read = read_with(&sandbox.file("first"), &content, || {
        bucket.signal(Signal::STOP);
        daemons[0].signal(Signal::STOP);
    });
    bucket.signal(Signal::CONT);
    daemons[0].signal(Signal::CONT);
    // Silent in mid-write, a WebDAV server and the other daemon.
    let written = write_with(&sandbox.file("second"), &content, || {
        webdav.signal(Signal::STOP);
        daemons[1].signal(Signal::STOP);
    });
    webdav.signal(Signal::CONT);
    daemons[1].signal(Signal::CONT);
    println!("longest call: {calm:?} in a calm read, {read:?} and {written:?} with two nodes silent midway");
    let said = sandbox.weft(["repair", "meta.db"]).ok();
    assert!(said.contains("every file survives the loss of any 2 more nodes"), "{said}");

    // Gone, a bucket in mid-read, and a folder with it in mid-write.
    let mut bucket = bucket;
    read_with(&sandbox.file("second"), &content, || bucket.kill());
    write_with(&sandbox.file("third"), &content, || sandbox.wipe("folder"));
    sandbox.umount();
    sandbox.mount();
    for name in ["first", "second", "third"] {
        read_with(&sandbox.file(name), &content, || {});
    }
    sandbox.umount();
    sandbox.weft(["fsck", "meta.db"]).ok();
}

#[test]
fn storage_of_others_is_refused_with_a_sentence() {
    let sandbox = Sandbox::empty();
    sandbox.weft(["format", "--policy", "rs:4+2", "meta.db"]).ok();
    let add = |arguments: &[&str]| sandbox.weft(["node", "add", "meta.db", "one"].iter().chain(arguments)).sentence();
    let key = secret_file(&sandbox, "key", "access_key_id = weft\nhunter2\n");
    for (arguments, words) in [
        (&["gopher://host"][..], "weft node kinds"),
        (&["s3://bucket?secret_access_key=hunter2"], "--key FILE"),
        (&["s3://weft:hunter2@bucket"], "looks like a password"),
        (&["webdav://host/a?user=me"], "it has quota"),
        (&["s3://bucket/a", "--key", &key], "line 2 is not `name = value`"),
        (&["sftp://host/a", "--key", &key], "leave out --key"),
        (
            &["webdav://127.0.0.1:1/a"],
            if cfg!(feature = "webdav") { "cannot be reached" } else { "`cargo build --release --features webdav`" },
        ),
    ] {
        let sentence = add(arguments);
        assert!(sentence.contains(words) && !sentence.contains("hunter2"), "{arguments:?}: {sentence}");
    }
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("set");
    assert!(add(&["s3://bucket/a", "--key", &key]).contains("can be read by others"));
    if !cfg!(feature = "gcs") {
        assert!(add(&["gcs://bucket/a"]).contains("--features gcs"));
    }
    let kinds = sandbox.weft(["node", "kinds"]).ok();
    assert!(kinds.contains("s3://BUCKET/PREFIX") && kinds.contains("OpenSSH"), "{kinds}");
    assert!(sandbox.weft(["node", "kinds", "--json"]).ok().contains("\"is_built_in\": true"));
}
