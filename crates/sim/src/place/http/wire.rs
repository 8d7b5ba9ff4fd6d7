//! Connections of a simulated network. Each has two lanes of bytes, which arrive in order, late, or not any more.

use crate::ambush::ProcessId;
use crate::place::{MESSAGE_US_MAX, Place};
use crate::scheduler::running;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that a lane holds until they are read.
const WINDOW_BYTES: usize = 256 << 10;
/// What did not arrive is sent again after this, ...
const AGAIN_MS: u64 = 200;
/// ... doubled each time, up to this number of times.
const DOUBLINGS_MAX: u32 = 4;
/// How many of a thousand losses end the connection.
const CUT_PER_MILLE: u64 = 250;
/// What follows something that arrived comes after it within this time.
const FOLLOWING_US_MAX: u64 = MESSAGE_US_MAX / 10;
/// Who sends old requests again stays for so long.
const REPLAY_STAYS: Duration = Duration::from_secs(5);
/// Somebody hears of answers up to this length, and of this much of what a connection carries.
const HEARD_BYTES_MAX: usize = 1 << 10;
const TAPE_BYTES_MAX: usize = 128 << 10;

/// What somebody in the network makes of a connection.
pub(super) enum Role {
    /// Nothing.
    Plain,
    /// What it carries to the daemon is sent again later.
    Taped(Vec<u8>),
    /// It does not lead to the daemon, and each request gets this answer.
    Impostor(Bytes),
}

/// In which direction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// To the daemon.
    Request,
    /// To the client.
    Answer,
}

/// How a lane ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// After what has arrived comes no more.
    Closed,
    /// It broke.
    Broken,
}

enum Part {
    Bytes(Bytes),
    End,
}

