//! A volume whose metadata is on PostgreSQL: real mounts, and a server that dies, comes back, and keeps out who was away for too long.

use crate::sandbox::{Sandbox, until};
use crate::served::{Served, remove_shards, run, write_synced};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use weft_meta::servers::Postgres;

type Volume = Served<Postgres>;

fn volume() -> Volume {
    let server = Postgres::start();
    let url = server.url("weft");
    Served::on(server, url)
}

#[test]
fn a_volume_on_postgres_is_used_repaired_and_moved_to_a_file() {
    let volume = volume();
    volume.mount();
    let work = volume.sandbox.file("work");
    fs::create_dir(&work).expect("made");
    run(&work, "git", &["init", "-q"]);
    for number in 0..20 {
        fs::write(work.join(format!("f{number}")), format!("{number}\n").repeat(3000)).expect("written");
    }
    run(&work, "git", &["add", "."]);
    run(&work, "git", &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"]);

    let other = volume.sandbox.path("look1");
    fs::create_dir(&other).expect("made");
    let second = volume.weft(&["mount", "-d", &volume.url, &other]).sentence();
    let expected = format!("{} is in use by process {}", volume.url, volume.owner().as_raw_nonzero());
    assert!(second.starts_with(&expected), "{second}");
    // Beside the mount, from a process of its own, which sees what is on the server.
    fs::File::open(&work).and_then(|work| work.sync_all()).expect("synced");
    assert!(volume.weft(&["ls", &volume.url, "/work"]).ok().contains("f19"));
    volume.umount();
    assert!(!volume.server.psql_at("weft", "SELECT count(*) FROM weft.session WHERE role > 0").contains('1'));

    ["node2", "node5"].iter().for_each(|node| remove_shards(&volume.sandbox.path(node)));
    volume.weft(&["repair", &volume.url]).ok();
    volume.weft(&["fsck", &volume.url]).ok();
    volume.weft(&["meta", "dump", &volume.url, "meta.txt"]).ok();
    let moved = volume.server.url("moved");
    let said = volume.weft(&["meta", "load", "meta.txt", &moved]).ok();
    assert!(said.contains("is the volume's metadata from now on"), "{said}");
    let said = volume.weft(&["meta", "copy", &moved, "meta.db"]).ok();
    assert!(said.contains("and compared them"), "{said}");
    let exists = volume.weft(&["meta", "copy", "meta.db", &moved]).sentence();
    assert!(exists.contains("exists already"), "{exists}");
    let refused = volume.weft(&["rm", &volume.url, "/work/f0"]).sentence();
    assert!(refused.contains("older copy of the volume's metadata"), "{refused}");
    volume.sandbox.mount();
    run(&work, "git", &["fsck", "--strict"]);
    run(&work, "git", &["diff", "--exit-code", "HEAD"]);
    volume.sandbox.umount();
}

#[test]
fn every_command_takes_a_url_of_postgres() {
    let volume = volume();
    crate::every_command::takes_a_url(&volume, |name| volume.server.url(name));
}

/// Programs see a pause and no error, and everything that was synced is there.
#[test]
fn a_mount_outlives_the_end_and_return_of_its_server() {
    let mut volume = volume();
    volume.mount();
    let (done, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let await_more = |count: usize| {
        let target = done.load(Ordering::SeqCst) + count;
        until("files are written", || done.load(Ordering::SeqCst) >= target);
    };
    let path = |number: usize| Path::new(&volume.sandbox.mnt()).join(format!("f{number}"));
    let paths: Vec<_> = (0..100_000).map(path).collect();
    let server = &mut volume.server;
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
            server.kill();
            std::thread::sleep(Duration::from_millis(500));
            server.resume(&[]);
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

/// The paths of an owner are those of its machine: another volume that is mounted at the same place here is left alone.
#[test]
fn a_command_does_not_take_another_volume_for_one_that_is_mounted_elsewhere() {
    let volume = volume();
    volume.weft(&["format", "--policy", "rs:2+1", "meta.db"]).ok();
    for number in 1..=3 {
        volume
            .weft(&["node", "add", "meta.db", &number.to_string(), &volume.sandbox.path(&format!("other{number}"))])
            .ok();
    }
    volume.sandbox.mount();
    fs::write(volume.sandbox.path("file"), b"x").expect("written");
    for host in ["elsewhere", rustix::system::uname().nodename().to_str().expect("UTF-8")] {
        let text = format!("process 1\nhost {host}\nstarted 5\nmountpoint {}", volume.sandbox.mnt());
        volume.server.psql_at(
            "weft",
            &format!(
                "INSERT INTO weft.session (role, holder, machine, process_began)
                 VALUES (2, convert_to('{text}', 'UTF8'), 'another', '7')"
            ),
        );
        let file = volume.sandbox.path("file");
        let refused = volume.weft(&["put", &volume.url, &file, "/file"]).sentence();
        assert!(refused.contains("is in use by process 1"), "{refused}");
        assert!(!volume.sandbox.file("file").exists(), "it went into another volume");
        volume.server.psql_at("weft", "DELETE FROM weft.session");
    }
    volume.sandbox.umount();
}

/// A machine is gone, and an operator does not wait until its place is free.
#[test]
fn a_session_is_listed_and_evicted() {
    let volume = volume();
    volume.mount();
    let listed = volume.weft(&["session", "list", &volume.url]).ok();
    assert!(listed.contains(&volume.sandbox.mnt()) && listed.contains("SESSION"), "{listed}");
    let sessions: serde_json::Value =
        serde_json::from_str(&volume.weft(&["session", "list", "--json", &volume.url]).ok()).expect("JSON");
    let id = sessions[0]["id"].to_string();
    for field in sessions[0].as_object().expect("an object").keys() {
        let page = include_str!("../../../../docs/json.md");
        assert!(
            page.split("session list --json").nth(1).expect("its section").contains(&format!("`{field}`")),
            "{field}"
        );
    }
    let process = volume.owner();
    volume.weft(&["session", "evict", &volume.url, &id]).ok();
    let refused = write_synced(&volume.sandbox.file("a"), b"late").expect_err("it is evicted");
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()), "{refused}");
    let again = volume.weft(&["session", "evict", &volume.url, &id]).sentence();
    assert!(again.contains("has no session"), "{again}");
    let _ = volume.weft(&["umount", "--force", &volume.sandbox.mnt()]);
    // It would wait for its server, which ends with this test.
    kill_process(process, Signal::KILL).expect("killed");
}

#[test]
fn the_owner_of_a_file_is_listed_and_not_evicted() {
    let sandbox = Sandbox::mounted("rs:2+1");
    let listed = sandbox.weft(["session", "list", "meta.db"]).ok();
    assert!(listed.contains(&sandbox.mnt()), "{listed}");
    let refused = sandbox.weft(["session", "evict", "meta.db", "0"]).sentence();
    assert!(refused.contains("weft umount --force"), "{refused}");
    sandbox.umount();
}

/// A mount that was stopped while another took its place changes nothing any more, not even by what it had begun.
#[test]
fn a_mount_that_was_stopped_for_too_long_changes_nothing() {
    let volume = volume();
    volume.mount();
    let first = volume.owner();
    write_synced(&volume.sandbox.file("a"), b"first").expect("written");
    fs::write(volume.sandbox.file("late"), b"not synced").expect("written");
    kill_process(first, Signal::STOP).expect("stopped");
    // As long as it would take until its place is free.
    volume.server.psql_at("weft", "UPDATE weft.session SET seen = seen - interval '1 hour'");
    let other = volume.sandbox.path("look1");
    fs::create_dir(&other).expect("made");
    volume.sandbox.mount_by(volume.command(&["mount", "-d", &volume.url, &other]));
    let other = Path::new(&other);
    write_synced(&other.join("a"), b"second").expect("written");
    write_synced(&other.join("b"), b"second").expect("written");
    kill_process(first, Signal::CONT).expect("continued");
    let refused = write_synced(&volume.sandbox.file("a"), b"late").expect_err("it was kept out");
    assert_eq!(refused.raw_os_error(), Some(rustix::io::Errno::ROFS.raw_os_error()), "{refused}");
    assert!(fs::remove_file(volume.sandbox.file("b")).is_err());
    let _ = volume.weft(&["umount", "--force", &volume.sandbox.mnt()]);
    until("it has ended", || rustix::process::test_kill_process(first).is_err() || has_ended(first));
    assert_eq!(fs::read(other.join("a")).expect("read"), b"second");
    let sessions: serde_json::Value =
        serde_json::from_str(&volume.weft(&["session", "list", "--json", &volume.url]).ok()).expect("JSON");
    assert_eq!(sessions.as_array().map(Vec::len), Some(1), "{sessions}");
    assert_eq!(sessions[0]["mountpoint"].as_str(), other.to_str());
    assert_eq!(fs::read(other.join("b")).expect("read"), b"second");
    volume.weft(&["umount", other.to_str().expect("UTF-8")]).ok();
    volume.weft(&["fsck", &volume.url]).ok();
    volume.weft(&["scrub", &volume.url]).ok();
}

fn has_ended(process: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).unwrap_or_default();
    status.contains(") Z")
}

