//! PostgreSQL, really: its end and return, its standby, lost answers, owners that were paused; and what is said of a wrong address.

use crate::acknowledged::{
    Cutting, Worker, at, change_one_tree, count_by, counted, counter, creates_share_commits,
    fill_new_directories_alone, open, refusal, work,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use weft_env::{Clock, Env, Sleep, SystemClock};
use weft_meta::conformance::{get, set, when};
use weft_meta::engines::OpenError;
use weft_meta::kv::{Batch, Kv, KvError};
use weft_meta::owner::{OwnerError, Role};
use weft_meta::{Access, MetaUrl, Store, servers};

#[test]
fn lost_requests_and_answers_lose_and_double_nothing() {
    let server = servers::Postgres::start();
    at(&server.url("weft")).create().unwrap();
    let proxy = Cutting::before(server.port());
    count_by(&proxy, &format!("postgres://weft@127.0.0.1:{}/weft", proxy.port));
}

/// The name of an attempt that was given up is known to the server: a copy of it that was on its way changes nothing.
#[test]
fn a_copy_that_arrives_late_changes_nothing() {
    let server = servers::Postgres::start();
    let url = at(&server.url("weft"));
    url.create().unwrap();
    let proxy = Cutting::before(server.port());
    let kv = open(&at(&format!("postgres://weft@127.0.0.1:{}/weft", proxy.port)), Access::Owner);
    kv.commit(set(b"u", &counter())).unwrap();
    // Some attempts are sent again.
    proxy.one_of.store(20, Ordering::Relaxed);
    let mut worker = Worker { number: 1, done: 0 };
    for _ in 0..40 {
        worker.step(&*kv).unwrap();
        kv.flush().unwrap();
    }
    proxy.one_of.store(0, Ordering::Relaxed);
    let named = server.psql_at("weft", "SELECT string_agg(number::text, ' ') FROM weft.attempt");
    assert!(!named.is_empty(), "those that were sent twice are known");
    let session = server.psql_at("weft", "SELECT id FROM weft.session");
    for number in named.split(' ') {
        let again = format!("INSERT INTO weft.attempt (session, number) VALUES ({session}, {number})");
        assert!(server.try_psql_at("weft", &again).is_err_and(|why| why.contains("attempt_pkey")));
    }
    worker.step(&*kv).unwrap();
    assert_eq!(counted(&*kv), 41);
}

/// The server dies without a word, and comes back after some seconds: programs wait, and everything that was acknowledged is there.
#[test]
fn a_server_that_dies_and_returns_has_lost_and_doubled_nothing() {
    let mut server = servers::Postgres::start();
    let url = at(&server.url("weft"));
    url.create().unwrap();
    let kv = open(&url, Access::Owner);
    kv.commit(set(b"u", &counter())).unwrap();
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        (0..3).for_each(|number| work(scope, number, &*kv, &over, &done));
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                counted(&*kv);
            }
        });
        for _ in 0..3 {
            let target = done.load(Ordering::Relaxed) + 20;
            while done.load(Ordering::Relaxed) < target {
                std::thread::sleep(Duration::from_millis(5));
            }
            server.kill();
            server.resume(&[]);
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(counted(&*kv), done.load(Ordering::Relaxed));
}

/// A clock on which time goes twenty times as fast.
struct Hasty(Instant);

impl Hasty {
    const FACTOR: u32 = 20;
}

impl Clock for Hasty {
    fn now(&self) -> Instant {
        self.0 + SystemClock.now().saturating_duration_since(self.0) * Self::FACTOR
    }

    fn unix_time(&self) -> Duration {
        SystemClock.unix_time()
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        SystemClock.sleep_until(self.0 + moment.saturating_duration_since(self.0) / Self::FACTOR)
    }

    fn block(&self, time: Duration) {
        SystemClock.block(time / Self::FACTOR);
    }
}

