//! The examples run, and do what they say.

use std::path::Path;
use std::process::Command;

/// What an example prints; it must succeed.
fn printed(example: &str, arguments: &[&str]) -> String {
    // Examples are built beside tests.
    let test = std::env::current_exe().expect("the test's program");
    let program = test.parent().and_then(Path::parent).expect("its folder").join("examples").join(example);
    let output = Command::new(&program).args(arguments).output().expect("it is built with the tests");
    assert!(output.status.success(), "{example}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn a_file_comes_back_without_two_of_six_shards() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("weft-codes-examples");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    let [file, shards, copy] =
        ["file", "shards", "copy"].map(|name| folder.join(name).to_str().expect("a plain path").to_owned());
    let data: Vec<u8> = (0..100_001u32).map(|at| (at * 7 + (at >> 8)) as u8).collect();
    std::fs::write(&file, &data).expect("a file");
    let told = printed("encode_file", &[&file, "rs:4+2", &shards]);
    assert!(told.contains("6 shards of 25001 bytes") && told.contains("any 2 of them"), "{told}");
    let lost = ["shard.0", "shard.4"].map(|name| Path::new(&shards).join(name));
    let before = lost.each_ref().map(|shard| std::fs::read(shard).expect("a shard"));
    lost.iter().for_each(|shard| std::fs::remove_file(shard).expect("a shard"));
    let told = printed("recover_file", &[&shards, &copy]);
    assert!(told.contains("without shards [0, 4]"), "{told}");
    assert_eq!(std::fs::read(&copy).expect("a copy"), data);
    assert_eq!(lost.each_ref().map(|shard| std::fs::read(shard).expect("a shard")), before);
}

#[test]
fn a_shard_is_repaired_from_fewer_bytes_than_k() {
    for (spec, share) in [("clay:4+2", "62 %"), ("lrc:6+2+2", "50 %"), ("embr:n=5,k=3", "33 %"), ("rs:4+2", "100 %")] {
        let told = printed("repair_shard", &[spec]);
        assert!(told.contains(share), "{told}");
    }
}
