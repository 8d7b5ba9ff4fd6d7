//! Servers of engines, started for tests: in a temporary folder, on 127.0.0.1, ended with their process.

mod etcd;
mod postgres;

pub use etcd::Etcd;
pub use postgres::Postgres;

use rustix::fs::{FlockOperation, flock};
use std::fs::File;
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

/// A port of this machine that no other test takes while this lives.
struct Port {
    number: u16,
    /// Locked.
    _claim: File,
}

impl Port {
    /// Below those that the kernel gives to connections.
    fn reserve() -> Self {
        const FIRST: u16 = 18_000;
        const COUNT: u16 = 14_000;
        let folder = std::env::temp_dir().join("weft-test-ports");
        std::fs::create_dir_all(&folder).expect("a folder for ports");
        let start = std::process::id();
        let ports = (0..COUNT).map(|number| FIRST + ((start + u32::from(number)) % u32::from(COUNT)) as u16);
        let mut claims = ports.filter_map(|number| {
            let claim = File::create(folder.join(number.to_string())).ok()?;
            flock(&claim, FlockOperation::NonBlockingLockExclusive).ok()?;
            TcpListener::bind(("127.0.0.1", number)).ok()?;
            Some(Self { number, _claim: claim })
        });
        claims.next().expect("a free port")
    }
}
