//! Places that are reached over HTTP: each has a machine with the product's daemon, and processes have the product's client. In between
//! is a network of byte streams (`wire.rs`) that delays, holds back and cuts, under the scheduler of the history.
//!
//! A daemon is a process of its own before the disk of its place (`disk_node.rs`): it is killed at any await and started again, and it stops
//! and goes on with old requests. Where requests are signed, somebody in the network also sends old requests and old answers again.
//! In some histories daemons gossip, and move to other addresses for good: metadata has the first one, and others tell the way.
//!
//! `a call of a process -> the client -> a connection, if none is idle -> bytes -> the daemon -> the disk -> bytes -> the answer`.

mod disk_node;
mod wire;

use crate::ambush::ProcessId;
use crate::place::{Place, Unreachable};
use crate::scheduler::{env_of, running};
use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use weft_daemon::{
    Accepted, AddressBook, Cables, Daemon, DaemonNode, DaemonUrl, Dial, Dialed, GossipSettings, Key, LinkedNode, Listen,
};
use weft_env::Env;
use weft_nodes::{Kinds, Node};
use wire::{Connection, Queue, Side};

/// What all daemons of a cluster know.
const CLUSTER_KEY: [u8; 32] = [0xc1; 32];
/// Daemons have numbers from here on, so that they are never those of other processes.
const DAEMONS: u32 = 1_000_000;
/// An old request comes again within this time.
const AGAIN_MS_MAX: u64 = 90_000;
/// A daemon that has moved is found within this time after it began there: it joins, the others tell of it, and users ask them again.
const FOUND_AFTER: Duration = Duration::from_secs(20);
/// Well-known members, whom daemons ask for the others.
const WELL_KNOWN: usize = 3;

/// How nodes are reached over HTTP in a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http {
    /// Has each node a key?
    pub is_signed: bool,
    /// Has each daemon two addresses?
    pub has_two_links: bool,
    /// Do daemons tell each other where they are?
    pub gossips: bool,
}

fn url(authority: &str) -> DaemonUrl {
    DaemonUrl { authority: authority.to_owned(), tls: None }
}

/// Who is at which address.
pub struct Network {
    http: Http,
    at: Mutex<BTreeMap<String, Arc<Place>>>,
    /// Addresses at which nobody is any more, and nothing answers.
    silent: Mutex<BTreeSet<String>>,
    /// What each process knows of where daemons are.
    books: Mutex<BTreeMap<ProcessId, Arc<AddressBook>>>,
    /// The first addresses of the first machines.
    well_known: Mutex<Vec<DaemonUrl>>,
    /// Two that have each other's addresses.
    swapped: Mutex<Option<(Arc<Place>, Arc<Place>)>>,
    next_daemon: AtomicU32,
}

impl Network {
    /// Without machines.
    #[must_use]
    pub fn new(http: Http) -> Arc<Self> {
        let network = Arc::new(Self {
            http,
            at: Mutex::default(),
            silent: Mutex::default(),
            books: Mutex::default(),
            well_known: Mutex::default(),
            swapped: Mutex::default(),
            next_daemon: AtomicU32::new(DAEMONS),
        });
        let ended = network.clone();
        running().when_killed(move |process| ended.process_ended(process));
        network
    }

    /// The machine of a place of this name and number. It serves when the place is [started](Self::start).
    #[must_use]
    pub fn machine(self: &Arc<Self>, name: &str, number: u32) -> Machine {
        let key = self.http.is_signed.then(|| Key::new([number as u8 + 1; 32]));
        let first = self.addresses(name, 0);
        let mut well_known = self.well_known.lock();
        if well_known.len() < WELL_KNOWN {
            well_known.push(url(&first[0]));
        }
        let state = Mutex::new(State { addresses: first.clone(), ..State::default() });
        Machine { network: self.clone(), first, key, state }
    }

    /// Those of a machine that has moved this number of times.
    fn addresses(&self, name: &str, moves: u32) -> Vec<String> {
        (0..=u32::from(self.http.has_two_links)).map(|link| format!("{name}.{moves}-{link}:7600")).collect()
    }

    /// What a process has been told of where daemons are.
    fn book(self: &Arc<Self>, process: ProcessId) -> Arc<AddressBook> {
        let new = || {
            let (env, _) = env_of(process);
            AddressBook::dialed_by(
                Arc::new(Dialer { network: self.clone(), process, env: env.clone(), from: None }),
                &env,
            )
        };
        self.books.lock().entry(process).or_insert_with(new).clone()
    }

