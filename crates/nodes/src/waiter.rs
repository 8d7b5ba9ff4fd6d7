//! Waiting for an answer on the thread that asked for it.
//!
//! `Handle::block_on` leaves sockets to a thread of the runtime: an answer wakes that thread, which wakes the one that waits. Over
//! loopback those two changes of threads cost a small read more than the daemon does. [`block_on`] differs in one thing: sockets that
//! its thread asked on ([`OwnStream`]) it waits for itself, with poll(2). Timers, tasks and all other sockets are the runtime's, and
//! wake it as ever. It never runs tasks of others and keeps no connections. Start reading at [`block_on`].

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;

/// Bytes received at a time: a buffer is cleared before it is received into, and must not leave the cache in between.
const RECEIVE_BYTES_MAX: usize = 64 << 10;

thread_local! {
    /// Kept between calls, since it has a descriptor. None: none could be had.
    static WAITER: Option<Waiter> = Waiter::new().ok();
}

/// Blocks this thread, which must be none of the runtime's, until `work` is done.
pub fn block_on<T>(runtime: &Handle, work: impl Future<Output = T>) -> T {
    WAITER.with(|waiter| match waiter {
        Some(waiter) if !waiter.is_at_work.replace(true) => {
            let _at_work = AtWork(waiter);
            let _entered = runtime.enter();
            waiter.run(work)
        }
        _ => runtime.block_on(work),
    })
}

/// Does this thread wait for sockets itself?
pub fn is_here() -> bool {
    WAITER.with(|waiter| waiter.as_ref().is_some_and(|waiter| waiter.is_at_work.get()))
}

struct Waiter {
    is_at_work: Cell<bool>,
    bell: Arc<Bell>,
    wanted: RefCell<Vec<Wanted>>,
}

/// Somebody waits for a socket.
struct Wanted {
    socket: Weak<OwnSocket>,
    what: PollFlags,
    waker: Waker,
}

/// Until it is dropped, also by a panic.
struct AtWork<'a>(&'a Waiter);

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.0.wanted.borrow_mut().clear();
        self.0.is_at_work.set(false);
    }
}

impl Waiter {
    fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let bell = Bell { state: AtomicU8::new(AWAKE), thread: std::thread::current(), event };
        Ok(Self { is_at_work: Cell::new(false), bell: Arc::new(bell), wanted: RefCell::default() })
    }

    fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::clone(&self.bell));
        let mut context = Context::from_waker(&waker);
        let mut work = pin!(work);
        loop {
            self.bell.state.store(AWAKE, Ordering::SeqCst);
            if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
                return done;
            }
            let has_sockets = !self.wanted.borrow().is_empty();
            match has_sockets {
                true => self.wait(),
                false => self.bell.park(),
            }
        }
    }

    /// Waits for sockets or the bell. It may return for nothing.
    fn wait(&self) {
        if !self.bell.begin(POLLING) {
            return;
        }
        let wanted = std::mem::take(&mut *self.wanted.borrow_mut());
        // A socket that was closed is waited for by nobody; another thread may close it at any time.
        let held = |wanted: Wanted| Some((wanted.socket.upgrade()?, wanted));
        let wanted: Vec<(Arc<OwnSocket>, Wanted)> = wanted.into_iter().filter_map(held).collect();
        let mut looks: Vec<PollFd<'_>> =
            wanted.iter().map(|(socket, wanted)| PollFd::new(&socket.stream, wanted.what)).collect();
        looks.push(PollFd::new(&self.bell.event, PollFlags::IN));
        // A signal ends it early, as good as for nothing.
        let _ = poll(&mut looks, None);
        // From here on a ring finds the thread awake, and writes nothing.
        self.bell.state.store(AWAKE, Ordering::SeqCst);
        let news: Vec<bool> = looks.iter().map(|look| !look.revents().is_empty()).collect();
        let mut has_news = news.into_iter();
        for (socket, wanted) in wanted {
            if has_news.next() == Some(true) {
                socket.has_bytes.store(true, Ordering::Relaxed);
                wanted.waker.wake();
            } else {
                self.wanted.borrow_mut().push(wanted);
            }
        }
        if has_news.next() == Some(true) {
            let _ = rustix::io::read(&self.bell.event, &mut [0; 8]);
        }
    }

    /// From now on `socket` is waited for.
    fn want(&self, socket: &Arc<OwnSocket>, what: PollFlags, context: &Context<'_>) {
        let mut wanted = self.wanted.borrow_mut();
        let is_same = |known: &Wanted| known.what == what && std::ptr::eq(known.socket.as_ptr(), Arc::as_ptr(socket));
        match wanted.iter_mut().find(|known| is_same(known)) {
            Some(known) => known.waker.clone_from(context.waker()),
            None => wanted.push(Wanted { socket: Arc::downgrade(socket), what, waker: context.waker().clone() }),
        }
    }
}

