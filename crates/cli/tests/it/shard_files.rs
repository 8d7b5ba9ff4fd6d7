//! Files as shard files: encoded, lost in part, decoded and mended, without a volume.

use crate::sandbox::Sandbox;
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use weft_format::shard_file::Trailer;

fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 31 + (i >> 9) * 7 + (i >> 17)) as u8).collect()
}

/// Flips a bit.
fn damage(path: &str, offset: u64) {
    let file = fs::File::options().read(true).write(true).open(path).expect("opened");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 1], offset).expect("written");
}

#[test]
fn every_family_encodes_and_decodes_files() {
    for family in weft_codes::families() {
        let spec = family.example;
        let sandbox = Sandbox::empty();
        let shape = weft_codes::parse(spec).expect("a code").shape().clone();
        for (name, count) in [("empty", 0), ("one", 1), ("odd", 12_345), ("long", 2_000_001)] {
            fs::write(sandbox.path(name), bytes(count)).expect("written");
        }
        sandbox.weft(["encode", "--code", spec, "empty", "one", "odd", "long", "-o", "s"]).ok();
        let width = (shape.n - 1).to_string().len();
        let shard = |name: &str, index: usize| sandbox.path(&format!("s/{name}.{index:0width$}.weft"));
        let whole: Vec<Vec<u8>> = (0..shape.n).map(|index| fs::read(shard("long", index)).expect("read")).collect();
        for name in ["empty", "one", "odd", "long"] {
            (0..shape.tolerance).for_each(|index| fs::remove_file(shard(name, index)).expect("lost"));
        }
        // In another order, under other names.
        if shape.tolerance + 1 < shape.n {
            fs::rename(shard("long", shape.n - 1), sandbox.path("s/0")).expect("renamed");
        }
        assert_eq!(sandbox.weft(["decode", "--check", "s"]).code, Some(2), "{spec}");
        fs::create_dir(sandbox.path("back")).expect("made");
        sandbox.weft(["decode", "s", "-o", "back"]).ok();
        for name in ["empty", "one", "odd", "long"] {
            let (file, back) = (fs::read(sandbox.path(name)), fs::read(sandbox.path(&format!("back/{name}"))));
            assert!(file.expect("read") == back.expect("read"), "{spec}: {name}");
        }
        sandbox.weft(["decode", "--repair", "s"]).ok();
        assert_eq!(sandbox.weft(["decode", "--check", "s"]).code, Some(0), "{spec}");
        for (index, whole) in whole.iter().enumerate().take(shape.tolerance) {
            assert!(fs::read(shard("long", index)).expect("read") == *whole, "{spec}: shard {index}, rebuilt");
        }
    }
}

#[test]
fn damage_in_every_shard_is_survived_and_mended() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("file"), bytes(40_000_000)).expect("written");
    sandbox.weft(["encode", "--code", "rs:4+2", "file"]).ok();
    let shard = |index: usize| sandbox.path(&format!("file.shards/file.{index}.weft"));
    let whole: Vec<Vec<u8>> = (0..6).map(|index| fs::read(shard(index)).expect("read")).collect();
    // Each shard in another frame; one loses its header, one its end.
    (0..6).for_each(|index| damage(&shard(index), 100_000 + 4104 * index as u64));
    damage(&shard(1), 20);
    fs::File::options().write(true).open(shard(2)).expect("opened").set_len(7_000_000).expect("cut");
    fs::remove_file(shard(5)).expect("lost");
    let said = sandbox.weft(["decode", "file.shards", "-o", "back"]).ok();
    assert!(said.contains("shard 5 is missing") && said.contains("0, 1, 2, 3 and 4 are damaged"), "{said}");
    assert!(said.contains("weft decode --repair file.shards"), "{said}");
    assert!(fs::read(sandbox.path("back")).expect("read") == bytes(40_000_000));
    let said = sandbox.weft(["decode", "--repair", "--json", "file.shards"]).ok();
    let answer: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(answer[0]["written"].as_array().map(Vec::len), Some(6), "{said}");
    (0..6).for_each(|index| assert!(fs::read(shard(index)).expect("read") == whole[index], "shard {index}"));
    let said = sandbox.weft(["decode", "--check", "file.shards"]);
    assert!(said.code == Some(0) && said.stdout.contains("all 6 shards are intact"), "{}", said.stdout);
}

