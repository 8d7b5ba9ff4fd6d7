//! Streams as shards: through real pipes, with shards that are lost on the way.

use crate::sandbox::Sandbox;
use rustix::fs::{CWD, Mode};
use rustix::process::{Pid, Signal};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::process::{Child, Command, Output, Stdio};
use std::thread::{JoinHandle, spawn};
use weft_format::ShardIndex;
use weft_format::geometry::Geometry;
use weft_format::shard_file::{FILE_HEADER_BYTES, ShardFileHeader};

/// No byte of a segment is that of the next.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|i| (i * 31 + (i >> 9) * 7 + (i >> 17)) as u8).collect()
}

fn pipe(sandbox: &Sandbox, name: &str) -> String {
    let path = sandbox.path(name);
    rustix::fs::mkfifoat(CWD, &path, Mode::from_raw_mode(0o600)).expect("a pipe");
    path
}

/// Starts `weft` with all its streams in our hands.
fn start(sandbox: &Sandbox, arguments: &[&str]) -> Child {
    let mut command = sandbox.command(arguments);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("weft runs")
}

/// Writes `data` to its standard input, and waits for its end.
fn feed(mut child: Child, data: Vec<u8>) -> Output {
    let mut input = child.stdin.take().expect("a pipe");
    let feeding = spawn(move || input.write_all(&data));
    let output = child.wait_with_output().expect("it ends");
    // It may have ended before it had all.
    let _ = feeding.join().expect("no panic");
    output
}

fn encode(sandbox: &Sandbox, arguments: &[&str], data: Vec<u8>) -> Output {
    feed(start(sandbox, &[&["encode", "--stream"], arguments].concat()), data)
}

fn decode(sandbox: &Sandbox, shards: &[&str]) -> Output {
    sandbox.command([&["decode", "--stream"], shards].concat()).output().expect("weft runs")
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("UTF-8")
}

/// Reads a pipe to its end, or `length` bytes of it, and closes it.
fn drain(path: String, length: u64) -> JoinHandle<Vec<u8>> {
    spawn(move || {
        let mut taken = Vec::new();
        File::open(path).and_then(|pipe| pipe.take(length).read_to_end(&mut taken)).expect("read");
        taken
    })
}

/// Writes to a pipe, and closes it. Its reader may have enough before.
fn pour(path: String, shard: Vec<u8>) -> JoinHandle<()> {
    spawn(move || {
        let mut pipe = File::options().write(true).open(path).expect("opened");
        let _ = pipe.write_all(&shard);
    })
}

