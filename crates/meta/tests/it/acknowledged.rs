//! Workers that count what was acknowledged, for engines whose servers fail; and a way to a server that is cut.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::Scope;
use weft_env::{Env, Rng, SeededRng};
use weft_format::Ino;
use weft_format::records::{Kind, Timestamp};
use weft_meta::conformance::{get, seed, set, when};
use weft_meta::kv::{Batch, Kv, KvError};
use weft_meta::{Access, MetaError, MetaUrl, NewInode, Store};

pub fn at(text: &str) -> MetaUrl {
    MetaUrl::parse(text.as_ref()).expect("an address")
}

pub fn open(url: &MetaUrl, access: Access) -> Arc<dyn Kv> {
    url.open(access, None, &Env::system()).expect("opens")
}

pub fn refusal(url: &str) -> String {
    match at(url).open(Access::Owner, None, &Env::system()) {
        Ok(_) => panic!("{url} opens"),
        Err(error) => error.to_string(),
    }
}

/// What one thread has committed: its own counter, and a key for each time.
pub struct Worker {
    pub number: u64,
    pub done: u64,
}

impl Worker {
    fn key(&self) -> Vec<u8> {
        [&[2][..], &self.number.to_be_bytes()].concat()
    }

    /// One more: its counter, which is checked, a new key, and the counter of all, of which nothing tells an attempt from one before.
    /// Nobody else changes what is checked, so a conflict would be with what it has done itself.
    pub fn step(&mut self, kv: &dyn Kv) -> Result<(), KvError> {
        use weft_meta::deltas::Delta;
        let (before, after) = (self.done.to_be_bytes(), (self.done + 1).to_be_bytes());
        let before = if self.done == 0 { None } else { Some(&before[..]) };
        let made = [&self.key()[..], &after].concat();
        let mut batch = when(when(set(&self.key(), &after), &self.key(), before), &made, None);
        batch.writes.push((made, Some(Vec::new())));
        batch.deltas.push((b"u".to_vec(), Delta::Usage { inodes: 1, live_bytes: 0 }));
        // Some take several steps on the server.
        if self.done.is_multiple_of(3) {
            batch.checks.push((b"absent".to_vec(), None));
        }
        kv.commit(batch)?;
        self.done += 1;
        Ok(())
    }
}

/// Goes on until it is over; counts what was acknowledged.
pub fn work<'s>(scope: &'s Scope<'s, '_>, number: u64, kv: &'s dyn Kv, over: &'s AtomicBool, done: &'s AtomicU64) {
    scope.spawn(move || {
        let mut worker = Worker { number, done: 0 };
        while !over.load(Ordering::Relaxed) {
            worker.step(kv).unwrap();
            done.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// The counter as it is kept: version, inodes, live bytes.
pub fn counted(kv: &dyn Kv) -> u64 {
    let value = get(kv, b"u").expect("the counter");
    u64::from_be_bytes(value[1..9].try_into().expect("a number"))
}

pub fn counter() -> Vec<u8> {
    [&[1][..], &[0; 16]].concat()
}

/// Between client and server: at a whim it ends a connection, with the last request or the last answer.
pub struct Cutting {
    pub port: u16,
    /// One piece of this number is lost; 0: none.
    pub one_of: Arc<AtomicU64>,
    pub cuts: Arc<AtomicU64>,
}

impl Cutting {
    pub fn before(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listens");
        let port = listener.local_addr().expect("an address").port();
        let (one_of, cuts) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let proxy = Self { port, one_of: one_of.clone(), cuts: cuts.clone() };
        std::thread::spawn(move || {
            let rng = Arc::new(SeededRng::new(seed()));
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let pairs = [(&client, &server), (&server, &client)];
                for (from, to) in
                    pairs.map(|(from, to)| (from.try_clone().expect("a clone"), to.try_clone().expect("a clone")))
                {
                    let (rng, one_of, cuts) = (rng.clone(), one_of.clone(), cuts.clone());
                    std::thread::spawn(move || pass(from, to, &rng, &one_of, &cuts));
                }
            }
        });
        proxy
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, rng: &SeededRng, one_of: &AtomicU64, cuts: &AtomicU64) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        let one_of = one_of.load(Ordering::Relaxed);
        if one_of > 0 && rng.next_u64().is_multiple_of(one_of) {
            cuts.fetch_add(1, Ordering::Relaxed);
            break;
        }
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        // The other direction may have ended it.
        let _ = stream.shutdown(std::net::Shutdown::Both);
    }
}

/// No answer is believed that did not come, and nothing is done twice.
pub fn count_by(proxy: &Cutting, url: &str) {
    const THREADS: u64 = 4;
    const EACH: u64 = 60;
    let kv = open(&at(url), Access::Owner);
    kv.commit(set(b"u", &counter())).unwrap();
    proxy.one_of.store(30, Ordering::Relaxed);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let kv = &*kv;
            scope.spawn(move || {
                let mut worker = Worker { number, done: 0 };
                (0..EACH).for_each(|_| worker.step(kv).unwrap());
            });
        }
        // What is refused stays refused, whatever of it was sent twice.
        scope.spawn(|| {
            for _ in 0..EACH {
                let deltas = vec![(b"u".to_vec(), weft_meta::deltas::Delta::Usage { inodes: 1000, live_bytes: 0 })];
                let refused = kv.commit(when(Batch { deltas, ..Batch::default() }, b"never", Some(b"there")));
                assert!(matches!(refused, Err(KvError::Conflict)), "{refused:?}");
            }
        });
    });
    proxy.one_of.store(0, Ordering::Relaxed);
    assert_eq!(counted(&*kv), THREADS * EACH);
    let cuts = proxy.cuts.load(Ordering::Relaxed);
    println!("{cuts} connections were cut");
    assert!(cuts > 10, "{cuts} cuts test nothing");
}