/// While no standby is there, a commit waits at the server for as long as that takes. Those that are given up here do not wait on there: each
/// would keep a connection, of which a server has a hundred.
#[test]
fn commits_that_are_given_up_while_no_standby_is_there_keep_no_connection() {
    let server = servers::Postgres::start();
    let url = at(&server.url("weft"));
    url.create().unwrap();
    let env = Env { clock: Arc::new(Hasty(SystemClock.now())), ..Env::system() };
    let kv = url.open(Access::Shared, None, &env).unwrap();
    kv.commit(set(b"a", b"before")).unwrap();
    server.psql("ALTER SYSTEM SET synchronous_standby_names = '*'");
    server.psql("SELECT pg_reload_conf()");
    // The server reads its settings when it comes to it.
    while kv.commit(set(b"b", b"alone")).is_ok() {}
    std::thread::scope(|scope| {
        for number in 0..8u8 {
            let kv = &kv;
            scope.spawn(move || kv.commit(set(&[b'b', number], b"alone")).unwrap_err());
        }
    });
    let waiting = || server.psql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'").parse::<u32>();
    let deadline = SystemClock.now() + Duration::from_secs(20);
    // A sign of life may wait.
    while waiting().unwrap() > 1 {
        assert!(SystemClock.now() < deadline, "{} requests wait on", waiting().unwrap());
        SystemClock.block(Duration::from_millis(50));
    }
    server.psql("ALTER SYSTEM RESET synchronous_standby_names");
    server.psql("SELECT pg_reload_conf()");
    kv.commit(when(set(b"a", b"after"), b"a", Some(b"before"))).unwrap();
}

