//! etcd, really: three members of which one ends, hangs or loses its place, lost answers, owners that were paused; and what is said of a
//! wrong address.

use crate::acknowledged::{
    Cutting, at, change_one_tree, count_by, counted, counter, creates_share_commits, fill_new_directories_alone, open,
    refusal, work,
};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use weft_env::Env;
use weft_meta::conformance::{get, set, when};
use weft_meta::engines::OpenError;
use weft_meta::kv::{Batch, Kv, KvError, RangeCheck};
use weft_meta::owner::{OwnerError, Role};
use weft_meta::{Access, MetaUrl, Store, servers};

fn await_more(done: &AtomicU64, count: u64) {
    let target = done.load(Ordering::Relaxed) + count;
    while done.load(Ordering::Relaxed) < target {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Workers commit while something happens; then everything that was acknowledged is there, once.
fn while_working(url: &str, happens: impl FnOnce(&AtomicU64)) {
    let kv = open(&at(url), Access::Owner);
    kv.commit(set(b"u", &counter())).unwrap();
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        (0..3).for_each(|number| work(scope, number, &*kv, &over, &done));
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                counted(&*kv);
            }
        });
        await_more(&done, 20);
        happens(&done);
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(counted(&*kv), done.load(Ordering::Relaxed));
}

/// The leader dies without a word, another takes its place, and it comes back: programs wait, and nothing is lost or doubled.
#[test]
fn leaders_that_die_lose_and_double_nothing() {
    let mut cluster = servers::Etcd::start(3);
    let url = cluster.url("weft");
    at(&url).create().unwrap();
    while_working(&url, |done| {
        for _ in 0..3 {
            let leader = cluster.leader().expect("a leader");
            cluster.kill(leader);
            await_more(done, 20);
            cluster.resume(leader);
            await_more(done, 20);
            while cluster.leader().is_none() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    });
}

/// So it is with one that hangs, and goes on later with what it had.
#[test]
fn a_leader_that_hangs_loses_and_doubles_nothing() {
    let cluster = servers::Etcd::start(3);
    let url = cluster.url("weft");
    at(&url).create().unwrap();
    while_working(&url, |done| {
        let leader = cluster.leader().expect("a leader");
        cluster.pause(leader);
        await_more(done, 20);
        cluster.wake(leader);
        await_more(done, 20);
    });
}

/// With two of three gone nothing is answered; it goes on when one is back.
#[test]
fn without_a_majority_programs_wait() {
    let mut cluster = servers::Etcd::start(3);
    let url = cluster.url("weft");
    at(&url).create().unwrap();
    while_working(&url, |done| {
        cluster.kill(0);
        cluster.kill(1);
        std::thread::sleep(Duration::from_secs(2));
        let before = done.load(Ordering::Relaxed);
        std::thread::sleep(Duration::from_secs(1));
        assert_eq!(done.load(Ordering::Relaxed), before, "one of three decides nothing");
        cluster.resume(0);
        await_more(done, 20);
    });
    cluster.kill(0);
    let refused = refusal(&url);
    assert!(refused.contains("more than half of its members"), "{refused}");
}

#[test]
fn lost_requests_and_answers_lose_and_double_nothing() {
    let cluster = servers::Etcd::start(1);
    at(&cluster.url("weft")).create().unwrap();
    let proxy = Cutting::before(cluster.port(0));
    count_by(&proxy, &format!("etcd://127.0.0.1:{}/weft", proxy.port));
}

/// A process that lost its place changes nothing over what its successor did; it can still read.
#[test]
fn an_owner_that_lost_its_place_is_kept_out() {
    let cluster = servers::Etcd::start(1);
    let url = at(&cluster.url("weft"));
    url.create().unwrap();
    let first = open(&url, Access::Owner);
    first.commit(set(b"a", b"first")).unwrap();
    first.flush().unwrap();
    let in_use = url.open(Access::Owner, None, &Env::system());
    let Err(OpenError::Owner(OwnerError::InUse { holder: Some(holder), .. })) = in_use else { panic!("it is in use") };
    assert_eq!(holder.process, std::process::id());
    assert_eq!(url.current_owner(&weft_env::SystemClock).unwrap(), Some(holder));
    let sessions = url.sessions(&weft_env::SystemClock).unwrap();
    assert_eq!((sessions.len(), sessions[0].role), (1, Role::Owner));
    assert!(url.evict(sessions[0].id).unwrap() && !url.evict(sessions[0].id).unwrap());
    let second = open(&url, Access::Owner);
    second.commit(when(set(b"a", b"second"), b"a", Some(b"first"))).unwrap();
    second.flush().unwrap();
    // Several at once: some by slots that have counted nothing.
    let late = std::sync::Barrier::new(4);
    std::thread::scope(|scope| {
        for key in [b"a", b"b", b"c", b"d"] {
            let (first, late) = (&*first, &late);
            scope.spawn(move || {
                late.wait();
                let refused = first.commit(set(key, b"late")).and_then(|()| first.flush()).unwrap_err();
                assert!(matches!(refused, KvError::Displaced { .. }), "{refused}");
            });
        }
    });
    assert_eq!(get(&*first, b"a").as_deref(), Some(&b"second"[..]));
    drop(first);
    second.commit(set(b"a", b"third")).unwrap();
    drop(second);
    assert_eq!(url.current_owner(&weft_env::SystemClock).unwrap(), None, "it has left");
    let members = [open(&url, Access::Member), open(&url, Access::Member)];
    let names: Vec<i64> = members.iter().map(|kv| kv.sessions().unwrap().own().unwrap()).collect();
    assert!(members.iter().all(|kv| kv.sessions().unwrap().members().unwrap().into_iter().eq(names.iter().copied())));
    assert!(matches!(url.open(Access::Owner, None, &Env::system()), Err(OpenError::Owner(OwnerError::InUse { .. }))));
}

/// A process without operations gives its signs of life to another member when its own dies.
#[test]
fn an_idle_owner_keeps_its_place_when_a_member_dies() {
    let mut cluster = servers::Etcd::start(3);
    let url = at(&cluster.url("weft"));
    url.create().unwrap();
    let kv = open(&url, Access::Owner);
    // It asks the first that its address names as long as that answers.
    cluster.kill(0);
    let silent = || url.sessions(&weft_env::SystemClock).unwrap()[0].silent;
    let mut before = silent();
    // Until a sign comes nobody may take its place.
    while silent() >= before {
        before = silent();
        assert!(matches!(
            url.open(Access::Owner, None, &Env::system()),
            Err(OpenError::Owner(OwnerError::InUse { .. }))
        ));
        std::thread::sleep(Duration::from_millis(200));
    }
    kv.commit(set(b"a", b"still here")).unwrap();
}

/// An owner that commits faster than it files has more pending than a request takes: of short keys, of long ones, and of large values.
#[test]
fn what_an_owner_has_pending_comes_in_commits_that_the_servers_take() {
    let cluster = servers::Etcd::start(1);
    let url = at(&cluster.url("weft"));
    url.create().unwrap();
    let kv = open(&url, Access::Owner);
    let key = |table: u8, number: usize, key_bytes: usize| {
        let mut key = vec![0; key_bytes];
        key[0] = table;
        key[1..9].copy_from_slice(&number.to_be_bytes());
        key
    };
    for (table, key_bytes, value_bytes, count) in [(2, 9, 8, 6000), (3, 280, 40, 4000), (4, 30, 30_000, 150)] {
        for number in 0..count {
            kv.commit(set(&key(table, number, key_bytes), &vec![table; value_bytes])).unwrap();
        }
        kv.flush().unwrap();
        assert_eq!(kv.snapshot().unwrap().scan(&[table], &[table + 1], usize::MAX).unwrap().len(), count);
    }
    let too_large: Vec<_> = (0..3000).map(|number| (key(5, number, 9), Some(vec![5]))).collect();
    kv.commit(Batch { writes: too_large, ..Batch::default() }).unwrap_err();
    kv.commit(set(&key(6, 0, 9), b"after it")).unwrap();
    kv.close().unwrap();
    drop(kv);
    assert_eq!(get(&*open(&url, Access::Shared), &key(6, 0, 9)).as_deref(), Some(&b"after it"[..]));
}

/// With more checks than a transaction takes, and more changes; two of them at the same time, and small ones beside them that change what they
/// check.
#[test]
fn large_commits_are_whole() {
    const KEYS: u32 = 700;
    let cluster = servers::Etcd::start(1);
    let url = at(&cluster.url("weft"));
    url.create().unwrap();
    let kv = open(&url, Access::Shared);
    let key = |number: u32| [&b"key"[..], &number.to_be_bytes()].concat();
    let writes = |value: u64| (0..KEYS).map(|number| (key(number), Some(value.to_be_bytes().to_vec()))).collect();
    kv.commit(Batch { writes: writes(0), ..Batch::default() }).unwrap();
    // The last of the range, to which all add one.
    let counter = key(KEYS);
    kv.commit(set(&counter, &0u64.to_be_bytes())).unwrap();
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let large = |kv: &dyn Kv| {
        for _ in 0..5 {
            loop {
                let (start, end) = (key(0), key(KEYS + 1));
                let found = kv.snapshot().unwrap().scan(&start, &end, usize::MAX).unwrap();
                let (count, values) = found.split_last().unwrap();
                assert_eq!(values.len(), KEYS as usize);
                let value = number(&values[0].1);
                assert!(values.iter().all(|(_, other)| number(other) == value), "all of a commit or nothing of it");
                let mut batch = Batch { writes: writes(value + 1), ..Batch::default() };
                batch.writes.push((counter.clone(), Some((number(&count.1) + 1).to_be_bytes().to_vec())));
                batch.ranges = vec![RangeCheck { range: start..end, limit: usize::MAX, found }];
                match kv.commit(batch) {
                    Ok(()) => break,
                    Err(KvError::Conflict) => {}
                    Err(error) => panic!("{error}"),
                }
            }
        }
    };
    let is_over = AtomicBool::new(false);
    let small = std::thread::scope(|scope| {
        let small = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Ordering::Relaxed) {
                weft_meta::conformance::increment(&*kv, &counter);
                count += 1;
                std::thread::sleep(Duration::from_millis(3));
            }
            count
        });
        let other = open(&url, Access::Shared);
        let beside = scope.spawn(move || large(&*other));
        large(&*kv);
        beside.join().expect("a thread");
        is_over.store(true, Ordering::Relaxed);
        small.join().expect("a thread")
    });
    assert_eq!(get(&*kv, &key(5)), Some(10u64.to_be_bytes().to_vec()));
    assert_eq!(number(&get(&*kv, &counter).unwrap()), 10 + small, "none of them is lost");
}

