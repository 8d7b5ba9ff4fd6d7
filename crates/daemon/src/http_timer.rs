//! The clock of a process, as the HTTP library asks for it.

use hyper::rt;
use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use weft_env::{Clock, Sleep};

/// See the module's head.
pub(super) struct HttpTimer(Arc<dyn Clock>);

impl HttpTimer {
    pub(super) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self(Arc::clone(clock))
    }
}

impl rt::Timer for HttpTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until(self.0.now() + duration)
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(HttpSleep(Mutex::new(self.0.sleep_until(deadline))))
    }

    fn now(&self) -> Instant {
        self.0.now()
    }
}

/// The library wants to share it, and never does; so the mutex is never locked.
struct HttpSleep(Mutex<Sleep>);

impl Future for HttpSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        self.0.get_mut().as_mut().poll(context)
    }
}

impl rt::Sleep for HttpSleep {}