/// Names that many stores make at the same time are all there, and agree with each other.
pub fn change_one_tree(url: &MetaUrl) {
    const STORES: u64 = 3;
    crate::trees::format(url);
    let stores: Vec<Store> = (0..STORES)
        .map(|number| Store::open(open(url, Access::Shared), &Env::seeded(seed() + number)).unwrap())
        .collect();
    let outcomes: Vec<(u64, u64)> = std::thread::scope(|scope| {
        let threads = stores.iter().enumerate().map(|(number, store)| {
            scope.spawn(move || crate::trees::change(store, &SeededRng::new(seed() * STORES + number as u64), 150))
        });
        let threads: Vec<_> = threads.collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    let done: u64 = outcomes.iter().map(|(done, _)| done).sum();
    let refused: u64 = outcomes.iter().map(|(_, refused)| refused).sum();
    println!("{done} operations succeeded, {refused} were refused");
    assert!(done > STORES * 150 / 8 && refused == 0);
    crate::trees::assert_sound(&stores[0]);
}

/// One owner makes many names; `commits` says how many commits the server has had. A commit takes all that waits, and one waits a tenth of a
/// second, so hundreds of creates share it however busy the machine is.
pub fn creates_share_commits(url: &MetaUrl, commits: impl Fn() -> u64) {
    const CREATES: u64 = 1000;
    const TOGETHER: u64 = 4;
    crate::trees::format(url);
    let store = Store::open(open(url, Access::Owner), &Env::system()).unwrap();
    let inode = NewInode { kind: Kind::File, mode: 0o644, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    let now = Timestamp { seconds: 1, nanoseconds: 0 };
    let before = commits();
    let made: Vec<_> = (0..CREATES)
        .map(|number| store.create(Ino::ROOT, format!("f{number}").as_bytes(), &inode, now).unwrap().ino)
        .collect();
    store.flush().unwrap();
    let commits = commits() - before;
    println!("{commits} commits for {CREATES} creates");
    assert!((1..CREATES / TOGETHER).contains(&commits), "{commits} commits for {CREATES} creates");
    let other = Store::open(open(url, Access::Shared), &Env::system()).unwrap();
    for (number, ino) in made.into_iter().enumerate().step_by(100) {
        assert_eq!(other.lookup(Ino::ROOT, format!("f{number}").as_bytes()).unwrap().ino, ino);
    }
}

/// A directory that this owner has made is filled while there is no server: it need not be asked.
pub fn fill_new_directories_alone<S>(
    server: &mut S,
    url: &MetaUrl,
    kill: impl FnOnce(&mut S),
    resume: impl FnOnce(&mut S),
) {
    crate::trees::format(url);
    let store = Store::open(open(url, Access::Owner), &Env::system()).unwrap();
    let now = Timestamp { seconds: 1, nanoseconds: 0 };
    let inode = |kind| NewInode { kind, mode: 0o755, uid: 0, gid: 0, rdev: 0, symlink_target: Vec::new() };
    let name = |number: u64| format!("f{number}").into_bytes();
    let new = store.create(Ino::ROOT, b"new", &inode(Kind::Directory), now).unwrap().ino;
    store.create(new, b"first", &inode(Kind::File), now).unwrap();
    store.flush().unwrap();
    kill(server);
    for number in 0..100 {
        assert!(matches!(store.lookup(new, &name(number)), Err(MetaError::NotFound)), "{number}");
        let made = store.create(new, &name(number), &inode(Kind::File), now).unwrap().ino;
        assert_eq!(store.lookup(new, &name(number)).unwrap().ino, made);
        assert!(matches!(store.create(new, &name(number), &inode(Kind::File), now), Err(MetaError::Exists)));
    }
    resume(server);
    store.flush().unwrap();
    for number in (0..100).step_by(3) {
        store.unlink(new, &name(number), now).unwrap();
    }
    assert!(matches!(store.create(new, &name(1), &inode(Kind::File), now), Err(MetaError::Exists)));
    store.create(new, &name(0), &inode(Kind::File), now).unwrap();
    store.flush().unwrap();
    let other = Store::open(open(url, Access::Shared), &Env::system()).unwrap();
    let listed = other.read_directory(new, 0, 1000).unwrap().entries.len();
    // The first, those that were not removed, and one that was made again.
    assert_eq!(listed, 1 + 66 + 1);
    crate::trees::assert_sound(&other);
}
