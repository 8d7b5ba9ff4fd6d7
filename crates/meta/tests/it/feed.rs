//! What engines tell of the changes of others.

use std::sync::Arc;
use std::time::Duration;
use weft_env::Env;
use weft_env::sync::Receiver;
use weft_meta::conformance::{remove, set};
use weft_meta::engines::MemoryKv;
use weft_meta::kv::{ChangedKeys, Kv};
use weft_meta::{Access, MetaUrl, servers};

const WATCHED: &[u8] = b"cd";

/// Those of the next commits that somebody hears.
fn heard(changes: &Receiver<ChangedKeys>) -> ChangedKeys {
    changes.recv_for(Duration::from_secs(30), &*Env::system().clock).expect("others are heard")
}

/// `tells_own_apart`: surely, however slow the machine is.
fn others_are_heard(members: &[Arc<dyn Kv>; 2], tells_own_apart: bool) {
    let [first, second] = members;
    let listen = |member: &Arc<dyn Kv>| member.sessions().unwrap().changes(WATCHED).unwrap();
    let (of_first, of_second) = (listen(first), listen(second));
    // They begin to listen some time after they said so.
    let env = Env::system();
    for (speaker, changes) in [(first, &of_second), (second, &of_first)] {
        while changes.recv_for(Duration::from_millis(100), &*env.clock).is_err() {
            speaker.commit(set(b"c begin", b"")).unwrap();
        }
    }
    first.commit(set(b"b not watched", b"")).unwrap();
    first.commit(set(b"c\0made", b"")).unwrap();
    first.commit(set(b"e not watched", b"")).unwrap();
    first.commit(remove(b"c\0made")).unwrap();
    first.commit(set(b"d\xFF", b"")).unwrap();
    let mut found = Vec::new();
    while !found.iter().any(|key| key == b"d\xFF") {
        found.extend(heard(&of_second));
    }
    found.retain(|key| key != b"c begin");
    found.dedup();
    assert_eq!(found.first().map(Vec::as_slice), Some(&b"c\0made"[..]), "{found:?}");
    assert_eq!(found.last().map(Vec::as_slice), Some(&b"d\xFF"[..]), "{found:?}");
    assert!(found.iter().all(|key| key == b"c\0made" || key == b"d\xFF"), "{found:?}");
    // What it did itself it does not hear, but what the other does after that.
    second.commit(set(b"c end", b"")).unwrap();
    let mut found = Vec::new();
    while !found.iter().any(|key| key == b"c end") {
        found.extend(heard(&of_first));
    }
    if tells_own_apart {
        assert!(found.iter().all(|key| key == b"c end" || key == b"c begin"), "{found:?}");
    }
}

#[test]
fn members_in_memory_are_heard() {
    let store = Arc::new(MemoryKv::new());
    others_are_heard(&[Arc::new(store.join()), Arc::new(store.join())], true);
}

fn of_a_server(url: &str) -> [Arc<dyn Kv>; 2] {
    let url = MetaUrl::parse(url.as_ref()).unwrap();
    url.create().unwrap();
    [(); 2].map(|()| url.open(Access::Shared, None, &Env::system()).unwrap())
}

#[test]
fn members_on_postgres_are_heard() {
    let server = servers::Postgres::start();
    others_are_heard(&of_a_server(&server.url("weft")), true);
}

#[test]
fn members_on_etcd_are_heard_though_the_member_that_is_watched_dies() {
    let mut cluster = servers::Etcd::start(3);
    let url = cluster.url("weft");
    others_are_heard(&of_a_server(&url), false);
    // Wherever the watch is, it goes on at another.
    let url = MetaUrl::parse(url.as_ref()).unwrap();
    let [first, second] = [(); 2].map(|()| url.open(Access::Shared, None, &Env::system()).unwrap());
    let changes = second.sessions().unwrap().changes(WATCHED).unwrap();
    let env = Env::system();
    let is_heard = |key: &[u8]| {
        first.commit(set(key, b"")).unwrap();
        changes
            .recv_for(Duration::from_millis(100), &*env.clock)
            .is_ok_and(|keys| keys.iter().any(|heard| heard == key))
    };
    for member in 0..3 {
        cluster.kill(member);
        // A key that was not changed before, so that it is none of what was on its way.
        let key = format!("c of {member}");
        while !is_heard(key.as_bytes()) {}
        cluster.resume(member);
        while cluster.leader().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
