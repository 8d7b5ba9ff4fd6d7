//! Servers of engines, started for tests: in a temporary folder, on 127.0.0.1, ended with their process.

mod etcd;
mod postgres;

pub use etcd::Etcd;
pub use postgres::{Postgres, program as postgres_program};

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
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

/// What a server shows to its clients with TLS, in PEM.
pub struct Identity {
    /// Its certificate.
    pub certificate: String,
    /// The key of the certificate.
    pub key: String,
}

impl Identity {
    /// As PostgreSQL calls the files by itself. Only their owner may read them.
    fn write_to(&self, folder: &Path) -> [PathBuf; 2] {
        let parts = [("server.crt", &self.certificate), ("server.key", &self.key)];
        parts.map(|(name, text)| {
            let path = folder.join(name);
            std::fs::write(&path, text).expect("a file of the certificate");
            std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("its mode");
            path
        })
    }
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