#[test]
fn a_stream_goes_through_pipes_of_which_some_are_lost_on_the_way() {
    let sandbox = Sandbox::empty();
    let data = bytes(20_000_000);
    let pipes: Vec<String> = (0..6).map(|index| pipe(&sandbox, &format!("p{index}"))).collect();
    // The reader of shard 1 ends in the middle, that of shard 4 at once.
    let lengths = [u64::MAX, 2_000_000, u64::MAX, u64::MAX, 0, u64::MAX];
    let readers: Vec<_> = pipes.iter().zip(lengths).map(|(pipe, length)| drain(pipe.clone(), length)).collect();
    let mut arguments = vec!["--code", "rs:4+2"];
    arguments.extend(pipes.iter().map(String::as_str));
    let output = encode(&sandbox, &arguments, data.clone());
    let shards: Vec<Vec<u8>> = readers.into_iter().map(|reader| reader.join().expect("read")).collect();
    let text = said(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for shard in [1, 4] {
        assert!(text.contains(&format!("shard {shard} ({}) is lost: Broken pipe", pipes[shard])), "{text}");
    }
    assert!(text.contains("19.1 MiB in 4 shards of 4.8 MiB; shards 1 and 4 are lost already"), "{text}");

    // What is left of shard 1 stands in for what is damaged in shard 3.
    let mut damaged = shards[3].clone();
    damaged[500_000] ^= 1;
    let left = [(5, &shards[5]), (1, &shards[1]), (0, &shards[0]), (3, &damaged), (2, &shards[2])];
    let writers: Vec<_> = left.iter().map(|(shard, bytes)| pour(pipes[*shard].clone(), bytes.to_vec())).collect();
    let paths: Vec<&str> = left.iter().map(|(shard, _)| pipes[*shard].as_str()).collect();
    let output = decode(&sandbox, &paths);
    writers.into_iter().for_each(|writer| writer.join().expect("written"));
    let text = said(&output);
    assert!(output.status.success() && output.stdout == data, "{text}");
    assert!(text.contains(&format!("{} (shard 1) ends too early, after 2000000 bytes", pipes[1])), "{text}");
    assert!(text.contains(&format!("{} (shard 3) is damaged", pipes[3])), "{text}");

    // Where shard 1 has ended nothing stands in: what comes before is given, and the sentence says how much that is.
    (0..4).for_each(|shard| fs::write(sandbox.path(&format!("f{shard}")), &shards[shard]).expect("written"));
    let output = decode(&sandbox, &["f0", "f1", "f2", "f3"]);
    let text = said(&output);
    assert!(output.status.code() == Some(1) && data.starts_with(&output.stdout), "{text}");
    let rest =
        format!("; the {} bytes before it were written, and are right by their checksums\n", output.stdout.len());
    assert!(text.ends_with(&rest) && text.contains("shards 1, 4 and 5 are missing or damaged there"), "{text}");
    assert!(output.stdout.len() == 4 << 20, "{text}");
}

/// The digest of standard input, by a program that is not ours.
const SUM: &str = "sha256sum | cut -d' ' -f1";

#[test]
fn an_archive_goes_from_one_command_into_the_other() {
    let sandbox = Sandbox::empty();
    fs::create_dir(sandbox.path("in")).expect("made");
    fs::create_dir(sandbox.path("out")).expect("made");
    for (name, count) in [("one", 9_000_000), ("two", 1), ("three", 4_000_000)] {
        fs::write(sandbox.path("in").to_owned() + "/" + name, bytes(count)).expect("written");
    }
    (0..3).for_each(|index| drop(pipe(&sandbox, &format!("p{index}"))));
    let weft = env!("CARGO_BIN_EXE_weft");
    // Shard 3 goes nowhere, and shard 1 to a reader that ends in the middle.
    let script = format!(
        "head -c 1000000 p1 >/dev/null &
        tar c -C in . | {weft} encode --stream --code lrc:2+1+1 p0 p1 p2 /dev/null 2>said &
        encoding=$!
        {weft} decode --stream p2 p0 >archive || exit
        wait $encoding; echo $?
        tar x -C out <archive
        tar c -C in . | {SUM}; cat archive | {SUM}"
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(sandbox.path("")).output().expect("bash runs");
    let text = String::from_utf8(output.stdout.clone()).expect("UTF-8");
    let lines: Vec<&str> = text.lines().collect();
    assert!(output.status.success() && lines.len() == 3, "{text}{}", said(&output));
    assert_eq!((lines[0], lines[1]), ("2", lines[2]));
    let told = fs::read_to_string(sandbox.path("said")).expect("read");
    assert!(told.contains("shard 1 (p1) is lost: Broken pipe"), "{told}");
    assert!(fs::read(sandbox.path("out/one")).expect("read") == bytes(9_000_000));
}

#[test]
fn shards_go_through_what_the_shell_has_opened_and_add_to_what_is_there() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("in"), bytes(9_000_000)).expect("written");
    fs::write(sandbox.path("b"), "old\n").expect("written");
    let weft = env!("CARGO_BIN_EXE_weft");
    let script = format!(
        "{weft} encode --stream --code raid5:3 /dev/stdout /dev/fd/5 c <in >a 5>>b || exit
        head -c 4 b
        tail -c +5 b | {weft} decode --stream /dev/stdin c | cmp - in || exit
        {weft} decode --stream <(cat a) <(cat c) | cmp - in"
    );
    let output = Command::new("bash").args(["-c", &script]).current_dir(sandbox.path("")).output().expect("bash runs");
    assert!(output.status.success() && output.stdout == b"old\n", "{}", said(&output));
    assert!(said(&output).contains("8.6 MiB in 3 shards of 4.3 MiB; any 1 of them may be lost"), "{}", said(&output));
}

