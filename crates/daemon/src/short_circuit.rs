//! Shards read without their daemon: on the same machine it hands over the open file,
//! once, and each read is a system call then (as HDFS's short-circuit reads).
//!
//! ```text
//! POST /short-circuit                     -> the name of a socket and a ticket: signed and answered as any request
//! connect to the socket: ticket, newline              -> `+`; closed when the daemon ends: no file is used any more
//! connect to the socket: ticket, shard key, newline   -> `+` with the file's descriptor, open for reading, or `-`
//! ```
//!
//! Off unless both sides ask for it. Anybody on the machine may listen at any name, so a user says its ticket only to a socket of a
//! daemon's form whose process is its own user's or root's, as the kernel tells, and takes only regular files open for reading.
//!
//! A name of Linux's abstract namespace, new with each daemon: whoever cannot reach it is on another machine (or in another
//! network namespace) and goes on asking for bytes. So does whoever gets no file: the answer to that says why. A removed shard's file has
//! no name any more, which each read looks at first.
//!
//! What it never does: answer with an error, or keep a file of a daemon that has ended (its disk may be about to be unmounted).
//!
//! Start reading at [`ShortCircuit::get`]; the daemon's side is `server/file_socket.rs`.

use super::wire::ShortCircuitBody;
use bytes::Bytes;
use parking_lot::Mutex;
use rustix::cmsg_space;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::task::AbortHandle;
use weft_env::Clock;
use weft_format::ShardKey;
use weft_nodes::system::medium::Medium;
use weft_nodes::system::shard_files::{ShardFile, ShardFiles};
use weft_nodes::system::{INLINE_READ_BYTES, cut, read_at, read_cached_at};

/// Whoever is on the same machine answers in so long, or is stopped.
const DEADLINE: Duration = Duration::from_secs(1);

/// A file that is not read in so long is asked the daemon for.
const READ_DEADLINE: Duration = Duration::from_secs(5);

/// A daemon that hands over no files is asked again after so long.
const ASK_AGAIN: Duration = Duration::from_secs(60);

/// What others have removed is closed within so long: its room is not free before.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// The longest request: a ticket, a key, a newline.
const REQUEST_BYTES_MAX: usize = 256;

const GIVEN: u8 = b'+';
const REFUSED: u8 = b'-';

/// What the names of daemons' sockets begin with; 32 hexadecimal digits follow.
const SOCKET_PREFIX: &str = "weft-";

/// A name that no other daemon has.
pub(super) fn socket_name(random: u128) -> String {
    format!("{SOCKET_PREFIX}{random:032x}")
}

/// Could a daemon have made it? Whatever else listens on this machine is not even connected to.
fn is_socket_name(name: &str) -> bool {
    let digits = name.strip_prefix(SOCKET_PREFIX).unwrap_or_default();
    digits.len() == 32 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// May a process of the user `peer` be told a ticket, and be believed, by one of the user `own`? Root can do all that `own` can.
fn is_trusted(peer: u32, own: u32) -> bool {
    peer == 0 || peer == own
}

/// Where an abstract socket of this name is found.
pub(super) fn address(socket: &str) -> String {
    format!("\0{socket}")
}

/// A request, without its newline; none: it is too long, cut off, or no text.
pub(super) async fn receive(stream: &UnixStream) -> Option<String> {
    let (mut request, mut filled) = ([0; REQUEST_BYTES_MAX], 0);
    while filled < REQUEST_BYTES_MAX {
        stream.readable().await.ok()?;
        match stream.try_read(&mut request[filled..]) {
            Ok(0) => return None,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => return None,
        }
        if let Some((b'\n', text)) = request[..filled].split_last() {
            return String::from_utf8(text.to_vec()).ok();
        }
    }
    None
}

/// Until the other side has closed it, or breaks the rules.
pub(super) async fn closed(stream: &UnixStream) {
    loop {
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut [0; 1]) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Nothing more is to be said.
            _ => return,
        }
    }
}

/// Answers a request that may be answered so.
pub(super) async fn give(stream: &UnixStream, file: Option<&OwnedFd>) -> io::Result<()> {
    let files: Vec<_> = file.iter().map(|file| file.as_fd()).collect();
    send(stream, &[GIVEN], &files).await
}

