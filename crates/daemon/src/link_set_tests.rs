//! Real daemons behind relays that can be made silent, slow or somebody else's.

use super::*;
use crate::auth::Key;
use crate::dial::Tcp;
use crate::follow::LinkedNode;
use crate::gossip::GossipSettings;
use crate::links::{LARGE_BYTES, PIECES_AT_ONCE};
use crate::loads::Cables;
use crate::peer_pool::PeerPool;
use crate::tests::{IDENTITY, Served, bytes_of, secret, serve_as};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weft_format::NodeId;
use weft_nodes::conformance::key;
use weft_nodes::node::{Node, NodeIdentity, SHARD_BYTES_MAX};
use weft_nodes::rate::Class;

/// A cable: passes connections on to a daemon, until it is cut. Then bytes vanish without a word.
struct Cable {
    address: String,
    is_cut: Arc<AtomicBool>,
    /// Bytes towards the user pass only up to this many a connection: bigger packets are lost.
    bytes_max: Arc<AtomicU64>,
    passed_bytes: Arc<AtomicU64>,
    connections: Arc<AtomicU64>,
}

impl Cable {
    /// At an address of its own: what is under way is counted by host.
    async fn to(target: Arc<parking_lot::Mutex<String>>, host: &str) -> Self {
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let cable = Self {
            address: listener.local_addr().unwrap().to_string(),
            is_cut: Arc::default(),
            bytes_max: Arc::new(AtomicU64::new(u64::MAX)),
            passed_bytes: Arc::default(),
            connections: Arc::default(),
        };
        let (is_cut, bytes_max) = (Arc::clone(&cable.is_cut), Arc::clone(&cable.bytes_max));
        let (passed, connections) = (Arc::clone(&cable.passed_bytes), Arc::clone(&cable.connections));
        tokio::spawn(async move {
            loop {
                let (user, _) = listener.accept().await.unwrap();
                connections.fetch_add(1, Ordering::Relaxed);
                let address = target.lock().clone();
                let Ok(daemon) = TcpStream::connect(address).await else { continue };
                let ((from_user, to_user), (from_daemon, to_daemon)) = (user.into_split(), daemon.into_split());
                let cut = || Arc::clone(&is_cut);
                tokio::spawn(pass(
                    from_user,
                    to_daemon,
                    cut(),
                    Arc::new(AtomicU64::new(u64::MAX)),
                    Arc::clone(&passed),
                ));
                tokio::spawn(pass(from_daemon, to_user, cut(), Arc::clone(&bytes_max), Arc::clone(&passed)));
            }
        });
        cable
    }

    fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::Relaxed);
    }

    fn passed(&self) -> u64 {
        self.passed_bytes.load(Ordering::Relaxed)
    }
}

async fn pass(
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    is_cut: Arc<AtomicBool>,
    bytes_max: Arc<AtomicU64>,
    passed: Arc<AtomicU64>,
) {
    let (mut bytes, mut own) = (vec![0; 16 << 10], 0);
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        own += count as u64;
        if is_cut.load(Ordering::Relaxed) || own > bytes_max.load(Ordering::Relaxed) {
            // What was lost is not sent again by anybody here, so this connection is as good as silent for ever.
            std::future::pending::<()>().await;
        }
        passed.fetch_add(count as u64, Ordering::Relaxed);
        if to.write_all(&bytes[..count]).await.is_err() {
            break;
        }
    }
    if is_cut.load(Ordering::Relaxed) {
        std::future::pending::<()>().await;
    }
}

/// A daemon behind two cables, which it advertises beside `more`.
struct World {
    served: Served,
    cables: [Cable; 2],
}

impl World {
    async fn new(more: &[&str]) -> Self {
        let target = Arc::new(parking_lot::Mutex::new(String::new()));
        let cables =
            [Cable::to(Arc::clone(&target), "127.0.0.1").await, Cable::to(Arc::clone(&target), "127.0.0.2").await];
        let served = serve_as(secret(), None, |daemon| advertising(daemon, &cables, more)).await;
        *target.lock() = served.address.to_string();
        served.node(secret()).await;
        Self { served, cables }
    }