/// The most memory that a process has had, in KiB.
fn most_memory(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn a_long_stream_takes_little_memory() {
    const MIB: usize = 1 << 20;
    // The program itself, a code's programs, and a few segments of 4 MiB with their shards.
    const KIB_MAX: u64 = 96 << 10;
    let sandbox = Sandbox::empty();
    let part = bytes(MIB);
    let mut child = start(&sandbox, &["encode", "--stream", "--code", "rs:4+2", "0", "1", "2", "3", "4", "5"]);
    let mut input = child.stdin.take().expect("a pipe");
    (0..200).for_each(|_| input.write_all(&part).expect("written"));
    let took = most_memory(&child);
    assert!(took < KIB_MAX, "{took} KiB to encode");
    drop(input);
    assert!(child.wait().expect("it ends").success());

    // The end of one input is held back until the memory is looked at.
    let last = pipe(&sandbox, "last");
    let mut child = start(&sandbox, &["decode", "--stream", "0", "2", "4", "last"]);
    let (mut shard, mut writer) =
        (File::open(sandbox.path("5")).expect("opened"), File::options().write(true).open(last).expect("opened"));
    let copying = spawn(move || {
        std::io::copy(&mut shard, &mut writer).expect("copied");
        writer
    });
    let mut out = child.stdout.take().expect("a pipe");
    let mut decoded = vec![0; MIB];
    for _ in 0..200 {
        out.read_exact(&mut decoded).expect("read");
        assert!(decoded == part);
    }
    let writer = copying.join().expect("copied");
    let took = most_memory(&child);
    assert!(took < KIB_MAX, "{took} KiB to decode");
    drop(writer);
    assert!(child.wait().expect("it ends").success());
}

#[test]
fn outputs_that_cannot_be_are_refused_and_leave_nothing() {
    let sandbox = Sandbox::empty();
    fs::write(sandbox.path("there"), "dear grandmother").expect("written");
    fs::create_dir(sandbox.path("folder")).expect("made");
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = encode(&sandbox, &[&["--code", "raid5:3"], arguments].concat(), bytes(100_000));
        let sentence = said(&output);
        assert_eq!((output.status.code(), sentence.lines().count()), (Some(1), 1), "{sentence}");
        assert!(parts.iter().all(|part| sentence.contains(part)), "`{sentence}` does not say {parts:?}");
    };
    refused(&[], &["raid5:3 has 3 shards", "--output"]);
    refused(&["a", "b"], &["3 shards, and 2 outputs"]);
    refused(&["a", "b", "c", "d"], &["3 shards, and 4 outputs", "/dev/null"]);
    refused(&["a", "b", "c", "-o", "s"], &["not both"]);
    refused(&["a", "b", "there"], &["there exists already"]);
    refused(&["a", "folder", "c"], &["folder is a folder", "--output"]);
    refused(&["a", "b", "a"], &["a is given for two shards"]);
    refused(&["a", "b", "no/such"], &["the folder of no/such does not exist", "mkdir -p"]);
    refused(&["-o", "no/such"], &["no/such", "mkdir -p"]);
    refused(&["-o", "s", "--name", "a/b"], &["a/b cannot be the name of a file"]);
    assert_eq!(fs::read_dir(sandbox.path("")).expect("listed").count(), 3, "nothing was made");
    assert_eq!(fs::read_to_string(sandbox.path("there")).expect("read"), "dear grandmother");
}