    /// The place has its addresses, and a daemon.
    pub fn start(&self, place: &Arc<Place>) {
        let Some(machine) = place.machine() else { return };
        self.at.lock().extend(machine.addresses().into_iter().map(|address| (address, place.clone())));
        machine.start(place);
    }

    /// Two places have each other's addresses.
    pub fn swap(&self, one: &Arc<Place>, other: &Arc<Place>) {
        self.swap_back();
        self.exchange(one, other);
        *self.swapped.lock() = Some((one.clone(), other.clone()));
        [one, other].into_iter().for_each(|place| place.set_unreachable(Unreachable::Elsewhere, true));
    }

    /// All places have their own addresses again.
    pub fn swap_back(&self) {
        let Some((one, other)) = self.swapped.lock().take() else { return };
        self.exchange(&one, &other);
        [one, other].iter().for_each(|place| place.set_unreachable(Unreachable::Elsewhere, false));
    }

    fn exchange(&self, one: &Place, other: &Place) {
        let (Some(one), Some(other)) = (one.machine(), other.machine()) else { return };
        {
            let mut at = self.at.lock();
            for (one, other) in one.addresses().into_iter().zip(other.addresses()) {
                let (Some(was), Some(is)) = (at.remove(&one), at.remove(&other)) else { continue };
                at.insert(one, is);
                at.insert(other, was);
            }
        }
        // Where another is, no connection goes on.
        one.cut(|_| true);
        other.cut(|_| true);
    }

    /// The machine closes what the process had open.
    fn process_ended(&self, process: ProcessId) {
        self.books.lock().remove(&process);
        let places: Vec<Arc<Place>> = self.at.lock().values().cloned().collect();
        for machine in places.iter().filter_map(|place| place.machine()) {
            machine.open_connections().iter().for_each(|connection| connection.close(process));
        }
    }
}

/// What serves a place: its addresses, its daemon, the connections to it.
pub struct Machine {
    network: Arc<Network>,
    /// Its addresses as metadata has them.
    first: Vec<String>,
    key: Option<Key>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Where it is now.
    addresses: Vec<String>,
    moves: u32,
    daemon: Option<(ProcessId, Arc<Queue>)>,
    connections: Vec<Arc<Connection>>,
    /// The number of an address that leads nowhere.
    silent_link: Option<usize>,
    /// Does somebody else answer at its addresses?
    has_impostor: bool,
    /// What a daemon answered once.
    old_answer: Option<Bytes>,
}

impl Machine {
    /// The place as `process` reaches it.
    pub(crate) fn client(&self, place: &Arc<Place>, process: ProcessId) -> Arc<dyn Node> {
        let (url, key) = (url(&self.first[0]), self.key.clone());
        let no_certificates = "there are no certificates to read";
        if self.network.http.gossips {
            let book = self.network.book(process);
            return book.open(&url, place.name(), place.known_as(), key).expect(no_certificates);
        }
        let (env, _) = env_of(process);
        let dial = Dialer { network: self.network.clone(), process, env: env.clone(), from: None };
        let node = DaemonNode::open(&url, place.name(), place.known_as(), key, &env).expect(no_certificates);
        Arc::new(LinkedNode::new(node.dialed_by(Arc::new(dial)), &self.first[1..], &Cables::default()))
    }

    fn addresses(&self) -> Vec<String> {
        self.state.lock().addresses.clone()
    }

    /// Which process its daemon is, while it is not dead.
    #[must_use]
    pub fn daemon(&self) -> Option<ProcessId> {
        self.state.lock().daemon.as_ref().map(|(process, _)| *process)
    }

    /// A daemon begins, if there is none.
    fn start(&self, place: &Arc<Place>) {
        if self.daemon().is_some() {
            return;
        }
        let process = ProcessId(self.network.next_daemon.fetch_add(1, Ordering::Relaxed));
        let queue = Arc::<Queue>::default();
        self.state.lock().daemon = Some((process, queue.clone()));
        running().add_process(process);
        let (env, runtime) = env_of(process);
        let (place, key, gossip) = (place.clone(), self.key.clone(), self.gossip());
        let network = self.network.clone();
        running().start(process, "daemon", move || {
            let kinds = Kinds::new(vec![Arc::new(disk_node::Disk::new(place.clone(), process, &env))]);
            let mut daemon = Daemon::open(kinds, disk_node::url(&place), key, &env).expect("the disk is there");
            if let Some(gossip) = gossip {
                let dial = Dialer { network, process, env: env.clone(), from: Some(place.clone()) };
                daemon = daemon.dialed_by(Arc::new(dial)).with_gossip(gossip);
            }
            place.set_unreachable(Unreachable::NoDaemon, false);
            is_found_soon(&place);
            runtime.block_on(Arc::new(daemon).serve(Listener(queue), std::future::pending()));
        });
    }