    fn url(&self) -> DaemonUrl {
        DaemonUrl { authority: self.cables[0].address.clone(), tls: None }
    }

    fn open(&self, key: Option<Key>) -> Arc<LinkSet> {
        LinkSet::new(DaemonNode::open(&self.url(), "two", IDENTITY, key, &Env::system()).unwrap(), &[], &Arc::default())
    }

    /// Both cables are known, and up.
    async fn open_up(&self) -> Arc<LinkSet> {
        let set = self.open(secret());
        set.call(READ, |node| async move { node.space().await }).await.unwrap();
        let links = set.probed().await;
        assert!(links.len() == 2 && links.iter().all(|link| link.state == LinkState::Up), "{links:?}");
        set
    }

    fn node(&self) -> LinkedNode {
        LinkedNode::new(
            DaemonNode::open(&self.url(), "two", IDENTITY, secret(), &Env::system()).unwrap(),
            &[],
            &Cables::default(),
        )
    }
}

fn advertising(daemon: crate::Daemon, cables: &[Cable; 2], more: &[&str]) -> crate::Daemon {
    let own = DaemonUrl { authority: cables[0].address.clone(), tls: None };
    let further = std::iter::once(cables[1].address.clone()).chain(more.iter().map(|text| (*text).to_owned()));
    let (further, join, domain) = (further.collect(), Vec::new(), String::new());
    daemon.with_gossip(GossipSettings { key: secret(), own, further, join, domain })
}

/// Its links, and do they carry requests, once all were probed.
async fn states(node: &LinkedNode) -> Vec<(String, bool)> {
    node.links().await.into_iter().map(|link| (link.address, link.state != LinkState::Down)).collect()
}

const READ: Errand = Errand { class: Class::Foreground, bytes: 0, timeout: Duration::from_secs(1), is_put: false };