#[test]
fn too_few_shards_are_named_and_nothing_is_written() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("file"), bytes(1_000_000)).expect("written");
    sandbox.weft(["encode", "--code", "rs:4+2", "file", "-o", "s"]).ok();
    fs::remove_file(sandbox.path("s/file.2.weft")).expect("lost");
    damage(&sandbox.path("s/file.0.weft"), 5_000);
    damage(&sandbox.path("s/file.4.weft"), 5_000);
    let sentence = sandbox.weft(["decode", "s", "-o", "back"]).sentence();
    assert!(sentence.contains("shards 0, 2 and 4 are missing or damaged there"), "{sentence}");
    fs::remove_file(sandbox.path("s/file.4.weft")).expect("lost");
    fs::remove_file(sandbox.path("s/file.5.weft")).expect("lost");
    let sentence = sandbox.weft(["decode", "s", "-o", "back"]).sentence();
    assert!(sentence.contains("shards 2, 4 and 5 of 6 are missing"), "{sentence}");
    assert_eq!(sandbox.weft(["decode", "--check", "s"]).code, Some(3));
    assert!(sandbox.weft(["decode", "--repair", "s"]).sentence().contains("2, 4 and 5"));
    assert!(!fs::exists(sandbox.path("back")).expect("looked"));
    assert_eq!(fs::read_dir(sandbox.path("s")).expect("listed").count(), 3);
}

#[test]
fn a_file_that_cannot_be_made_keeps_no_other_from_being_made() {
    let sandbox = Sandbox::empty();
    for (name, count) in [("first", 100_000), ("second", 200_000)] {
        fs::write(sandbox.path(name), bytes(count)).expect("written");
    }
    sandbox.weft(["encode", "--code", "rs:4+2", "first", "second", "-o", "s"]).ok();
    (0..3).for_each(|index| fs::remove_file(sandbox.path(&format!("s/first.{index}.weft"))).expect("lost"));
    fs::remove_file(sandbox.path("s/second.4.weft")).expect("lost");
    fs::create_dir(sandbox.path("back")).expect("made");
    let said = sandbox.weft(["decode", "--json", "s", "-o", "back"]);
    let answers: serde_json::Value = serde_json::from_str(&said.stdout).expect("JSON");
    assert_eq!((said.code, &answers[0]["decodes"], &answers[1]["decodes"]), (Some(1), &false.into(), &true.into()));
    assert!(said.sentence().contains("first: shards 0, 1 and 2 of 6 are missing"), "{answers}");
    let names = |folder: &str| -> Vec<_> {
        let names = fs::read_dir(sandbox.path(folder)).expect("listed").map(|entry| entry.expect("listed").file_name());
        names.collect()
    };
    assert_eq!(names("back"), ["second"]);
    assert!(fs::read(sandbox.path("back/second")).expect("read") == bytes(200_000));
    assert!(sandbox.weft(["decode", "--repair", "s"]).sentence().contains("first: shards 0, 1 and 2"));
    assert_eq!(names("s").len(), 3 + 6, "what can be mended is");
}

#[test]
fn bad_inputs_are_refused_before_anything_is_made() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("file"), bytes(100_000)).expect("written");
    fs::write(sandbox.path("letter"), "dear grandmother").expect("written");
    fs::create_dir(sandbox.path("folder")).expect("made");
    let refused = |arguments: &[&str], parts: &[&str]| {
        let sentence = sandbox.weft(arguments).sentence();
        assert!(parts.iter().all(|part| sentence.contains(part)), "`{sentence}` does not say {parts:?}");
    };
    refused(&["encode", "--code", "nonsense:1", "file"], &["nonsense"]);
    refused(&["encode", "--code", "rs:4+2", "file", "nothing"], &["nothing"]);
    refused(&["encode", "--code", "rs:4+2", "folder"], &["folder", "archive"]);
    refused(&["encode", "--code", "rs:4+2", "file", "./file", "-o", "s"], &["two files", "one by one"]);
    refused(&["encode", "--code", "rs:4+2", "file", "-o", "no/such"], &["no/such", "mkdir -p"]);
    assert_eq!(fs::read_dir(sandbox.path("")).expect("listed").count(), 4, "nothing was made");
    sandbox.weft(["encode", "--code", "rs:4+2", "file"]).ok();
    refused(&["encode", "--code", "rs:4+2", "file"], &["file.0.weft exists already", "-o"]);
    refused(&["decode", "file.shards"], &["file exists already", "-o"]);
    refused(&["decode", "folder"], &["no shard files in folder"]);
    refused(&["decode", "letter"], &["letter is not a shard file"]);
    refused(&["decode", "nothing"], &["nothing"]);
    refused(&["decode", "file.shards", "-o", "no/such"], &["the folder no does not exist", "mkdir -p"]);
    fs::remove_file(sandbox.path("file.shards/file.3.weft")).expect("lost");
    fs::write(sandbox.path("file.shards/file.3.weft"), "something else").expect("written");
    refused(&["decode", "--repair", "file.shards"], &["file.3.weft", "a different file"]);
    let unlike = sandbox.weft(["decode", "--check", "file.shards"]).stdout;
    assert!(unlike.contains("file.3.weft is not a shard file, or its beginning is damaged"), "{unlike}");
    // Shards of two encodings of one name are two sets.
    sandbox.weft(["encode", "--code", "raid5:3", "file", "-o", "second"]).ok();
    fs::create_dir(sandbox.path("back")).expect("made");
    refused(&["decode", "file.shards", "second", "-o", "back"], &["two files named file"]);
    let named =
        ["file.shards/file.0.weft belongs to file", "second/file.0.weft belongs to file", "leave one of them out"];
    refused(&["decode", "file.shards", "second", "-o", "new"], &named);
}

