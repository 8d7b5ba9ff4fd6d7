//! Real servers for tests, each on a free port of this machine's loopback, ended by process id.
//!
//! A program that is missing fails the test, with the name of its package.

use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A server that takes longer to listen is broken.
const START_DEADLINE: Duration = Duration::from_secs(60);

/// A server of its own process, ended when dropped, with the processes that it started.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
}

impl Server {
    /// Stops it (`STOP`), lets it go on (`CONT`), with all of its processes.
    pub fn signal(&self, signal: Signal) {
        for process in family(self.process.id()) {
            let _ = kill_process(process, signal);
        }
    }

    pub fn kill(&mut self) {
        // Stopped first, so that none starts another meanwhile.
        self.signal(Signal::STOP);
        self.signal(Signal::KILL);
        self.process.wait().expect("ended");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.process.try_wait().is_ok_and(|ended| ended.is_none()) {
            self.kill();
        }
    }
}

/// A process and its descendants.
fn family(id: u32) -> Vec<Pid> {
    let mut family = vec![id];
    let mut next = 0;
    while let Some(id) = family.get(next).copied() {
        let children = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        family.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        next += 1;
    }
    family.into_iter().filter_map(|id| Pid::from_raw(id.cast_signed())).collect()
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").port()
}

/// Starts a program that cannot choose a port itself, and waits until it listens. Another program may be faster to take a
/// free port: then the next one is tried.
fn start_on_free_port(package: &str, mut command: impl FnMut(u16) -> Command) -> Server {
    for _ in 0..5 {
        let port = free_port();
        let started = command(port).stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let process =
            started.unwrap_or_else(|error| panic!("{package} cannot be started ({error}): apt-get install {package}"));
        let mut server = Server { process, address: SocketAddr::from(([127, 0, 0, 1], port)) };
        let began = Instant::now();
        while server.process.try_wait().expect("known").is_none() {
            if TcpStream::connect(server.address).is_ok() {
                return server;
            }
            assert!(began.elapsed() < START_DEADLINE, "{package} does not listen");
            // Nothing tells when it listens but trying.
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    panic!("{package} ends as soon as it is started")
}

fn program(candidates: &[&str], package: &str) -> PathBuf {
    let found = candidates.iter().map(PathBuf::from).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{} is missing: apt-get install {package}", candidates[0]))
}

/// Makes `path` and lets the user that servers run as write there.
fn served_folder(path: &Path, user_id: u32) {
    fs::create_dir_all(path).expect("made");
    if rustix::process::geteuid().is_root() {
        chown(path, Some(user_id), Some(user_id)).expect("given to the server");
    }
}

/// The keys that S3 asks for.
pub const S3_KEYS: &str = "access_key_id = weft\nsecret_access_key = not-a-secret-but-signed-with\n";

const S3_ROOT: &str = "WEFT_TEST_S3_ROOT";

/// An S3 server on a folder, with one bucket, as a process of its own: the test program itself, told to run [`s3_server`].
pub fn s3(root: &Path, bucket: &str) -> Server {
    fs::create_dir_all(root.join(bucket)).expect("a bucket");
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["servers::s3_server", "--exact", "--ignored", "--nocapture"]).env(S3_ROOT, root);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("this program runs");
    // The pipe stays: after a minute the program says that its test still runs, and ends if nobody can hear that.
    let lines = BufReader::new(process.stdout.as_mut().expect("piped")).lines();
    let address = lines.map_while(Result::ok).find_map(|line| line.split("listens at ").nth(1)?.trim().parse().ok());
    Server { process, address: address.expect("it says where it listens") }
}

/// What that process does; nothing where it was not started as a server.
#[test]
#[ignore = "runs as the server of other tests"]
fn s3_server() {
    let Ok(root) = std::env::var(S3_ROOT) else { return };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut builder = s3s::service::S3ServiceBuilder::new(s3s_fs::FileSystem::new(&root).expect("a folder"));
        let value = |line: usize| S3_KEYS.lines().nth(line).and_then(|line| line.split(" = ").nth(1)).expect("a value");
        builder.set_auth(s3s::auth::SimpleAuth::from_single(value(0), value(1)));
        let service = builder.build();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        println!("listens at {}", listener.local_addr().expect("bound"));
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let (stream, service) = (hyper_util::rt::TokioIo::new(stream), service.clone());
            tokio::spawn(async move {
                // A client that goes away is nobody's failure.
                let _ = hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await;
            });
        }
    });
}

/// What WebDAV asks for.
pub const WEBDAV_KEYS: &str = "username = weft\npassword = pass word\n";