pub(super) async fn refuse(stream: &UnixStream) -> io::Result<()> {
    send(stream, &[REFUSED], &[]).await
}

/// Few bytes, which a new socket takes at once or not at all.
async fn send(stream: &UnixStream, bytes: &[u8], files: &[rustix::fd::BorrowedFd<'_>]) -> io::Result<()> {
    let sending = stream.async_io(Interest::WRITABLE, || {
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(files));
        }
        Ok(rustix::net::sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    });
    if sending.await? == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// The answer: whether it was given, and the file that came with it.
async fn receive_answer(stream: &UnixStream) -> io::Result<(bool, Option<OwnedFd>)> {
    let receiving = stream.async_io(Interest::READABLE, || {
        let mut answer = [0; 1];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut slices = [IoSliceMut::new(&mut answer)];
        let received = rustix::net::recvmsg(stream, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let file = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((received.bytes == 1 && answer == [GIVEN], file))
    });
    receiving.await
}

/// The files of one daemon that this process has open.
pub(super) struct ShortCircuit {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
}

#[derive(Default)]
enum State {
    #[default]
    Unasked,
    Asking,
    Open {
        session: Arc<Session>,
        _guard: Guard,
    },
    /// It hands over no files, is elsewhere, or its files cannot be read, as far as was known at this time.
    Refused(Instant),
}

/// A task that ends with the session.
struct Guard(AbortHandle);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ShortCircuit {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self { state: Mutex::default(), clock: Arc::clone(clock) }
    }

    /// Whoever gets `true` here is to ask for a session, and to say what came of it.
    pub(super) fn may_ask(&self) -> bool {
        let mut state = self.state.lock();
        let may_ask = match &*state {
            State::Unasked => true,
            State::Asking | State::Open { .. } => false,
            State::Refused(at) => self.clock.elapsed(*at) >= ASK_AGAIN,
        };
        if may_ask {
            *state = State::Asking;
        }
        may_ask
    }

    /// What came of asking: a session, if its socket can be reached.
    pub(super) async fn answered(self: &Arc<Self>, answer: Option<ShortCircuitBody>) {
        let opened = match answer {
            Some(body) => Session::open(body, &self.clock).await,
            None => None,
        };
        let mut state = self.state.lock();
        *state = match opened {
            Some((session, stream)) => {
                // It finds the session, since it needs the lock to do anything.
                let guard = tokio::spawn(guard(Arc::clone(&self.clock), stream, Arc::downgrade(self)));
                State::Open { session: Arc::new(session), _guard: Guard(guard.abort_handle()) }
            }
            None => State::Refused(self.clock.now()),
        };
    }

    /// The bytes, if the shard's file can be had.
    pub(super) async fn get(&self, key: ShardKey, range: &Range<u64>) -> Option<Bytes> {
        let got = self.session()?.get(key, range).await;
        got.unwrap_or_else(|Late| {
            // The daemon has a way of its own to wait for its disk, and this process only so many threads.
            *self.state.lock() = State::Refused(self.clock.now());
            None
        })
    }

    /// Closes the file of a shard that was removed: open, it would take its room still.
    pub(super) fn forget(&self, key: ShardKey) {
        if let Some(session) = self.session() {
            session.files.forget(key);
        }
    }

    fn session(&self) -> Option<Arc<Session>> {
        match &*self.state.lock() {
            State::Open { session, .. } => Some(Arc::clone(session)),
            _ => None,
        }
    }
}

/// Ends the session with the daemon, and closes meanwhile what others have removed.
async fn guard(clock: Arc<dyn Clock>, stream: UnixStream, short_circuit: Weak<ShortCircuit>) {
    while clock.timeout(LOOK_AGAIN, closed(&stream)).await.is_err() {
        let Some(session) = short_circuit.upgrade().and_then(|short_circuit| short_circuit.session()) else { return };
        let _ = wait_for(&*clock, move || session.files.forget_removed()).await;
    }
    if let Some(short_circuit) = short_circuit.upgrade() {
        *short_circuit.state.lock() = State::Unasked;
    }
}

/// A daemon that hands over files, and those that it has handed over.
struct Session {
    socket: String,
    ticket: String,
    files: ShardFiles,
    clock: Arc<dyn Clock>,
}

impl Session {
    /// And the connection that lasts as long as the daemon.
    async fn open(body: ShortCircuitBody, clock: &Arc<dyn Clock>) -> Option<(Self, UnixStream)> {
        let (stream, _) = ask(&**clock, &body.socket, &body.ticket, "").await?;
        let clock = Arc::clone(clock);
        Some((Self { socket: body.socket, ticket: body.ticket, files: ShardFiles::default(), clock }, stream))
    }

    async fn get(&self, key: ShardKey, range: &Range<u64>) -> Result<Option<Bytes>, Late> {
        let file = match self.files.find(key) {
            Some(file) => file,
            None => match self.open_file(key).await? {
                Some(file) => file,
                None => return Ok(None),
            },
        };
        let bytes = read(&*self.clock, file, range.clone()).await?;
        if bytes.is_none() {
            self.files.forget(key);
        }
        Ok(bytes)
    }

    async fn open_file(&self, key: ShardKey) -> Result<Option<Arc<ShardFile>>, Late> {
        let Some((_, file)) = ask(&*self.clock, &self.socket, &self.ticket, &key.to_string()).await else {
            return Ok(None);
        };
        let Some(file) = file else {
            // It was sent, but this process has as many as it may.
            self.files.clear();
            return Ok(None);
        };
        let opened = wait_for(&*self.clock, move || {
            let medium = Medium::of(&file)?;
            // Reading from anything else might wait, or do something.
            let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
            let access = rustix::fs::fcntl_getfl(&file)? & OFlags::RWMODE;
            if kind != FileType::RegularFile || access != OFlags::RDONLY {
                return Err(Errno::INVAL);
            }
            ShardFile::new(file, medium)
        });
        let Ok((file, _)) = opened.await? else { return Ok(None) };
        let file = Arc::new(file);
        self.files.keep(key, Arc::clone(&file));
        Ok(Some(file))
    }
}

/// Asks the daemon at a socket; `None`: it does not give what was asked, or nobody is there.
async fn ask(clock: &dyn Clock, socket: &str, ticket: &str, what: &str) -> Option<(UnixStream, Option<OwnedFd>)> {
    let asking = async {
        if !is_socket_name(socket) {
            return Ok(None);
        }
        let stream = UnixStream::connect(address(socket)).await?;
        let (peer, own) = (stream.peer_cred()?.uid(), rustix::process::geteuid().as_raw());
        if !is_trusted(peer, own) {
            tracing::warn!(socket, peer, "a socket that a daemon names belongs to another user: nothing is said to it");
            return Ok(None);
        }
        send(&stream, format!("{ticket}{what}\n").as_bytes(), &[]).await?;
        let (is_given, file) = receive_answer(&stream).await?;
        io::Result::Ok(is_given.then_some((stream, file)))
    };
    clock.timeout(DEADLINE, asking).await.ok()?.ok()?
}

/// Up to all of `range`, on this thread where that cannot wait for a device; `None`: the shard was removed, or cannot be read.
async fn read(clock: &dyn Clock, file: Arc<ShardFile>, range: Range<u64>) -> Result<Option<Bytes>, Late> {
    let is_short = range.end.saturating_sub(range.start) <= INLINE_READ_BYTES;
    match file.medium {
        Medium::Memory if is_short => return Ok(read_by(&file, &range, read_at)),
        Medium::Cached if is_short => {
            if let Some(bytes) = read_by(&file, &range, read_cached_at) {
                return Ok(Some(bytes));
            }
        }
        _ => {}
    }
    wait_for(clock, move || read_by(&file, &range, read_at)).await
}

/// A device, or whatever a file is that somebody else has opened, took longer than [`READ_DEADLINE`].
struct Late;

async fn wait_for<T: Send + 'static>(clock: &dyn Clock, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Late> {
    match clock.timeout(READ_DEADLINE, tokio::task::spawn_blocking(work)).await {
        Ok(Ok(done)) => Ok(done),
        _ => Err(Late),
    }
}

fn read_by(
    file: &ShardFile,
    range: &Range<u64>,
    read: fn(&OwnedFd, u64, usize) -> rustix::io::Result<Vec<u8>>,
) -> Option<Bytes> {
    let (offset, length) = cut(range, file.size_if_named()?);
    read(&file.file, offset, length).ok().map(Bytes::from)
}

#[cfg(test)]
#[path = "short_circuit_tests.rs"]
mod tests;