#[test]
fn a_password_comes_from_the_environment_or_a_file_and_is_never_shown() {
    let (server, sandbox) = (Postgres::start(), Sandbox::empty());
    server.psql("CREATE USER guarded PASSWORD 'right-secret'");
    server.require_passwords();
    let url = format!("postgres://guarded@127.0.0.1:{}/weft", server.port());
    let said = |variable: &str, value: &str| -> String {
        let mut command = sandbox.command(["status", &url]);
        command.env("HOME", sandbox.path("")).env_remove("PGPASSWORD").env(variable, value);
        let output = command.output().expect("weft runs");
        assert!(!output.status.success());
        // With the warning about a password file that others may read, if there is one.
        String::from_utf8(output.stderr).expect("UTF-8")
    };
    assert!(said("NOTHING", "").contains("wants a password of guarded; give it by PGPASSWORD"));
    let wrong = said("PGPASSWORD", "wrong-secret");
    assert!(wrong.contains("refuses the password of guarded") && !wrong.contains("secret"), "{wrong}");
    assert!(said("PGPASSWORD", "right-secret").contains("there is no metadata store"));
    let file = sandbox.path("passwords");
    fs::write(&file, "*:*:*:other:no\n*:*:weft:guarded:right-secret\n").expect("written");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("guarded");
    assert!(said("PGPASSFILE", &file).contains("there is no metadata store"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("open");
    assert!(said("PGPASSFILE", &file).contains("wants a password"), "others may read it");
    let in_address = sandbox.weft(["status", &url.replace("guarded@", "guarded:right-secret@")]);
    let refused = in_address.stderr;
    assert!(refused.contains("guarded:***@") && !refused.contains("secret"), "{refused}");
}

/// Fifty clients at once are more than a server with default settings has connections for.
#[test]
fn a_server_without_a_connection_left_is_asked_again_until_others_go() {
    let (server, sandbox) = (Postgres::start(), Sandbox::empty());
    server.psql("CREATE USER few CONNECTION LIMIT 1");
    let url = format!("postgres://few@127.0.0.1:{}/weft", server.port());
    thread::scope(|scope| {
        let held = scope.spawn(|| server.psql_at("dbname=weft user=few", "SELECT pg_sleep(1.5)"));
        let held_count = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'few'";
        until("its connection is taken", || server.psql(held_count) == "1");
        let began = Instant::now();
        let said = sandbox.weft(["status", &url]).sentence();
        assert!(said.contains("there is no metadata store"), "{said}");
        assert!(began.elapsed() > Duration::from_millis(500), "it was let in while another had the only connection");
        held.join().expect("it has slept");
    });
}