#[derive(Default)]
struct Lane {
    under_way: VecDeque<Part>,
    /// Will the next part arrive by itself?
    is_moving: bool,
    /// How often it was sent in vain.
    lost_count: u32,
    arrived: VecDeque<Bytes>,
    /// Under way and arrived.
    bytes: usize,
    end: End,
    /// Has who writes closed it, or gone?
    is_shut: bool,
    /// Has who reads gone?
    is_unread: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Lane {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

/// Who made a connection.
#[derive(Clone)]
pub(super) struct Client {
    pub(super) process: ProcessId,
    /// The machine of a daemon; none: that of the process is always well.
    pub(super) from: Option<Arc<Place>>,
}

/// A connection of a client to a daemon.
pub(crate) struct Connection {
    client: ProcessId,
    from: Option<Arc<Place>>,
    daemon: ProcessId,
    place: Arc<Place>,
    /// By which of the daemon's addresses.
    link: usize,
    state: Mutex<State>,
}

struct State {
    lanes: [Lane; 2],
    role: Role,
}

impl Connection {
    pub(super) fn new(client: Client, daemon: ProcessId, place: Arc<Place>, link: usize, role: Role) -> Arc<Self> {
        let Client { process: client, from } = client;
        let state = Mutex::new(State { lanes: Default::default(), role });
        Arc::new(Self { client, from, daemon, place, link, state })
    }

    /// Its ends: the client's and the daemon's.
    pub(super) fn sides(self: &Arc<Self>) -> (Side, Side) {
        let side = |writes, reads| Side { connection: self.clone(), writes, reads };
        (side(Way::Request, Way::Answer), side(Way::Answer, Way::Request))
    }

    pub(crate) fn client(&self) -> ProcessId {
        self.client
    }

    pub(super) fn is_open(&self) -> bool {
        self.state.lock().lanes.iter().any(|lane| lane.end == End::Open)
    }

    /// It breaks: some of what is under way still arrives. For a moment its place was away.
    pub(super) fn cut(&self) {
        self.place.was_away();
        let mut state = self.state.lock();
        for lane in &mut state.lanes {
            if let Some(Part::Bytes(bytes)) = lane.under_way.pop_front() {
                let some = bytes.slice(..running().below(bytes.len() as u64 + 1) as usize);
                lane.arrived.extend((!some.is_empty()).then_some(some));
            }
            lane.under_way.clear();
            lane.bytes = lane.arrived.iter().map(Bytes::len).sum();
            if lane.end == End::Open {
                lane.end = End::Broken;
            }
            lane.wake();
        }
    }

    /// One of its processes has ended.
    pub(super) fn close(self: &Arc<Self>, process: ProcessId) {
        if self.client == process {
            self.leave(Way::Request, Way::Answer);
        }
        if self.daemon == process {
            self.leave(Way::Answer, Way::Request);
        }
    }

    /// Who wrote and read so is not there any more. What was written still arrives.
    fn leave(self: &Arc<Self>, wrote: Way, read: Way) {
        self.write(wrote, Part::End);
        let mut state = self.state.lock();
        let lane = &mut state.lanes[read as usize];
        lane.bytes -= lane.arrived.iter().map(Bytes::len).sum::<usize>();
        lane.arrived.clear();
        lane.is_unread = true;
        lane.wake();
    }

    fn write(self: &Arc<Self>, way: Way, part: Part) {
        let mut state = self.state.lock();
        let lane = &mut state.lanes[way as usize];
        if lane.is_shut || lane.end != End::Open {
            return;
        }
        match &part {
            Part::Bytes(bytes) => lane.bytes += bytes.len(),
            Part::End => lane.is_shut = true,
        }
        lane.under_way.push_back(part);
        if !std::mem::replace(&mut lane.is_moving, true) {
            drop(state);
            self.arrive_after(way, self.place.delay());
        }
    }

    fn arrive_after(self: &Arc<Self>, way: Way, time: Duration) {
        let connection = self.clone();
        running().after(time, move || connection.arrive(way));
    }

    /// Does anything get through?
    fn is_passable(&self, way: Way) -> bool {
        let is_heard = match way {
            Way::Request => self.place.hears(self.client),
            Way::Answer => self.place.is_heard_by(self.client),
        };
        let is_cut_off = self.from.as_ref().is_some_and(|from| from.is_cut_off());
        is_heard && !is_cut_off && self.place.machine().is_none_or(|machine| !machine.is_silent(self.link))
    }

    /// The next part arrives, or is sent again later.
    fn arrive(self: &Arc<Self>, way: Way) {
        let scheduler = running();
        let (lost, _) = self.place.noise();
        let (is_passable, is_lost) = (self.is_passable(way), scheduler.chance(lost));
        if is_passable && is_lost && scheduler.chance(CUT_PER_MILLE) {
            self.cut();
        }
        let mut state = self.state.lock();
        let State { lanes, role } = &mut *state;
        let lane = &mut lanes[way as usize];
        if lane.under_way.is_empty() {
            lane.is_moving = false;
            return;
        }
        if !is_passable || is_lost {
            let wait = Duration::from_millis(AGAIN_MS << lane.lost_count.min(DOUBLINGS_MAX));
            lane.lost_count += 1;
            drop(state);
            return self.arrive_after(way, wait);
        }
        lane.lost_count = 0;
        let mut answer = None;
        match lane.under_way.pop_front() {
            Some(Part::Bytes(bytes)) if way == Way::Request && matches!(role, Role::Impostor(_)) => {
                lane.bytes -= bytes.len();
                if let Role::Impostor(old) = role
                    && bytes.windows(4).any(|end| end == b"\r\n\r\n")
                {
                    answer = Some(old.clone());
                }
            }
            Some(Part::Bytes(bytes)) => {
                if let (Way::Request, Role::Taped(tape)) = (way, &mut *role)
                    && tape.len() + bytes.len() <= TAPE_BYTES_MAX
                {
                    tape.extend_from_slice(&bytes);
                }
                if way == Way::Answer && bytes.len() <= HEARD_BYTES_MAX && bytes.starts_with(b"HTTP/1.1 2") {
                    self.place.machine().iter().for_each(|machine| machine.heard(&bytes));
                }
                match lane.is_unread {
                    // Its machine says so.
                    true => (lane.end, lane.bytes) = (End::Broken, lane.bytes - bytes.len()),
                    false => lane.arrived.push_back(bytes),
                }
            }
            Some(Part::End) => lane.end = End::Closed,
            None => {}
        }
        lane.wake();
        let is_last = lane.under_way.is_empty();
        lane.is_moving = !is_last;
        let tape = match role {
            Role::Taped(tape) if way == Way::Request && lane.end == End::Closed => Some(std::mem::take(tape)),
            _ => None,
        };
        drop(state);
        if let (Some(tape), Some(machine)) = (tape, self.place.machine()) {
            machine.replay(&self.place, self.client, self.link, tape);
        }
        if let Some(answer) = answer {
            self.write(Way::Answer, Part::Bytes(answer));
        }
        if !is_last {
            self.arrive_after(way, Duration::from_micros(scheduler.below(FOLLOWING_US_MAX)));
        }
    }
}

/// One end of a connection.
pub(crate) struct Side {
    connection: Arc<Connection>,
    writes: Way,
    reads: Way,
}

impl Side {
    pub(super) fn client(&self) -> ProcessId {
        self.connection.client()
    }

    /// Sends this, whatever comes back, and stays for a while.
    pub(super) fn send(self, bytes: Bytes) {
        self.connection.write(self.writes, Part::Bytes(bytes));
        running().after(REPLAY_STAYS, move || drop(self));
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        self.connection.leave(self.writes, self.reads);
    }
}

impl AsyncRead for Side {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.connection.state.lock();
        let lane = &mut state.lanes[self.reads as usize];
        if let Some(first) = lane.arrived.front_mut() {
            let some = first.split_to(first.len().min(buffer.remaining()));
            if first.is_empty() {
                lane.arrived.pop_front();
            }
            buffer.put_slice(&some);
            lane.bytes -= some.len();
            lane.writer.take().into_iter().for_each(Waker::wake);
            return Poll::Ready(Ok(()));
        }
        match lane.end {
            End::Open => {
                lane.reader = Some(context.waker().clone());
                Poll::Pending
            }
            End::Closed => Poll::Ready(Ok(())),
            End::Broken => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

impl AsyncWrite for Side {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let count = {
            let mut state = self.connection.state.lock();
            let lane = &mut state.lanes[self.writes as usize];
            if lane.end != End::Open || lane.is_shut {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if lane.bytes >= WINDOW_BYTES {
                lane.writer = Some(context.waker().clone());
                return Poll::Pending;
            }
            bytes.len().min(WINDOW_BYTES - lane.bytes)
        };
        self.connection.write(self.writes, Part::Bytes(Bytes::copy_from_slice(&bytes[..count])));
        Poll::Ready(Ok(count))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.connection.write(self.writes, Part::End);
        Poll::Ready(Ok(()))
    }
}

/// Connections that a daemon has not taken yet.
#[derive(Default)]
pub(super) struct Queue {
    waiting: Mutex<(VecDeque<Side>, Option<Waker>)>,
}

impl Queue {
    pub(super) fn push(&self, side: Side) {
        let mut waiting = self.waiting.lock();
        waiting.0.push_back(side);
        waiting.1.take().into_iter().for_each(Waker::wake);
    }

    pub(super) async fn next(&self) -> Side {
        poll_fn(|context| {
            let mut waiting = self.waiting.lock();
            if let Some(side) = waiting.0.pop_front() {
                return Poll::Ready(side);
            }
            waiting.1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}
