//! Emulated lines: a relay between a client and a node that carries bytes no faster, and delivers them no sooner, than a line
//! of this bandwidth and latency does. Both directions are independent, as in a switched network.
//!
//! It is plain TCP in this process, so that it needs no privilege and any program can be at its ends.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that travel together. A line at 1 Gbit/s carries them in half a millisecond, which a sleeping thread still hits.
const PART_BYTES: usize = 64 << 10;

/// Parts on the way in one direction: at 1 Gbit/s enough for 30 ms of latency.
const PARTS_ON_THE_WAY: usize = 64;

/// A thread that slept too long catches up with this much, so that late wake-ups do not slow the line.
const CATCH_UP: Duration = Duration::from_millis(5);

/// Megabits a second as bytes a second.
#[must_use]
pub fn megabits(per_second: f64) -> f64 {
    per_second * 1e6 / 8.0
}

/// What a line is like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Towards the node.
    pub up_bytes_per_second: f64,
    /// From the node.
    pub down_bytes_per_second: f64,
    /// From one end to the other.
    pub latency: Duration,
    /// What is carried together comes up to so much later, by chance, and in order.
    pub jitter: Duration,
    /// Which part of the bandwidth others take, from 0 to less than 1.
    pub load: f64,
}

impl Line {
    /// The same bandwidth both ways, without latency, for nobody else.
    #[must_use]
    pub fn even(bytes_per_second: f64) -> Line {
        Line {
            up_bytes_per_second: bytes_per_second,
            down_bytes_per_second: bytes_per_second,
            latency: Duration::ZERO,
            jitter: Duration::ZERO,
            load: 0.0,
        }
    }

    /// A line without limits.
    #[must_use]
    pub fn unlimited() -> Line {
        Line::even(f64::INFINITY)
    }
}

/// A line in use. All that shares it is carried first come, first served.
#[derive(Debug)]
pub struct Cable {
    line: Mutex<Line>,
    /// When each direction has carried all it was given: up, down.
    free_at: [Mutex<Instant>; 2],
    /// Of the jitter. Every cable has the same: real transfers meet it at other times.
    chance: Mutex<ChaCha8Rng>,
}

#[derive(Clone, Copy)]
enum Direction {
    Up,
    Down,
}

impl Cable {
    /// A cable for this line.
    #[must_use]
    pub fn new(line: Line) -> Arc<Cable> {
        let now = Instant::now();
        let chance = Mutex::new(ChaCha8Rng::seed_from_u64(0));
        Arc::new(Cable { line: Mutex::new(line), free_at: [Mutex::new(now), Mutex::new(now)], chance })
    }

    /// From now on it is like this.
    pub fn set_line(&self, line: Line) {
        *lock(&self.line) = line;
    }

    /// When it has carried `bytes` more.
    fn carry(&self, direction: Direction, bytes: usize) -> Instant {
        let line = *lock(&self.line);
        let (speed, free_at) = match direction {
            Direction::Up => (line.up_bytes_per_second, &self.free_at[0]),
            Direction::Down => (line.down_bytes_per_second, &self.free_at[1]),
        };
        let now = Instant::now();
        let mut free_at = lock(free_at);
        let earliest = now.checked_sub(CATCH_UP).unwrap_or(now);
        let share = speed * (1.0 - line.load);
        *free_at = (*free_at).max(earliest) + Duration::from_secs_f64(bytes as f64 / share);
        *free_at
    }

    /// How long what was carried is on its way.
    fn latency(&self) -> Duration {
        let Line { latency, jitter, .. } = *lock(&self.line);
        latency + jitter.mul_f64(lock(&self.chance).random::<f64>())
    }
}

/// What the locks guard is whole at any time.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Listens for a client, and carries to a node what it sends, and back. It ends when it is dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Debug)]
struct State {
    node: SocketAddr,
    /// The client's and the node's.
    cables: [Arc<Cable>; 2],
    has_ended: AtomicBool,
    /// Both ends of each connection, while one of its directions is at work.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Relay {
    /// A relay to `node` over the client's cable and the node's.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(node: SocketAddr, cables: [Arc<Cable>; 2]) -> io::Result<Relay> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let state = Arc::new(State { node, cables, has_ended: AtomicBool::new(false), open: Mutex::default() });
        let of_thread = state.clone();
        thread::spawn(move || {
            for client in listener.incoming() {
                if of_thread.has_ended.load(Ordering::SeqCst) {
                    break;
                }
                // A connection that cannot be made is closed: its client sees a node out of reach.
                match client.and_then(|client| State::connect(&of_thread, client)) {
                    Ok(()) => {}
                    // The node's daemon has ended.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                    // The machine is at its limits, and what is measured is wrong.
                    Err(error) => eprintln!("a line could not carry a connection: {error}"),
                }
            }
        });
        Ok(Relay { address, state })
    }

    /// Where clients reach the node over the line.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::SeqCst);
        // Wakes the thread that listens.
        let _ = TcpStream::connect(self.address);
        for stream in lock(&self.state.open).drain(..).filter_map(|stream| stream.upgrade()) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

impl State {
    fn connect(this: &Arc<State>, client: TcpStream) -> io::Result<()> {
        let (client, node) = (Arc::new(client), Arc::new(TcpStream::connect(this.node)?));
        let mut open = lock(&this.open);
        open.retain(|stream| stream.strong_count() > 0);
        for stream in [&client, &node] {
            stream.set_nodelay(true)?;
            open.push(Arc::downgrade(stream));
        }
        drop(open);
        let (up, down) = ((client.clone(), node.clone()), (node, client));
        for (direction, (from, to)) in [(Direction::Up, up), (Direction::Down, down)] {
            let (sender, receiver) = sync_channel(PARTS_ON_THE_WAY);
            let of_thread = this.clone();
            thread::spawn(move || of_thread.take_in(direction, &from, &sender));
            thread::spawn(move || deliver(&to, &receiver));
        }
        Ok(())
    }

    /// Reads what comes, and waits until both cables have carried it.
    fn take_in(&self, direction: Direction, mut from: &TcpStream, way: &SyncSender<Part>) {
        let mut buffer = vec![0; PART_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer) {
            let came_at = Instant::now();
            // A cable that catches up has carried it at once, and not before it came.
            let carried_at = self.cables.iter().map(|cable| cable.carry(direction, length)).fold(came_at, Instant::max);
            thread::sleep(carried_at.saturating_duration_since(Instant::now()));
            let latency: Duration = self.cables.iter().map(|cable| cable.latency()).sum();
            let part = Part { bytes: buffer[..length].to_vec(), deliver_at: carried_at + latency };
            if way.send(part).is_err() {
                break;
            }
        }
    }
}

struct Part {
    bytes: Vec<u8>,
    deliver_at: Instant,
}

/// Writes what was carried, in order, each part when its latency is over.
fn deliver(mut to: &TcpStream, way: &Receiver<Part>) {
    for Part { bytes, deliver_at } in way {
        thread::sleep(deliver_at.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // Its other direction may still be at work.
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