/// The primary is gone for good, and its standby takes its place.
#[test]
fn a_promoted_standby_has_lost_and_doubled_nothing() {
    let mut primary = servers::Postgres::start();
    at(&primary.url("weft")).create().unwrap();
    let standby = primary.standby();
    let hosts = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let kv = open(&at(&format!("postgres://weft@{hosts}/weft?target_session_attrs=read-write")), Access::Owner);
    kv.commit(set(b"u", &counter())).unwrap();
    let (over, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        (0..3).for_each(|number| work(scope, number, &*kv, &over, &done));
        let await_more = |count: u64| {
            let target = done.load(Ordering::Relaxed) + count;
            while done.load(Ordering::Relaxed) < target {
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        await_more(30);
        primary.kill();
        standby.promote();
        await_more(30);
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(counted(&*kv), done.load(Ordering::Relaxed));
}

/// A process that lost its place changes nothing over what its successor did; it can still read.
#[test]
fn an_owner_that_lost_its_place_is_kept_out() {
    let server = servers::Postgres::start();
    let url = at(&server.url("weft"));
    url.create().unwrap();
    let first = open(&url, Access::Owner);
    first.commit(set(b"a", b"first")).unwrap();
    first.flush().unwrap();
    let in_use = url.open(Access::Owner, None, &Env::system());
    let Err(OpenError::Owner(OwnerError::InUse { holder: Some(holder), .. })) = in_use else { panic!("it is in use") };
    assert_eq!(holder.process, std::process::id());
    assert_eq!(url.current_owner(&weft_env::SystemClock).unwrap(), Some(holder));
    // One that seems silent, as after the server was away, and still gives signs, keeps its place.
    server.psql_at("weft", "UPDATE weft.session SET seen = seen - interval '30 s'");
    let in_use = url.open(Access::Owner, None, &Env::system());
    assert!(matches!(in_use, Err(OpenError::Owner(OwnerError::InUse { .. }))));
    let sessions = url.sessions(&weft_env::SystemClock).unwrap();
    assert_eq!((sessions.len(), sessions[0].role), (1, Role::Owner));
    assert!(url.evict(sessions[0].id).unwrap() && !url.evict(sessions[0].id).unwrap());
    let second = open(&url, Access::Owner);
    second.commit(when(set(b"a", b"second"), b"a", Some(b"first"))).unwrap();
    second.flush().unwrap();
    for key in [b"a", b"b"] {
        let refused = first.commit(set(key, b"late")).and_then(|()| first.flush()).unwrap_err();
        assert!(matches!(refused, KvError::Displaced { .. }), "{refused}");
    }
    assert_eq!(get(&*first, b"a").as_deref(), Some(&b"second"[..]));
    drop(first);
    second.commit(set(b"a", b"third")).unwrap();
    drop(second);
    assert_eq!(url.current_owner(&weft_env::SystemClock).unwrap(), None, "it has left");
    open(&url, Access::Owner);
}

#[test]
fn a_wrong_address_is_told_in_one_sentence() {
    let server = servers::Postgres::start();
    let url = server.url("weft");
    assert_eq!(
        refusal(&url),
        format!("there is no metadata store at {url}; make one with `weft format`, or correct the address")
    );
    at(&url).create().unwrap();
    let again = at(&url).create().unwrap_err();
    assert!(matches!(&again, OpenError::Exists(place) if *place == url), "{again}");
    assert!(at(&url).exists() && !at(&server.url("other")).exists());
    let nobody = format!("postgres://weft@127.0.0.1:{}/weft", servers::free_port());
    assert!(refusal(&nobody).contains("Connection refused"), "{}", refusal(&nobody));
    let database = refusal(&format!("postgres://weft@127.0.0.1:{}/none", server.port()));
    assert!(database.ends_with("the server has no database none; make it with `createdb none`"), "{database}");
    let user = refusal(&format!("postgres://stranger@127.0.0.1:{}/weft", server.port()));
    assert!(user.contains("stranger") && user.contains("pg_hba.conf"), "{user}");
    server.psql_at("weft", "UPDATE weft.store SET format = 7");
    assert_eq!(refusal(&url), format!("{url} has metadata format 7, and this program knows 5; use a newer weft"));
    server.psql_at("weft", "UPDATE weft.store SET format = 5");
    let refused = Store::open(open(&at(&url), Access::Shared), &Env::system());
    assert!(refused.is_err_and(|error| error.to_string().contains("holds no volume")));
    at(&url).remove().unwrap();
    assert!(!at(&url).exists());
}

/// What one engine has, the other has after a backup and a restore.
#[test]
fn a_backup_moves_a_store_between_engines() {
    let server = servers::Postgres::start();
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
    let url = at(&server.url("weft"));
    url.restore(&first, &clock).unwrap();
    assert!(matches!(url.restore(&first, &clock), Err(OpenError::Exists(_))));
    let everything = |kv: &dyn Kv| -> Vec<_> {
        let pairs = weft_meta::conformance::scan(kv, b"", &[u8::MAX]).into_iter();
        pairs.filter(|pair| !weft_meta::unfinished::is_mark(pair)).collect()
    };
    assert_eq!(everything(&*open(&url, Access::Owner)), pairs);
    url.back_up(&second, &clock).unwrap();
    let again: MetaUrl = folder.path().join("again.db").into();
    assert!(matches!(open_error(&second.as_path().into()), OpenError::Backup(_)));
    again.restore(&second, &clock).unwrap();
    assert_eq!(everything(&*open(&again, Access::Owner)), pairs);
    let other = at(&server.url("other"));
    assert!(matches!(other.restore(&folder.path().join("meta.db"), &clock), Err(OpenError::Refused { .. })));
    assert!(!other.exists());
}

fn open_error(url: &MetaUrl) -> OpenError {
    match url.open(Access::Shared, None, &Env::system()) {
        Ok(_) => panic!("{url} opens"),
        Err(error) => error,
    }
}

/// Names that many stores make at the same time are all there, and agree with each other.
#[test]
fn stores_of_many_processes_change_one_tree() {
    let server = servers::Postgres::start();
    change_one_tree(&at(&server.url("weft")));
}

/// Transactions that write have a number each.
#[test]
fn creates_of_an_owner_share_commits() {
    let server = servers::Postgres::start();
    let commits = || server.psql("SELECT pg_current_xact_id()").trim().parse().expect("a number");
    creates_share_commits(&at(&server.url("weft")), commits);
}

#[test]
fn an_owner_fills_a_new_directory_while_there_is_no_server() {
    let mut server = servers::Postgres::start();
    let url = at(&server.url("weft"));
    fill_new_directories_alone(&mut server, &url, |server| server.kill(), |server| server.resume(&[]));
}
