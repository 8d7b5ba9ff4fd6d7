//! A volume whose metadata is on a cluster of etcd: real mounts, and members that die and come back.

use crate::sandbox::until;
use crate::served::{Served, remove_shards, run, write_synced};
use rustix::process::{Signal, kill_process};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use weft_meta::servers::Etcd;

fn volume(member_count: usize) -> Served<Etcd> {
    let cluster = Etcd::start(member_count);
    let url = cluster.url("weft");
    Served::on(cluster, url)
}

#[test]
fn every_command_takes_a_url_of_etcd() {
    let volume = volume(1);
    crate::every_command::takes_a_url(&volume, |name| volume.server.url(name));
}

#[test]
fn a_volume_on_etcd_is_used_repaired_and_moved_to_a_file() {
    let volume = volume(if crate::effort::is_long() { 3 } else { 1 });
    volume.mount();
    let work = volume.sandbox.file("work");
    fs::create_dir(&work).expect("made");
    run(&work, "git", &["init", "-q"]);
    for number in 0..20 {
        fs::write(work.join(format!("f{number}")), format!("{number}\n").repeat(3000)).expect("written");
    }
    run(&work, "git", &["add", "."]);
    run(&work, "git", &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);
    // A folder with more names than an answer has rows, and its end.
    let many = volume.sandbox.file("many");
    fs::create_dir(&many).expect("made");
    (0..1200).for_each(|number| fs::write(many.join(number.to_string()), "").expect("written"));
    assert_eq!(fs::read_dir(&many).expect("listed").count(), 1200);
    run(&many, "rm", &["-rf", "../many"]);

    let other = volume.sandbox.path("look1");
    fs::create_dir(&other).expect("made");
    let second = volume.weft(&["mount", "-d", &volume.url, &other]).sentence();
    let expected = format!("{} is in use by process {}", volume.url, volume.owner().as_raw_nonzero());
    assert!(second.starts_with(&expected), "{second}");
    // Beside the mount, from a process of its own, which sees what is on the server.
    fs::File::open(&work).and_then(|work| work.sync_all()).expect("synced");
    assert!(volume.weft(&["ls", &volume.url, "/work"]).ok().contains("f19"));
    volume.umount();
    assert!(volume.sessions().iter().all(|session| session["role"] == "helper"));

    ["node2", "node5"].iter().for_each(|node| remove_shards(&volume.sandbox.path(node)));
    volume.weft(&["repair", &volume.url]).ok();
    volume.weft(&["fsck", &volume.url]).ok();
    volume.weft(&["meta", "dump", &volume.url, "meta.txt"]).ok();
    let moved = volume.server.url("moved");
    volume.weft(&["meta", "load", "meta.txt", &moved]).ok();
    let said = volume.weft(&["meta", "copy", &moved, "meta.db"]).ok();
    assert!(said.contains("and compared them"), "{said}");
    let refused = volume.weft(&["rm", &volume.url, "/work/f0"]).sentence();
    assert!(refused.contains("older copy of the volume's metadata"), "{refused}");
    volume.sandbox.mount();
    run(&work, "git", &["fsck", "--strict"]);
    run(&work, "git", &["diff", "--exit-code", "HEAD"]);
    volume.sandbox.umount();
}

/// Programs see a pause and no error, and everything that was synced is there.
#[test]
fn a_mount_outlives_leaders_that_die_and_come_back() {
    let mut volume = volume(3);
    volume.mount();
    let (done, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let await_more = |count: usize| {
        let target = done.load(Ordering::SeqCst) + count;
        until("files are written", || done.load(Ordering::SeqCst) >= target);
    };
    let path = |number: usize| Path::new(&volume.sandbox.mnt()).join(format!("f{number}"));
    let paths: Vec<_> = (0..100_000).map(path).collect();
    let cluster = &mut volume.server;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for (number, path) in paths.iter().enumerate() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                write_synced(path, format!("{number}").as_bytes()).expect("a pause, and no error");
                done.fetch_add(1, Ordering::SeqCst);
            }
        });
        for _ in 0..2 {
            await_more(20);
            let leader = cluster.leader().expect("a leader");
            cluster.kill(leader);
            await_more(20);
            cluster.resume(leader);
            until("there is a leader", || cluster.leader().is_some());
        }
        await_more(20);
        over.store(true, Ordering::SeqCst);
    });
    let done = done.into_inner();
    kill_process(volume.owner(), Signal::KILL).expect("killed");
    until("the dead mount is taken away", || volume.weft(&["umount", "--force", &volume.sandbox.mnt()]).success);
    // Its place is free at once: its process was on this machine, and has ended.
    volume.mount();
    for (number, path) in paths.iter().take(done).enumerate() {
        assert_eq!(fs::read_to_string(path).expect("read"), format!("{number}"));
    }
    volume.umount();
    volume.weft(&["fsck", &volume.url]).ok();
}