#[test]
fn a_kill_leaves_no_file_under_its_name() {
    let sandbox = Sandbox::empty();
    let file = fs::File::create(sandbox.path("file")).expect("made");
    file.set_len(3 << 30).expect("a sparse file is quick to make");
    let mut child = sandbox.command(["encode", "--code", "rs:4+2", "file", "-o", "s"]).spawn().expect("weft runs");
    let started = Instant::now();
    while !fs::exists(sandbox.path("s")).expect("looked") && started.elapsed() < Duration::from_secs(20) {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().expect("killed");
    assert!(!child.wait().expect("it ends").success(), "it was quicker than the kill");
    let left: Vec<_> = fs::read_dir(sandbox.path("s")).expect("listed").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn finding_15_a_shard_file_that_claims_a_petabyte_is_seen_through_at_once() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("file"), bytes(100_000)).expect("written");
    sandbox.weft(["encode", "--code", "rs:4+2", "file", "-o", "s"]).ok();
    for index in 0..6 {
        let path = sandbox.path(&format!("s/file.{index}.weft"));
        let mut shard = fs::read(&path).expect("read");
        let start = shard.windows(8).position(|bytes| bytes == b"WEFTTAIL").expect("a trailer");
        let mut trailer = Trailer::decode(&shard[start..]).expect("a trailer");
        trailer.file_bytes = 1 << 50;
        shard[start..start + 256].copy_from_slice(&trailer.encode().expect("it can be"));
        fs::write(path, shard).expect("written");
    }
    let said = sandbox.weft(["decode", "--check", "s"]);
    assert_eq!(said.code, Some(3), "{}", said.stdout);
    for repair in [vec!["decode", "s", "-o", "back"], vec!["decode", "--repair", "s"]] {
        assert!(!sandbox.weft(repair).success);
    }
    assert!(!fs::exists(sandbox.path("back")).expect("looked"));
}

#[test]
fn one_shard_file_tells_which_others_belong_to_it() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("file"), bytes(100_000)).expect("written");
    let said = sandbox.weft(["encode", "--json", "--code", "rs:4+2", "file", "-o", "s"]).ok();
    let encoded: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    let encoding = encoded[0]["encoding"].as_str().expect("an id").to_owned();
    fs::rename(sandbox.path("s/file.3.weft"), sandbox.path("found")).expect("renamed");
    let said = sandbox.weft(["decode", "--check", "found"]);
    assert_eq!(said.code, Some(3));
    assert!(said.stdout.contains(&format!("6 shards of rs:4+2, encoding {encoding}")), "{}", said.stdout);
    assert!(
        said.stdout.contains("shard 3: found\n") && said.stdout.contains("shard 5: missing; its name was file.5.weft")
    );
    // Also without its end, where the others are named.
    fs::File::options().write(true).open(sandbox.path("found")).expect("opened").set_len(2_000).expect("cut");
    let said = sandbox.weft(["decode", "--check", "--json", "found"]).stdout;
    let answer: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((&answer[0]["encoding"], &answer[0]["file_bytes"]), (&encoding.into(), &serde_json::Value::Null));
    assert_eq!(answer[0]["shards"][1]["name"], "file.1.weft");
}
