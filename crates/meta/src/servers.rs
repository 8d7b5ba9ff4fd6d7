//! Servers of engines, started for tests: in a temporary folder, on 127.0.0.1, ended with their process.

mod etcd;
mod postgres;

pub use etcd::Etcd;
pub use postgres::Postgres;

use std::net::TcpListener;
use std::time::Duration;

/// A busy machine starts a server in seconds.
const START_MAX: Duration = Duration::from_secs(60);

/// A port of this machine that nobody listens on now.
///
/// # Panics
/// There is none.
#[must_use]
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}
