//! PostgreSQL, as Debian has it.

use super::{Identity, Port, START_MAX};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpStream;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use weft_env::{Clock, SystemClock};

/// A server that does not end within this time is killed: PostgreSQL itself waits five seconds for its processes.
const END_MAX: Duration = Duration::from_secs(6);

/// A PostgreSQL server.
pub struct Postgres {
    folder: tempfile::TempDir,
    data: PathBuf,
    port: Port,
    child: Option<Child>,
}

impl Postgres {
    /// A new server with an empty database `weft`, whose user `weft` needs no password.
    ///
    /// # Panics
    /// PostgreSQL is not installed, or does not start.
    #[must_use]
    pub fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        let mut server = Self { folder, data, port: Port::reserve(), child: None };
        Self::give_to_its_user(server.folder.path());
        server.make_data();
        server.resume(&[]);
        server.psql("CREATE DATABASE weft");
        server
    }

    /// The files of a new server. To make them takes a second of a processor, so it is done once on this machine, and they are kept as one archive.
    fn make_data(&self) {
        let archive = std::env::temp_dir().join(format!("weft-test-postgres-{}.tar", version().unwrap_or_default()));
        // Anybody may put something of this name there.
        let owner = |path: &Path| std::fs::symlink_metadata(path).ok().map(|found| found.uid());
        if owner(&archive) == owner(self.folder.path()) && self.tar("-xf", &archive) {
            return;
        }
        let _ = std::fs::remove_dir_all(&self.data);
        let mut make = self.command("initdb");
        let made = make.args(["-A", "trust", "-U", "weft", "-E", "UTF8", "--locale=C", "--no-sync"]).output();
        let made = made.expect("initdb runs");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        // Other tests may be at it: who renames later replaces a whole one by another.
        let own = self.folder.path().join("data.tar");
        if self.tar("-cf", &own) {
            let _ = std::fs::rename(own, archive);
        }
    }

    /// Packs or unpacks its files; false: it cannot be done.
    fn tar(&self, what: &str, archive: &Path) -> bool {
        let mut tar = self.as_its_user("tar".as_ref());
        let done =
            tar.arg(what).arg(archive).arg("-C").arg(self.folder.path()).arg("data").stderr(Stdio::null()).status();
        done.is_ok_and(|status| status.success())
    }

    /// A standby of this server, which follows it. From now on a commit of this one waits for it.
    ///
    /// # Panics
    /// It does not start.
    #[must_use]
    pub fn standby(&self) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = folder.path().join("data");
        let mut standby = Self { folder, data, port: Port::reserve(), child: None };
        Self::give_to_its_user(standby.folder.path());
        let port = self.port.number.to_string();
        let mut copy = standby.command("pg_basebackup");
        let copied =
            copy.args(["-h", "127.0.0.1", "-p", &port, "-U", "weft", "-R", "-X", "stream", "-c", "fast"]).output();
        let copied = copied.expect("pg_basebackup runs");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        standby.resume(&[]);
        self.psql("ALTER SYSTEM SET synchronous_standby_names = '*'");
        self.psql("SELECT pg_reload_conf()");
        standby
    }

    /// The standby takes changes from now on.
    ///
    /// # Panics
    /// It does not.
    pub fn promote(&self) {
        self.psql("ALTER SYSTEM RESET synchronous_standby_names");
        self.psql("SELECT pg_reload_conf()");
        self.psql("SELECT pg_promote(true, 60)");
    }

    /// Starts it again on the same port, with these settings (`name=value`).
    ///
    /// # Panics
    /// It does not start.
    pub fn resume(&mut self, settings: &[&str]) {
        assert!(self.child.is_none(), "it runs");
        let deadline = SystemClock.now() + START_MAX;
        self.child = Some(self.spawn(settings));
        while TcpStream::connect(("127.0.0.1", self.port.number)).is_err() || !self.is_ready() {
            assert!(SystemClock.now() < deadline, "the server does not start: {}", self.log());
            let has_ended =
                self.child.as_mut().is_none_or(|child| child.try_wait().is_ok_and(|status| status.is_some()));
            if has_ended {
                // Processes of the one before may still have its memory.
                self.child = Some(self.spawn(settings));
            }
            SystemClock.block(Duration::from_millis(20));
        }
    }

    fn spawn(&self, settings: &[&str]) -> Child {
        let log = std::fs::File::create(self.folder.path().join("log")).expect("a log");
        let mut command = self.command("postgres");
        let port = self.port.number.to_string();
        command.args(["-p", &port, "-c", "listen_addresses=127.0.0.1", "-c", "max_connections=200", "-c"]);
        // One that is killed leaves it among its files, and not on the machine.
        command.args(["dynamic_shared_memory_type=mmap", "-c"]);
        command.arg(format!("unix_socket_directories={}", self.folder.path().display()));
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("postgres runs")
    }

    /// Ends it as a power cut would: nothing is written any more.
    pub fn kill(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // Its processes end as soon as they see that the first of them is gone.
        let _ = child.kill();
        let _ = child.wait();
        let deadline = SystemClock.now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", self.port.number)).is_ok() && SystemClock.now() < deadline {
            SystemClock.block(Duration::from_millis(10));
        }
    }

    /// Ends it at once, but so that it removes its shared memory, which one that is killed leaves on the machine for ever.
    fn end(&mut self) {
        let Some(child) = &mut self.child else { return };
        let deadline = SystemClock.now() + END_MAX;
        let is_asked = kill_process(Pid::from_child(child), Signal::QUIT).is_ok();
        while is_asked && SystemClock.now() < deadline && matches!(child.try_wait(), Ok(None)) {
            SystemClock.block(Duration::from_millis(5));
        }
    }

    /// What it listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// The address of a store in this schema.
    #[must_use]
    pub fn url(&self, schema: &str) -> String {
        format!("postgres://weft@127.0.0.1:{}/weft?schema={schema}", self.port.number)
    }

    /// From now on users other than its own need their passwords.
    ///
    /// # Panics
    /// Its settings cannot be written.
    pub fn require_passwords(&self) {
        let rules = "host all weft 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n";
        std::fs::write(self.data.join("pg_hba.conf"), rules).expect("the rules are written");
        self.psql("SELECT pg_reload_conf()");
    }

    /// From now on it has TLS with this certificate, and no user of a database but `postgres` may go without.
    ///
    /// # Panics
    /// Its settings cannot be written.
    pub fn require_tls(&self, identity: &Identity) {
        for path in identity.write_to(&self.data) {
            Self::give_to_its_user(&path);
        }
        let rules = "hostssl all all 127.0.0.1/32 trust\nhost postgres weft 127.0.0.1/32 trust\n";
        std::fs::write(self.data.join("pg_hba.conf"), rules).expect("the rules are written");
        self.psql("ALTER SYSTEM SET ssl = on");
        self.psql("SELECT pg_reload_conf()");
    }

    /// Runs a statement as its superuser, and answers what it prints.
    ///
    /// # Panics
    /// The statement fails.
    pub fn psql(&self, statement: &str) -> String {
        self.psql_at("postgres", statement)
    }

    /// The same in a database.
    ///
    /// # Panics
    /// The statement fails.
    pub fn psql_at(&self, database: &str, statement: &str) -> String {
        self.try_psql_at(database, statement).unwrap_or_else(|why| panic!("{statement}: {why}"))
    }

    /// The same; `Err`: what the server says.
    ///
    /// # Errors
    /// The statement fails.
    ///
    /// # Panics
    /// There is no `psql`.
    pub fn try_psql_at(&self, database: &str, statement: &str) -> Result<String, String> {
        let port = self.port.number.to_string();
        let mut psql = Command::new(program("psql"));
        psql.args(["-h", "127.0.0.1", "-p", &port, "-U", "weft", "-d", database, "-Atqc", statement]);
        let output = psql.output().expect("psql runs");
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(said(&output.stdout)) } else { Err(said(&output.stderr)) }
    }

    fn is_ready(&self) -> bool {
        let port = self.port.number.to_string();
        let ready = Command::new(program("pg_isready")).args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
        ready.is_ok_and(|status| status.success())
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// PostgreSQL refuses to run as root: then it runs as its own user.
    fn give_to_its_user(path: &Path) {
        if rustix::process::geteuid().is_root() {
            let given = Command::new("chown").arg("postgres").arg(path).status();
            assert!(given.is_ok_and(|status| status.success()), "there is no user postgres: install postgresql");
        }
    }

    fn command(&self, name: &str) -> Command {
        let mut command = self.as_its_user(&program(name));
        command.arg("-D").arg(&self.data);
        command
    }

    fn as_its_user(&self, program: &Path) -> Command {
        let mut command = if rustix::process::geteuid().is_root() {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--pdeathsig=KILL"]).arg(program);
            command
        } else {
            Command::new(program)
        };
        command.current_dir(self.folder.path());
        command
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.end();
        self.kill();
    }
}

/// Where a program of PostgreSQL is: Debian keeps the server's beside each other by version, and off the path.
#[must_use]
pub fn program(name: &str) -> PathBuf {
    let found = version().map(|version| PathBuf::from(format!("/usr/lib/postgresql/{version}/bin/{name}")));
    found.filter(|path| path.exists()).unwrap_or_else(|| name.into())
}

/// The newest that Debian has installed.
fn version() -> Option<u32> {
    let versions = Path::new("/usr/lib/postgresql").read_dir().into_iter().flatten().flatten();
    versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).max()
}