#[test]
fn a_wrong_address_is_told_in_one_sentence() {
    let cluster = servers::Etcd::start(1);
    let url = cluster.url("weft");
    assert_eq!(
        refusal(&url),
        format!("there is no metadata store at {url}; make one with `weft format`, or correct the address")
    );
    at(&url).create().unwrap();
    let again = at(&url).create().unwrap_err();
    assert!(matches!(&again, OpenError::Exists(place) if *place == url), "{again}");
    assert!(at(&url).exists() && !at(&cluster.url("other")).exists());
    let nobody = refusal(&format!("etcd://127.0.0.1:{}/weft", servers::free_port()));
    assert!(nobody.contains("Connection refused"), "{nobody}");
    cluster.ctl(&["put", "weft/f", "weft metadata 7"]);
    assert_eq!(refusal(&url), format!("{url} has metadata format 7, and this program knows 3; use a newer weft"));
    cluster.ctl(&["put", "weft/f", "weft metadata 2"]);
    assert!(refusal(&url).contains("has metadata format 2, from before the first release"), "{}", refusal(&url));
    cluster.ctl(&["put", "weft/f", "weft metadata 3"]);
    let refused = Store::open(open(&at(&url), Access::Shared), &Env::system());
    assert!(refused.is_err_and(|error| error.to_string().contains("holds no volume")));
    at(&url).remove().unwrap();
    assert!(!at(&url).exists());
    cluster.ctl(&["put", "other/x", "somebody's"]);
    let taken = at(&cluster.url("other")).create().unwrap_err().to_string();
    assert!(taken.contains("etcdctl del --prefix other/"), "{taken}");
    // Users and passwords.
    at(&url).create().unwrap();
    for arguments in [
        &["user", "add", "root:s3cret"][..],
        &["role", "add", "root"],
        &["user", "grant-role", "root", "root"],
        &["auth", "enable"],
    ] {
        cluster.ctl(arguments);
    }
    assert!(refusal(&url).contains("etcd://USER@HOST"), "{}", refusal(&url));
    let named = url.replacen("//", "//root@", 1);
    let refused = refusal(&named);
    assert!(refused.contains("ETCDCTL_PASSWORD") && !refused.contains("s3cret"), "{refused}");
}