/// Apache's WebDAV on `<base>/dav`, at `/dav`.
pub fn webdav(base: &Path) -> Server {
    let apache = program(&["/usr/sbin/apache2"], "apache2");
    // www-data of Debian: Apache refuses to serve as root.
    served_folder(&base.join("dav"), 33);
    served_folder(&base.join("locks"), 33);
    fs::set_permissions(base, Permissions::from_mode(0o755)).expect("others may pass");
    // {SHA} of the password above.
    fs::write(base.join("users"), "weft:{SHA}2oguq15ANCGsJCWKX31fllwpyEk=\n").expect("written");
    let modules =
        ["mpm_event", "authn_core", "authn_file", "authz_core", "authz_user", "auth_basic", "alias", "dav", "dav_fs"];
    let modules: String = modules
        .iter()
        .map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n"))
        .collect();
    let user = if rustix::process::geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
    start_on_free_port("apache2", |port| {
        let base = base.display();
        let text = format!(
            "ServerRoot {base}\nServerName localhost\nListen 127.0.0.1:{port}\nPidFile {base}/pid.{port}\n\
             ErrorLog {base}/log\nDocumentRoot {base}\nDavLockDB {base}/locks/db\n{modules}{user}\
             Alias /dav {base}/dav\n<Location /dav>\nDav On\nAuthType Basic\nAuthName weft\nAuthUserFile {base}/users\n\
             Require valid-user\n</Location>\n"
        );
        let configuration = format!("{base}/apache.conf");
        fs::write(&configuration, text).expect("written");
        let mut command = Command::new(&apache);
        command.args(["-D", "FOREGROUND", "-f", &configuration]);
        command
    })
}

/// An SSH server that knows one key, and an `ssh` that knows that server: put `<base>/bin` first on the path.
pub fn sftp(base: &Path) -> Server {
    let sshd = program(&["/usr/sbin/sshd"], "openssh-server");
    for name in ["host_key", "user_key"] {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(base.join(name));
        assert!(command.status().is_ok_and(|status| status.success()), "ssh-keygen: apt-get install openssh-client");
    }
    fs::create_dir_all(base.join("home")).expect("made");
    if rustix::process::geteuid().is_root() {
        // Where sshd puts its unprivileged half.
        fs::create_dir_all("/run/sshd").expect("made");
    }
    let public = |name: &str| fs::read_to_string(base.join(name).with_extension("pub")).expect("made above");
    fs::write(base.join("authorized"), public("user_key")).expect("written");
    let server = start_on_free_port("openssh-server", |port| {
        let base = base.display();
        let text = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {base}/host_key\nPidFile none\nUsePAM no\nStrictModes no\n\
             AuthorizedKeysFile {base}/authorized\nPasswordAuthentication no\nSubsystem sftp internal-sftp\n\
             MaxStartups 100\nMaxSessions 100\n"
        );
        let configuration = format!("{base}/sshd.conf");
        fs::write(&configuration, text).expect("written");
        let mut command = Command::new(&sshd);
        command.args(["-D", "-f", &configuration]).stderr(Stdio::null());
        command
    });
    let shown = base.display();
    let known = format!("[127.0.0.1]:{} {}", server.address.port(), public("host_key"));
    fs::write(base.join("known_hosts"), known).expect("written");
    let configuration =
        format!("UserKnownHostsFile {shown}/known_hosts\nIdentityFile {shown}/user_key\nIdentitiesOnly yes\n");
    fs::write(base.join("ssh_config"), configuration).expect("written");
    let ssh = base.join("bin/ssh");
    fs::create_dir_all(base.join("bin")).expect("made");
    fs::write(&ssh, format!("#!/bin/sh\nexec /usr/bin/ssh -F {shown}/ssh_config \"$@\"\n")).expect("written");
    fs::set_permissions(&ssh, Permissions::from_mode(0o755)).expect("set");
    server
}

/// `PATH` for programs that shall find the `ssh` of [`sftp`].
pub fn path_with_ssh(base: &Path) -> String {
    format!("{}:{}", base.join("bin").display(), std::env::var("PATH").unwrap_or_default())
}

/// An address with `scheme`, for a node at `path` of the server.
pub fn url(scheme: &str, server: &Server, path: &str) -> String {
    format!("{scheme}://{}{path}", server.address)
}

/// Hadoop's own small cluster, one NameNode and three DataNodes, from the class path that `lab/hdfs.sh` gives.
pub fn hdfs(base: &Path, class_path: &str) -> Server {
    start_on_free_port("openjdk-17-jre-headless", |port| {
        let mut command = Command::new("java");
        // WebHDFS of 3.4 makes classes as Java 8 allowed it.
        command.arg(format!("-Djava.io.tmpdir={}", base.display()));
        command.args(["-Xmx512m", "--add-opens", "java.base/java.lang=ALL-UNNAMED", "-cp", class_path]);
        command.args(["org.apache.hadoop.mapreduce.MiniHadoopClusterManager", "-nomr", "-format", "-datanodes", "3"]);
        command.args(["-D", "dfs.permissions.enabled=false"]);
        command.args(["-nnhttpport", &port.to_string()]).current_dir(base).stderr(Stdio::null());
        command
    })
}