#[test]
fn a_full_disk_costs_one_shard_and_too_many_end_the_encoding() {
    let sandbox = Sandbox::empty();
    let data = bytes(9_000_000);
    // Devices without room.
    let full = |arguments: &[&str]| encode(&sandbox, &[&["--code", "rs:2+2"], arguments].concat(), data.clone());
    let output = full(&["/dev/full", "a1", "a2", "a3", "--json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("shard 0 (/dev/full) is lost: No space left on device; the encoding goes on"));
    let encoded: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!((&encoded["lost"], &encoded["file_bytes"]), (&serde_json::json!([0]), &9_000_000.into()));
    let output = decode(&sandbox, &["a3", "a1"]);
    assert!(output.status.success() && output.stdout == data);
    // One device under two names.
    std::os::unix::fs::symlink("/dev/full", sandbox.path("f")).expect("linked");
    let output = full(&["/dev/full", "f", "c2", "c3"]);
    assert!(output.status.code() == Some(1) && said(&output).contains("f is given for two shards"));
    let pipes = [pipe(&sandbox, "p0"), pipe(&sandbox, "p1")];
    let readers = pipes.clone().map(|pipe| drain(pipe, 0));
    let output = full(&[&pipes[0], &pipes[1], "/dev/full", "d3"]);
    readers.into_iter().for_each(|reader| drop(reader.join()));
    let text = said(&output);
    assert!(output.status.code() == Some(1) && text.contains("cannot be restored from the other shards"), "{text}");
    // What there is of shard 3 has no end.
    assert_eq!(decode(&sandbox, &["d3"]).status.code(), Some(1));
}

#[test]
fn a_stream_that_is_cut_off_comes_back_as_far_as_it_went_and_is_not_taken_for_whole() {
    let sandbox = Sandbox::empty();
    let data = bytes(20 << 20);
    let held = pipe(&sandbox, "held");
    let mut child = start(&sandbox, &["encode", "--stream", "--code", "rs:2+1", "0", "1", "held"]);
    let mut input = child.stdin.take().expect("a pipe");
    let mut reader = File::open(held).expect("opened");
    let feeding = spawn({
        let data = data.clone();
        move || drop(input.write_all(&data))
    });
    // Three segments went by before the signal.
    let mut third = vec![0; 3 * (2 << 20) + (64 << 10)];
    reader.read_exact(&mut third).expect("read");
    let process = Pid::from_raw(child.id().cast_signed()).expect("a process");
    rustix::process::kill_process(process, Signal::TERM).expect("asked");
    assert_eq!(child.wait().expect("it ends").code(), None, "a signal ends it");
    feeding.join().expect("no panic");
    reader.read_to_end(&mut third).expect("read");
    fs::write(sandbox.path("2"), third).expect("written");
    for shards in [["0", "1"], ["1", "2"], ["0", "2"]] {
        let output = decode(&sandbox, &shards);
        let text = said(&output);
        assert!(output.status.code() == Some(1) && data.starts_with(&output.stdout), "{text}");
        assert!(output.stdout.len().is_multiple_of(4 << 20) && output.stdout.len() >= 2 * (4 << 20), "{text}");
        assert!(text.contains(&format!("the {} bytes before it were written", output.stdout.len())), "{text}");
    }
    let said = sandbox.weft(["decode", "0", "1", "2", "-o", "back"]).sentence();
    assert!(said.contains("stream: ") && !fs::exists(sandbox.path("back")).expect("looked"), "{said}");
}

/// Makes a change to a header, with its checksum right.
fn rewrite(sandbox: &Sandbox, from: &str, to: &str, change: impl Fn(&mut ShardFileHeader)) {
    let mut shard = fs::read(sandbox.path(from)).expect("read");
    let mut header = ShardFileHeader::decode(&shard).expect("a header");
    change(&mut header);
    shard[..FILE_HEADER_BYTES].copy_from_slice(&header.encode().expect("it can be"));
    fs::write(sandbox.path(to), shard).expect("written");
}

#[test]
fn what_does_not_belong_together_is_named() {
    let sandbox = Sandbox::empty();
    let data = bytes(10_000_000);
    for name in ["a", "b"] {
        let output = encode(&sandbox, &["--code", "raid6:5", "-o", "s", "--name", name], data.clone());
        assert!(output.status.success(), "{}", said(&output));
    }
    fs::write(sandbox.path("letter"), "dear grandmother").expect("written");
    let refused = |shards: &[&str], parts: &[&str]| {
        let output = decode(&sandbox, shards);
        let sentence = said(&output);
        let last = sentence.lines().last().unwrap_or_default();
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{sentence}");
        assert!(parts.iter().all(|part| last.contains(part)), "`{last}` does not say {parts:?}");
    };
    let others =
        ["s/b.1.weft is shard 1 of b (encoding ", "s/a.0.weft is shard 0 of a (encoding ", "leave one of them out"];
    refused(&["s/b.1.weft", "s/a.0.weft", "s/a.2.weft"], &others);
    refused(&["s/a.0.weft", "s/a.1.weft", "s/a.0.weft"], &["s/a.0.weft and s/a.0.weft are both shard 0 of a"]);
    refused(&["letter"], &["no input is a shard"]);
    refused(&["s/a.0.weft"], &["shards 1, 2, 3 and 4 are missing or damaged there", "nothing was written"]);
    let given = |shards: &[&str], parts: &[&str]| {
        let output = decode(&sandbox, shards);
        let text = said(&output);
        assert!(output.status.success() && output.stdout == data, "{text}");
        assert!(parts.iter().all(|part| text.contains(part)), "`{text}` does not say {parts:?}");
    };
    let three = ["s/a.1.weft", "s/a.2.weft", "s/a.4.weft"];
    let with = |other: &'static str| [&three[..], &[other]].concat();
    given(&with("letter"), &["letter is not a shard file", "it is left out"]);
    given(&with("nothing"), &["nothing: No such file or directory; it is left out"]);
    given(&with("s"), &["s: Is a directory; it is left out"]);
    // A shard that says it is another has not one frame of it; a giant one nothing of what it claims.
    rewrite(&sandbox, "s/a.3.weft", "wrong", |header| header.index = ShardIndex(0));
    given(&with("wrong"), &["wrong (shard 0) is damaged"]);
    let giant = |header: &mut ShardFileHeader| {
        header.geometry = Geometry { data_bytes: 64 << 20, symbol_bytes: 16 << 20, ..header.geometry };
    };
    rewrite(&sandbox, "s/a.3.weft", "giant", giant);
    given(&with("giant"), &["giant (shard 3) is damaged"]);
    rewrite(&sandbox, "s/a.1.weft", "giant1", giant);
    rewrite(&sandbox, "s/a.2.weft", "giant2", giant);
    refused(&["giant", "giant1", "giant2"], &["bytes 0 to", "nothing was written"]);
    rewrite(&sandbox, "s/a.3.weft", "foreign", |header| header.shard_count = 6);
    refused(&["foreign"], &["foreign", "use the program that wrote them"]);
    // Two shards, one behind the other.
    let shard = fs::read(sandbox.path("s/a.3.weft")).expect("read");
    fs::write(sandbox.path("two"), [&shard[..], &shard[..]].concat()).expect("written");
    given(&with("two"), &["two (shard 3) goes on after its end"]);
    // A tape fills its last block with zeros.
    fs::write(sandbox.path("padded"), [&shard[..], &[0; 50_000][..]].concat()).expect("written");
    let output = decode(&sandbox, &with("padded"));
    assert!(output.status.success() && said(&output).is_empty(), "{}", said(&output));
    assert_eq!(
        sandbox.weft(["decode", "--check", "s/a.0.weft", "s/a.1.weft", "s/a.2.weft", "padded", "s/a.4.weft"]).code,
        Some(0)
    );
}

#[test]
fn an_output_without_a_reader_is_an_error_of_decode() {
    let sandbox = Sandbox::empty();
    let output = encode(&sandbox, &["--code", "replica:2", "0", "1"], bytes(10_000_000));
    assert!(output.status.success());
    let mut child = start(&sandbox, &["decode", "--stream", "0", "1"]);
    let mut some = [0; 1000];
    child.stdout.take().expect("a pipe").read_exact(&mut some).expect("read");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output).contains("standard output cannot be written after about"), "{}", said(&output));
}