    /// How its daemon takes part in the gossip; `None`: it does not.
    fn gossip(&self) -> Option<GossipSettings> {
        let addresses = self.addresses();
        let settings = || GossipSettings {
            key: self.key.is_some().then(|| Key::new(CLUSTER_KEY)),
            own: url(&addresses[0]),
            further: addresses[1..].to_vec(),
            join: self.network.well_known.lock().clone(),
            domain: String::new(),
        };
        self.network.http.gossips.then(settings)
    }

    /// The daemon is killed, and started again at other addresses, after this time or when all is well. Where it was nobody is any
    /// more: connections are refused there, or nothing comes back.
    pub fn move_daemon(&self, place: &Arc<Place>, time: Duration, is_silent: bool) {
        self.network.swap_back();
        self.kill_daemon(place, time);
        {
            let (mut at, mut state) = (self.network.at.lock(), self.state.lock());
            state.moves += 1;
            let new = self.network.addresses(place.name(), state.moves);
            at.extend(new.iter().map(|address| (address.clone(), place.clone())));
            let former = std::mem::replace(&mut state.addresses, new);
            former.iter().for_each(|address| drop(at.remove(address)));
            if is_silent {
                self.network.silent.lock().extend(former);
            }
        }
        place.set_unreachable(Unreachable::Moved, true);
    }

    /// How often it has moved.
    #[must_use]
    pub fn moves(&self) -> u32 {
        self.state.lock().moves
    }

    /// The daemon is killed, and started again after this time, or when all is well.
    pub fn kill_daemon(&self, place: &Arc<Place>, time: Duration) {
        let Some((process, _)) = self.state.lock().daemon.take() else { return };
        place.set_unreachable(Unreachable::NoDaemon, true);
        running().kill(process);
        let place = place.clone();
        running().after(time, move || {
            place.machine().expect("it has one").start(&place);
        });
    }

    /// The daemon stops for this time, or until all is well.
    pub fn stop_daemon(&self, place: &Arc<Place>, time: Duration) {
        let Some(process) = self.daemon() else { return };
        place.set_unreachable(Unreachable::NoDaemon, true);
        running().pause(process, true);
        let place = place.clone();
        running().after(time, move || {
            let machine = place.machine().expect("it has one");
            if machine.daemon() == Some(process) {
                machine.go_on(&place, process);
            }
        });
    }

    fn go_on(&self, place: &Place, process: ProcessId) {
        running().pause(process, false);
        place.set_unreachable(Unreachable::NoDaemon, false);
    }

    /// One of its addresses leads nowhere, or all lead there again.
    pub(crate) fn set_silent_link(&self, place: &Place, link: Option<usize>) {
        self.state.lock().silent_link = link;
        place.set_unreachable(Unreachable::Nowhere, link.is_some());
    }

    /// Somebody else answers at its addresses with what its daemon said before, or nobody any more. Without keys that is believed, and
    /// nothing is promised.
    pub(crate) fn set_impostor(&self, place: &Place, has_impostor: bool) {
        if self.key.is_none() {
            return;
        }
        if std::mem::replace(&mut self.state.lock().has_impostor, has_impostor) != has_impostor {
            place.set_unreachable(Unreachable::Impostor, has_impostor);
            self.cut(|_| true);
        }
    }

    fn is_silent(&self, link: usize) -> bool {
        self.state.lock().silent_link == Some(link)
    }

    /// Its daemon runs, and all its addresses lead there.
    pub(crate) fn heal(&self, place: &Arc<Place>) {
        self.network.swap_back();
        self.set_impostor(place, false);
        self.set_silent_link(place, None);
        match self.daemon() {
            None => self.start(place),
            Some(process) if running().is_paused(process) => self.go_on(place, process),
            Some(_) => {}
        }
    }

    /// These connections break in the middle of whatever they carry.
    pub(crate) fn cut(&self, is_cut: impl Fn(&Connection) -> bool) {
        self.open_connections().iter().filter(|connection| is_cut(connection)).for_each(|connection| connection.cut());
    }

    fn open_connections(&self) -> Vec<Arc<Connection>> {
        let mut state = self.state.lock();
        state.connections.retain(|connection| connection.is_open());
        state.connections.clone()
    }