/// Wakes the thread, from any other.
struct Bell {
    state: AtomicU8,
    thread: Thread,
    event: OwnedFd,
}

/// The thread was not rung since it looked last, ...
const AWAKE: u8 = 0;
/// ... or was, ...
const RUNG: u8 = 1;
/// ... or sleeps until it is unparked, ...
const PARKED: u8 = 2;
/// ... or until a socket or the event wakes it.
const POLLING: u8 = 3;

impl Bell {
    /// The thread is about to sleep. False: it was rung since it looked last.
    fn begin(&self, asleep: u8) -> bool {
        self.state.compare_exchange(AWAKE, asleep, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    fn park(&self) {
        if self.begin(PARKED) {
            while self.state.load(Ordering::SeqCst) == PARKED {
                std::thread::park();
            }
        }
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.state.swap(RUNG, Ordering::SeqCst) {
            PARKED => self.thread.unpark(),
            // What is written late wakes the thread once for nothing.
            POLLING => {
                let _ = rustix::io::write(&self.event, &1_u64.to_ne_bytes());
            }
            _ => {}
        }
    }
}

/// A socket that no runtime knows.
pub struct OwnSocket {
    stream: TcpStream,
    /// May something have come that was not received? So it is asked for only then.
    has_bytes: AtomicBool,
}

impl OwnSocket {
    /// The other side may have closed it while nobody looked: the next who receives is to look.
    pub fn look_again(&self) {
        self.has_bytes.store(true, Ordering::Relaxed);
    }
}

/// A connection that is used on threads within [`block_on`] only.
pub struct OwnStream(Arc<OwnSocket>);

impl OwnStream {
    /// `stream` does not block.
    pub fn new(stream: TcpStream) -> Self {
        Self(Arc::new(OwnSocket { stream, has_bytes: AtomicBool::new(false) }))
    }

    /// The socket itself, for who keeps the connection.
    pub fn socket(&self) -> Arc<OwnSocket> {
        Arc::clone(&self.0)
    }

    fn want<T>(&self, what: PollFlags, context: &Context<'_>) -> Poll<io::Result<T>> {
        WAITER.with(|waiter| match waiter.as_ref().filter(|waiter| waiter.is_at_work.get()) {
            Some(waiter) => {
                waiter.want(&self.0, what, context);
                Poll::Pending
            }
            None => {
                Poll::Ready(Err(io::Error::other("the connection was taken to a thread that does not wait for it")))
            }
        })
    }

    fn send(&self, context: &Context<'_>, send: impl Fn(&TcpStream) -> io::Result<usize>) -> Poll<io::Result<usize>> {
        match again_if_interrupted(|| send(&self.0.stream)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.want(PollFlags::OUT, context),
            sent => Poll::Ready(sent),
        }
    }
}

impl AsyncRead for OwnStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let socket = &self.0;
        if socket.has_bytes.load(Ordering::Relaxed) {
            let room = buffer.initialize_unfilled_to(buffer.remaining().min(RECEIVE_BYTES_MAX));
            match again_if_interrupted(|| (&socket.stream).read(room)) {
                Ok(count) => {
                    // Fewer than there is room for: that was all, but for the end, which comes by itself.
                    socket.has_bytes.store(count == 0 || count == room.len(), Ordering::Relaxed);
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    socket.has_bytes.store(false, Ordering::Relaxed);
                }
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        self.want(PollFlags::IN, context)
    }
}

impl AsyncWrite for OwnStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.send(context, |mut stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.send(context, |mut stream| stream.write_vectored(parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.stream.shutdown(std::net::Shutdown::Write))
    }
}

fn again_if_interrupted(mut call: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

#[cfg(test)]
#[path = "waiter_tests.rs"]
mod tests;