/// A read of all that there is of a shard asked for as many pieces as the longest shard has, and took all connections that a daemon grants.
#[tokio::test(flavor = "multi_thread")]
async fn a_read_takes_few_connections_however_long_it_is() {
    let world = World::new(&[]).await;
    let node = world.node();
    let object = bytes_of(1, 24 << 20);
    node.put(key(1, 0), std::slice::from_ref(&object)).await.unwrap();
    assert_eq!(states(&node).await.len(), 2);
    let made = || world.cables.iter().map(|cable| cable.connections.load(Ordering::Relaxed)).sum::<u64>();
    let before = made();
    let bytes = object.len() as u64;
    for end in [bytes, SHARD_BYTES_MAX, SHARD_BYTES_MAX - 1] {
        assert!(node.get(key(1, 0), 0..end).await.unwrap() == object, "to {end}");
    }
    // Each link may have all pieces at times, and is probed.
    let probes = 4;
    assert!(made() - before <= 2 * PIECES_AT_ONCE as u64 + probes, "{} connections", made() - before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_who_knows_one_address_learns_the_other_and_uses_both() {
    let world = World::new(&[]).await;
    let node = world.node();
    let object = bytes_of(1, 1 << 20);
    node.put(key(1, 0), std::slice::from_ref(&object)).await.unwrap();
    let [first, second] = [0, 1].map(|at| world.cables[at].address.clone());
    assert_eq!(states(&node).await, [(first, true), (second, true)]);
    let before = [world.cables[0].passed(), world.cables[1].passed()];
    let moved = || [0, 1].map(|at| world.cables[at].passed() - before[at]);
    // A link that seemed slow, on a busy machine, is tried again in a while. Until then nothing is gained by all that a processor can read.
    while moved().iter().any(|bytes| *bytes < 2 * object.len() as u64) {
        assert!(node.get(key(1, 0), 0..object.len() as u64).await.unwrap() == object);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Past the end, and from the middle to beyond it.
    let end = object.len() as u64;
    assert!(node.get(key(1, 0), end..end + (4 << 20)).await.unwrap().is_empty());
    assert!(node.get(key(1, 0), end - 5..end + (4 << 20)).await.unwrap() == object.slice(end as usize - 5..));
    assert!(node.links().await.iter().all(|link| link.bytes_per_second.is_some() && link.latency_us.is_some()));
}

/// All of its bytes would take the address that the process was given.
#[tokio::test(flavor = "multi_thread")]
async fn the_first_large_request_of_a_process_waits_for_all_cables() {
    let world = World::new(&[]).await;
    let further = [world.cables[1].address.clone()];
    let large = Errand { bytes: LARGE_BYTES, ..READ };
    let up_count_at_first = async || {
        let node = DaemonNode::open(&world.url(), "two", IDENTITY, secret(), &Env::system()).unwrap();
        let set = LinkSet::with_further(node, &further, &Arc::default());
        let seen = AtomicU64::new(0);
        let ask = |node: Arc<DaemonNode>| {
            seen.store(set.up_count() as u64, Ordering::Relaxed);
            async move { node.space().await }
        };
        set.call(large, ask).await.unwrap();
        seen.load(Ordering::Relaxed)
    };
    // On a busy machine a handshake may take longer than it waits.
    while up_count_at_first().await < 2 {}
}

/// They would press each other out of the cable's queue; and who waits takes the cable that is free first.
#[tokio::test(flavor = "multi_thread")]
async fn a_few_large_writes_are_on_a_cable_and_others_begin_as_they_end() {
    let world = World::new(&[]).await;
    let set = world.open_up().await;
    let write = Errand { bytes: LARGE_BYTES, timeout: Duration::from_secs(60), is_put: true, ..READ };
    let (begun, may_end) = (Arc::new(AtomicU64::new(0)), Arc::new(tokio::sync::Semaphore::new(0)));
    let begun_count = async |at_least: u64| {
        while begun.load(Ordering::Relaxed) < at_least {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        begun.load(Ordering::Relaxed)
    };
    let spawn = |errand: Errand| {
        let (set, begun, may_end) = (Arc::clone(&set), Arc::clone(&begun), Arc::clone(&may_end));
        tokio::spawn(async move {
            let stored = |_| async {
                begun.fetch_add(1, Ordering::Relaxed);
                may_end.acquire().await.unwrap().forget();
                Ok(())
            };
            set.call(errand, stored).await.unwrap();
        })
    };
    let mut writes: Vec<_> = (0..8).map(|_| spawn(write)).collect();
    assert_eq!(begun_count(4).await, 4, "two on each");
    writes.push(spawn(Errand { bytes: LARGE_BYTES - 1, ..write }));
    writes.push(spawn(Errand { is_put: false, ..write }));
    assert_eq!(begun_count(6).await, 6, "what is small or a read waits for nobody");
    // The rest stands still, so it is in nobody's way.
    assert_eq!(begun_count(10).await, 10);
    may_end.add_permits(10);
    for write in writes {
        write.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn either_cable_is_cut_and_comes_back_and_nobody_sees_an_error() {
    let world = World::new(&[]).await;
    let node = world.node();
    let object = bytes_of(1, 2 << 20);
    node.put(key(1, 0), std::slice::from_ref(&object)).await.unwrap();
    assert_eq!(states(&node).await.len(), 2);
    for cut in [0_u16, 1, 0] {
        world.cables[usize::from(cut)].cut(true);
        let began = Instant::now();
        for number in 0..4 {
            assert!(node.get(key(1, 0), 0..object.len() as u64).await.unwrap() == object);
            node.put(key(2 + number, cut), &[bytes_of(2 + number, 100_000)]).await.unwrap();
        }
        println!("4 reads and 4 writes with cable {cut} cut: {:?}", began.elapsed());
        let down = node.links().await.into_iter().find(|link| link.state == LinkState::Down).expect("one is");
        assert_eq!(down.address, world.cables[usize::from(cut)].address);
        assert_eq!(down.why.as_deref(), Some("no answer within 1 s"));
        for number in 0..4 {
            let _ = node.remove(key(2 + number, cut)).await;
        }
        world.cables[usize::from(cut)].cut(false);
        assert!(states(&node).await.iter().all(|(_, is_up)| *is_up));
    }
}

/// Gossip would take it for dead otherwise.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_whose_first_cable_is_cut_is_spoken_to_over_the_one_that_others_tell_of() {
    let world = World::new(&[]).await;
    world.cables[0].cut(true);
    let [first, second] = [0, 1].map(|at| world.cables[at].address.clone());
    let pool = PeerPool::new(secret(), Arc::new(Tcp), &Env::system());
    let url = format!("weft://{first}");
    let alone = pool.get(&url, &[]).expect("an address");
    assert!(alone.is_one());
    let peer = pool.get(&url, &[second]).expect("an address");
    let members = peer.call(READ, |node| async move { node.members().await }).await.expect("it answers over the other");
    assert_eq!(members[0].facts.address, format!("weft://{first}"));
    assert!(!alone.is_one() && pool.count() == 1, "it is the same peer");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_address_is_a_black_hole_at_the_start() {
    let world = World::new(&[]).await;
    world.cables[0].cut(true);
    let further = [world.cables[1].address.clone()];
    let node = DaemonNode::open(&world.url(), "two", IDENTITY, secret(), &Env::system()).unwrap();
    let node = LinkedNode::new(node, &further, &Cables::default());
    assert!(node.space().await.unwrap().total_bytes > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn big_packets_are_lost_on_one_cable_and_requests_take_the_other() {
    let world = World::new(&[]).await;
    let node = world.node();
    let object = bytes_of(1, 3 << 20);
    node.put(key(1, 0), std::slice::from_ref(&object)).await.unwrap();
    assert_eq!(states(&node).await.len(), 2);
    // Each connection gets as much as short answers need.
    world.cables[1].bytes_max.store(20_000, Ordering::Relaxed);
    for _ in 0..3 {
        assert!(node.get(key(1, 0), 0..object.len() as u64).await.unwrap() == object);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_another_daemon_is_never_used() {
    let other = serve_as(Some(Key::new([9; 32])), None, |daemon| daemon).await;
    let identity = NodeIdentity { node: NodeId(77), ..IDENTITY };
    let their_key = Some(Key::new([9; 32]));
    let theirs = DaemonNode::create(&other.url(), "other", identity, their_key, &Env::system()).await.unwrap();
    // One with the same key, and another node.
    let sibling = serve_as(secret(), None, |daemon| daemon).await;
    let sibling_identity = NodeIdentity { node: NodeId(78), ..IDENTITY };
    let same = DaemonNode::create(&sibling.url(), "same", sibling_identity, secret(), &Env::system()).await.unwrap();
    // One that is nobody's yet, and something that is no daemon.
    let unclaimed = serve_as(None, None, |daemon| daemon).await;
    let strangers = [other.address, sibling.address, unclaimed.address].map(|address| address.to_string());
    let more: Vec<&str> =
        strangers.iter().map(String::as_str).chain(["127.0.0.1:1", "[::1]:1", "no port here:x"]).collect();
    let world = World::new(&more).await;
    let node = world.node();
    for number in 0..20 {
        node.put(key(number, 0), &[bytes_of(number, 100_000)]).await.unwrap();
    }
    let links = node.links().await;
    assert_eq!(links.len(), 7, "{links:?}");
    for link in &links {
        let is_own = world.cables.iter().any(|cable| cable.address == link.address);
        assert_eq!(link.state != LinkState::Down, is_own, "{link:?}");
        assert_eq!(link.why.is_none(), is_own, "{link:?}");
    }
    for number in 20..40 {
        node.put(key(number, 0), &[bytes_of(number, 100_000)]).await.unwrap();
    }
    assert!(theirs.list(None, 10).await.unwrap().keys.is_empty() && same.list(None, 10).await.unwrap().keys.is_empty());
    assert_eq!(node.list(None, 100).await.unwrap().keys.len(), 40);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_that_are_not_signed_are_not_believed_and_too_many_are_cut() {
    let world = World::new(&[]).await;
    let set = world.open(secret());
    // Another key: the daemon refuses, and tells nothing.
    let stranger = world.open(Some(Key::new([8; 32])));
    stranger.call(READ, |node| async move { node.space().await }).await.unwrap_err();
    assert_eq!(stranger.links().len(), 1);
    let many: Vec<String> = (1..100).map(|port| format!("127.0.0.1:{port}")).collect();
    set.set_further(many.iter().chain(&many).map(String::as_str), &[]);
    assert_eq!(set.links().len(), LINKS_MAX);
    set.set_further(["host:1", "host:1", "user@host:1", "", "[::1]:7600"].into_iter(), &[]);
    let links = set.links();
    let addresses: Vec<&str> = links.iter().map(|link| link.address()).collect();
    assert_eq!(addresses, [&world.cables[0].address, "host:1", "[::1]:7600"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_changes_is_followed_while_users_are_connected() {
    let world = World::new(&["127.0.0.1:1"]).await;
    let set = world.open(secret());
    let ask = || set.call(READ, |node| async move { node.space().await });
    ask().await.unwrap();
    assert_eq!(set.links().len(), 3);
    let kept = Arc::clone(&set.links()[1]);
    set.first().node().told().tell(&format!("{},127.0.0.1:2", world.cables[1].address));
    ask().await.unwrap();
    // The daemon says the right ones in the same answer's head; a link that stays is the same one.
    ask().await.unwrap();
    assert_eq!(set.links().len(), 3);
    assert!(Arc::ptr_eq(&kept, &set.links()[1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn many_users_have_few_connections() {
    let world = World::new(&[]).await;
    let mut nodes = Vec::new();
    for _ in 0..100 {
        let node = world.node();
        node.space().await.unwrap();
        nodes.push(node);
    }
    let count = || world.cables.each_ref().map(|cable| cable.connections.load(Ordering::Relaxed));
    let before = count();
    // One for the request, and one for the probe of each link at most.
    assert!(before[0] <= 200 && before[1] <= 100, "{before:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_removal_that_is_made_twice_is_one() {
    let world = World::new(&[]).await;
    let node = world.node();
    node.put(key(1, 0), &[bytes_of(1, 100)]).await.unwrap();
    assert_eq!(states(&node).await.len(), 2);
    node.remove(key(1, 0)).await.unwrap();
    assert_eq!(node.remove(key(1, 0)).await.unwrap_err().kind, NodeErrorKind::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_node_itself_says_is_asked_once() {
    let world = World::new(&[]).await;
    let set = world.open_up().await;
    // A folder in a shard's place is read as a bad sector is: with an error that is no other's.
    std::fs::create_dir_all(world.served.path_of(key(1, 0))).unwrap();
    let asked = AtomicU64::new(0);
    let read = set.call(READ, |node| {
        asked.fetch_add(1, Ordering::Relaxed);
        async move { node.get(key(1, 0), 0..10).await }
    });
    assert_eq!(read.await.unwrap_err().kind, NodeErrorKind::Io);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// Something in between breaks all connections of a request, and lets probes pass.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_breaks_on_links_that_are_up_ends() {
    let world = World::new(&[]).await;
    let set = world.open_up().await;
    let asked = AtomicU64::new(0);
    let broken = set.call(READ, |node| {
        let number = asked.fetch_add(1, Ordering::Relaxed);
        assert!(number < 10, "it is made again and again");
        let set = &set;
        async move {
            let links = set.links();
            let other = links.iter().find(|link| link.address() != node.address()).unwrap();
            while other.standing() != Standing::Up {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Err::<(), _>(NodeError::new(NodeErrorKind::TimedOut, "two", "the connection broke"))
        }
    });
    assert_eq!(broken.await.unwrap_err().kind, NodeErrorKind::TimedOut);
    assert!(asked.load(Ordering::Relaxed) <= 4);
}
