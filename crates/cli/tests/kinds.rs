//! A volume over nodes of several kinds.

mod sandbox;

use sandbox::Sandbox;
use std::fs::{self, File};
use std::io::Write;

fn image(sandbox: &Sandbox, name: &str) -> String {
    let path = sandbox.path(name);
    File::create(&path).and_then(|file| file.set_len(64 << 20)).expect("an image file");
    format!("block://{path}")
}

fn content(number: u64) -> Vec<u8> {
    (0..300_000 + number * 777).map(|at| (at * 31 / 7 + number) as u8).collect()
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
    // Another process than the mount's stores shards on the same devices, while the mount does.
    let writing = std::thread::scope(|scope| {
        let writer = scope.spawn(|| (40..60).for_each(write));
        let said = sandbox.weft(["repair", "meta.db"]).ok();
        writer.join().expect("written");
        said
    });
    assert!(writing.contains("every file survives the loss of any 2 more nodes"), "{writing}");
    sandbox.umount();
    fs::remove_file(sandbox.path("image3")).expect("removed");
    fs::remove_dir_all(sandbox.path("node4")).expect("removed");
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