    /// Gives the daemon a connection; `None`: nobody listens.
    fn connect(&self, place: &Arc<Place>, client: wire::Client, link: usize, role: wire::Role) -> Option<Side> {
        let mut state = self.state.lock();
        let (daemon, queue) = state.daemon.clone()?;
        let connection = Connection::new(client, daemon, place.clone(), link, role);
        let (here, there) = connection.sides();
        state.connections.push(connection);
        drop(state);
        queue.push(there);
        Some(here)
    }
}

/// A daemon that has moved begins where it is now, and will have been found unless it moves again.
fn is_found_soon(place: &Arc<Place>) {
    let moves = |place: &Place| place.machine().map_or(0, Machine::moves);
    let (place, begun) = (place.clone(), moves(place));
    if begun > 0 {
        running().after(FOUND_AFTER, move || {
            if moves(&place) == begun {
                place.set_unreachable(Unreachable::Moved, false);
            }
        });
    }
}

/// Users know its first addresses only. If it has moved they have to find it.
pub fn looked_for(place: &Arc<Place>) {
    if place.machine().is_some_and(|machine| machine.moves() > 0) {
        place.set_unreachable(Unreachable::Moved, true);
        is_found_soon(place);
    }
}

/// Makes the connections of a process.
struct Dialer {
    network: Arc<Network>,
    process: ProcessId,
    env: Env,
    /// The machine of a daemon that reaches another; none: that of the process is always well.
    from: Option<Arc<Place>>,
}

impl Dialer {
    fn client(&self) -> wire::Client {
        wire::Client { process: self.process, from: self.from.clone() }
    }

    /// Does nothing that this machine sends come out of it?
    fn is_cut_off(&self) -> bool {
        self.from.as_ref().is_some_and(|from| from.is_cut_off())
    }
}

#[async_trait]
impl Dial for Dialer {
    async fn dial(&self, authority: &str) -> io::Result<Dialed> {
        if self.is_cut_off() || self.network.silent.lock().contains(authority) {
            return std::future::pending().await;
        }
        let place = self.network.at.lock().get(authority).cloned().ok_or(io::ErrorKind::NotFound)?;
        let machine = place.machine().ok_or(io::ErrorKind::NotFound)?;
        let link = usize::from(authority.ends_with("-1:7600"));
        self.env.clock.sleep(place.delay() + place.delay()).await;
        if !place.hears(self.process) || !place.is_heard_by(self.process) || machine.is_silent(link) {
            return std::future::pending().await;
        }
        let refused = || io::Error::from(io::ErrorKind::ConnectionRefused);
        if place.is_down() {
            return Err(refused());
        }
        let role = machine.role(&place);
        machine.connect(&place, self.client(), link, role).map(Dialed::over).ok_or_else(refused)
    }
}

impl Machine {
    /// What somebody in the network makes of a connection. Without keys everybody is believed, and nothing is promised.
    fn role(&self, place: &Place) -> wire::Role {
        let (_, doubled) = place.noise();
        let state = self.state.lock();
        match &state.old_answer {
            Some(answer) if state.has_impostor => wire::Role::Impostor(answer.clone()),
            _ if self.key.is_some() && running().chance(doubled) => wire::Role::Taped(Vec::new()),
            _ => wire::Role::Plain,
        }
    }

    /// Somebody heard an answer.
    fn heard(&self, answer: &Bytes) {
        if self.key.is_some() {
            self.state.lock().old_answer = Some(answer.clone());
        }
    }

    /// Somebody sends again what a connection has carried to the daemon.
    fn replay(&self, place: &Arc<Place>, client: ProcessId, link: usize, requests: Vec<u8>) {
        let client = wire::Client { process: client, from: None };
        let place = place.clone();
        running().after(Duration::from_millis(running().below(AGAIN_MS_MAX)), move || {
            let machine = place.machine().expect("it has one");
            if let Some(here) = machine.connect(&place, client, link, wire::Role::Plain) {
                here.send(requests.into());
            }
        });
    }
}

/// Gives a daemon its connections.
struct Listener(Arc<Queue>);

impl Listen for Listener {
    type Stream = Side;

    async fn accept(&mut self) -> io::Result<Accepted<Side>> {
        let stream = self.0.next().await;
        // A machine a process.
        let peer = SocketAddr::new(IpAddr::V4(Ipv4Addr::from_bits(10 << 24 | stream.client().0)), 1);
        Ok(Accepted { stream, peer, is_here: false })
    }
}

#[cfg(test)]
#[path = "http_tests.rs"]
mod tests;