/// What one engine has, the other has after a backup and a restore.
#[test]
fn a_backup_moves_a_store_between_engines() {
    let cluster = servers::Etcd::start(1);
    let folder = tempfile::tempdir().unwrap();
    let pairs: Vec<_> = (0..2500u32).map(|number| (number.to_be_bytes().to_vec(), vec![number as u8; 20])).collect();
    let file: MetaUrl = folder.path().join("meta.db").into();
    file.create().unwrap();
    let kv = open(&file, Access::Owner);
    let writes = pairs.iter().map(|(key, value)| (key.clone(), Some(value.clone()))).collect();
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
    kv.flush().unwrap();
    drop(kv);
    let clock = weft_env::SystemClock;
    let (first, second) = (folder.path().join("first"), folder.path().join("second"));
    file.back_up(&first, &clock).unwrap();
    let url = at(&cluster.url("weft"));
    url.restore(&first, &clock).unwrap();
    assert!(matches!(url.restore(&first, &clock), Err(OpenError::Exists(_))));
    let everything = |kv: &dyn Kv| -> Vec<_> {
        let pairs = weft_meta::conformance::scan(kv, b"", &[u8::MAX]).into_iter();
        pairs.filter(|pair| !weft_meta::unfinished::is_mark(pair)).collect()
    };
    assert_eq!(everything(&*open(&url, Access::Owner)), pairs);
    url.back_up(&second, &clock).unwrap();
    let again: MetaUrl = folder.path().join("again.db").into();
    again.restore(&second, &clock).unwrap();
    assert_eq!(everything(&*open(&again, Access::Owner)), pairs);
    // One that was not finished is no store.
    cluster.ctl(&["put", "weft/f", "weft metadata, in the making"]);
    assert!(refusal(&cluster.url("weft")).contains("not finished"));
}

#[test]
fn stores_of_many_processes_change_one_tree() {
    let cluster = servers::Etcd::start(3);
    change_one_tree(&at(&cluster.url("weft")));
}

/// Each commit makes a revision.
#[test]
fn creates_of_an_owner_share_commits() {
    let cluster = servers::Etcd::start(1);
    let commits = || {
        let header = cluster.ctl(&["get", "nothing", "-w", "json"]);
        let revision =
            header.split_once("\"revision\":").map(|(_, rest)| rest.split(|c: char| !c.is_ascii_digit()).next());
        revision.flatten().and_then(|number| number.parse().ok()).expect("a revision")
    };
    creates_share_commits(&at(&cluster.url("weft")), commits);
}

#[test]
fn an_owner_fills_a_new_directory_while_there_is_no_server() {
    let mut cluster = servers::Etcd::start(1);
    let url = at(&cluster.url("weft"));
    fill_new_directories_alone(&mut cluster, &url, |cluster| cluster.kill(0), |cluster| cluster.resume(0));
}
