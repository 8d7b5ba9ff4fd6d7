//! PostgreSQL on a machine of its own, with the metadata of a volume that several machines mount.

use super::network::Network;
use super::process::{GLANCE, Process, must};
use anyhow::{Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use weft_meta::servers::postgres_program;

const START_DEADLINE: Duration = Duration::from_secs(60);
/// Its log of changes takes no more of the disk than this, so that there is room for the rest. What it shares is on the disk, too: one that is killed
/// leaves nothing on the machine.
const SETTINGS: [&str; 4] =
    ["max_wal_size=128MB", "min_wal_size=32MB", "max_connections=200", "dynamic_shared_memory_type=mmap"];

/// Where one is, and how to start it.
pub struct Server {
    machine: usize,
    /// On the disk of the metadata. Only the server's user may enter it.
    data: PathBuf,
}

impl Server {
    /// A new one with an empty database, which runs.
    ///
    /// # Errors
    /// PostgreSQL is not installed, or does not start.
    pub fn make(network: &Network, machine: usize, disk: &Path, logs: &Path) -> Result<(Self, Process)> {
        let server = Self { machine, data: disk.join("data") };
        fs::create_dir(&server.data)?;
        let mut give = Command::new("chown");
        give.arg("postgres").arg(&server.data);
        must(give, START_DEADLINE)?;
        let mut make = server.command(network, "initdb");
        make.args(["-A", "trust", "-U", "weft", "-E", "UTF8", "--locale=C", "-D"]).arg(&server.data);
        must(make, START_DEADLINE)?;
        let rules = "host all all 127.0.0.1/32 trust\nhost all all 10.0.0.0/24 trust\n";
        fs::write(server.data.join("pg_hba.conf"), rules)?;
        let mut process = server.start(network, logs)?;
        let (host, port) = server.host_and_port(network);
        let began = Instant::now();
        loop {
            let mut create = server.command(network, "createdb");
            create.args(["-h", &host, "-p", &port, "-U", "weft", "weft"]);
            match must(create, START_DEADLINE) {
                Ok(_) => return Ok((server, process)),
                Err(_) if process.ended().is_none() && began.elapsed() < START_DEADLINE => std::thread::sleep(GLANCE),
                Err(error) => bail!("PostgreSQL does not start, as logs/server.log says: {error:#}"),
            }
        }
    }

    /// Starts it again. It may end at once while processes of the one before are there, or while its disk is full.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(&self, network: &Network, logs: &Path) -> Result<Process> {
        let (host, port) = self.host_and_port(network);
        let mut command = self.command(network, "postgres");
        command.arg("-D").arg(&self.data).args(["-p", &port]);
        for setting in [&format!("listen_addresses={host}")[..], "unix_socket_directories="].iter().chain(&SETTINGS) {
            command.args(["-c", setting]);
        }
        Process::start(command, "server", logs)
    }

    /// The address of the volume's metadata.
    pub fn url(&self, network: &Network) -> String {
        format!("postgres://weft@{}/weft?sslmode=disable", network.address(self.machine))
    }

    fn host_and_port(&self, network: &Network) -> (String, String) {
        let address = network.address(self.machine);
        let (host, port) = address.split_once(':').unwrap_or((&address, ""));
        (host.to_owned(), port.to_owned())
    }

    /// A program of PostgreSQL on the machine, as the server's user: it refuses to run as root.
    fn command(&self, network: &Network, program: &str) -> Command {
        let mut command = network.command(self.machine, Path::new("setpriv"));
        // The signal at the parent's death is forgotten with a change of the user.
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]);
        command.arg(postgres_program(program)).current_dir("/");
        command
    }
}
