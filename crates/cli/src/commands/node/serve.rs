//! `weft node serve PLACE`: our daemon, in the foreground until a signal ends it.

use crate::amount;
use crate::arguments::Bandwidth;
use crate::signals::Ending;
use anyhow::{Context, Result, bail};
use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use weft_daemon::{Certificate, DAEMON_PORT, Daemon, DaemonUrl, GossipSettings, Key, Trust};
use weft_engine::key_file;

/// How to serve.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft node serve /srv/disk --listen :7600 --key disk.key --tls
  weft node serve /srv/disk")]
pub struct Arguments {
    /// An existing folder, or block:///dev/sdX
    #[arg(value_name = "FOLDER|URL")]
    place: String,
    /// Address to listen on, as in localhost:7600, or :7600 for all addresses; port 0 takes any free port
    #[arg(
        long,
        value_name = "HOST:PORT",
        value_parser = amount::parse_listen,
        default_value_t = SocketAddr::from(([127, 0, 0, 1], DAEMON_PORT))
    )]
    listen: SocketAddr,
    /// File with the key that users must have, made if missing; required if other machines can reach the daemon
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Use TLS with a certificate in FILE.tls beside the key, made if missing
    #[arg(long, requires = "key")]
    tls: bool,
    /// Use TLS with this certificate and its chain (PEM)
    #[arg(long, value_name = "FILE", requires = "cert_key", conflicts_with = "tls")]
    cert: Option<PathBuf>,
    /// The certificate's key (PEM)
    #[arg(long, value_name = "FILE", requires = "cert")]
    cert_key: Option<PathBuf>,
    /// Use no encryption: others on the network can read what is sent
    #[arg(long, conflicts_with_all = ["tls", "cert"])]
    plain: bool,
    #[command(flatten)]
    bandwidth: Bandwidth,
    /// Let users on this machine read shard files directly (`weft mount --short-circuit`)
    #[arg(long, conflicts_with = "bwlimit")]
    short_circuit: bool,
    /// Serve /metrics to this machine without a signature
    #[arg(long)]
    open_metrics: bool,
    /// Daemons to learn all others from; a few that are usually up suffice
    #[arg(long, value_name = "HOST:PORT|URL", value_delimiter = ',')]
    join: Vec<String>,
    /// File with the key that all daemons of the cluster share, made if missing [default: the node's key]
    #[arg(long, value_name = "FILE")]
    cluster_key: Option<PathBuf>,
    /// Address at which others reach this daemon [default: the address it listens on]
    #[arg(long, value_name = "HOST:PORT")]
    advertise: Option<String>,
    /// Failure domain to tell other daemons, outermost level first, as in site1/rack3/host7
    #[arg(long, value_name = "DOMAIN", default_value = "")]
    domain: String,
}

/// Serves a folder, a device or an image file, until a signal asks for the end.
pub fn serve(arguments: &Arguments) -> Result<()> {
    let kinds = weft_engine::kinds();
    let place = kinds.parse(&arguments.place)?;
    let listen = arguments.listen;
    if !listen.ip().is_loopback() {
        if arguments.key.is_none() {
            bail!(
                "other machines can reach {listen}: give --key FILE (made if missing), or listen on 127.0.0.1:{}",
                listen.port()
            );
        }
        if !(arguments.tls || arguments.cert.is_some() || arguments.plain) {
            bail!(
                "other machines can reach {listen} and read the data on the network: give --tls, or --plain if they may"
            );
        }
    }
    let key = arguments.key.as_deref().map(read_or_make_key).transpose()?;
    let cluster_key = match &arguments.cluster_key {
        Some(file) => Some(read_or_make_key(file)?),
        None => key.clone(),
    };
    let join = arguments.join.iter().map(|text| daemon_url(text)).collect::<Result<Vec<_>>>()?;
    if listen.ip().is_unspecified() && arguments.advertise.is_none() && !join.is_empty() {
        bail!(
            "other daemons cannot use the address {listen}: give --advertise HOST:PORT, where they reach this machine"
        );
    }
    let certificate = certificate(arguments)?;
    let mut daemon = Daemon::open(kinds, place.clone(), key)?;
    if let Some(certificate) = &certificate {
        daemon = daemon.with_tls(certificate)?;
    }
    if let Some(bytes_per_second) = arguments.bandwidth.bwlimit {
        daemon = daemon.with_bytes_per_second(bytes_per_second);
    }
    if arguments.short_circuit {
        daemon = daemon.with_short_circuit();
    }
    if arguments.open_metrics {
        daemon = daemon.with_open_metrics();
    }
    weft_engine::runtime()?.block_on(async {
        let mut ending = Ending::catch()?;
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        let what = match daemon.identity() {
            Some(identity) => format!("node {} of volume {}", identity.node, identity.volume),
            None => "not a node yet: add it with `weft node add META NAME` and this address".to_owned(),
        };
        let tls = certificate.as_ref().map(|certificate| match arguments.tls {
            true => Trust::Certificate(certificate.fingerprint()),
            false => Trust::System,
        });
        let url = DaemonUrl { authority: address.to_string(), tls };
        // Without an address that others could use it has nothing to tell.
        if arguments.advertise.is_some() || !address.ip().is_unspecified() {
            let own = match &arguments.advertise {
                Some(authority) => DaemonUrl { tls: url.tls.clone(), ..daemon_url(authority)? },
                None => url.clone(),
            };
            let domain = arguments.domain.clone();
            daemon = daemon.with_gossip(GossipSettings { key: cluster_key, own, join, domain });
        }
        println!("Serving {place} at {url} ({what})");
        std::io::stdout().flush()?;
        let stop = async {
            ending.asked().await;
            tracing::info!("received a signal: finishing the requests in progress");
        };
        Arc::new(daemon).serve(listener, stop).await;
        Ok(())
    })
}

/// A daemon's address, as it says it or as host and port alone.
pub fn daemon_url(text: &str) -> Result<DaemonUrl> {
    let url = if text.contains("://") { text.to_owned() } else { format!("weft://{text}") };
    let none =
        || format!("`{text}` is not a daemon: give HOST:PORT, or the address that the daemon prints when it starts");
    url.parse().with_context(none)
}

/// What to prove it with, if it is to speak TLS.
fn certificate(arguments: &Arguments) -> Result<Option<Certificate>> {
    let open = |chain: &Path, key: &Path| {
        key_file::refuse_public(key)?;
        Ok(Some(Certificate::open(chain, key)?))
    };
    match (&arguments.cert, &arguments.cert_key, &arguments.key) {
        (Some(chain), Some(key), _) => open(chain, key),
        (_, _, Some(key)) if arguments.tls => {
            let mut file = key.clone().into_os_string();
            file.push(".tls");
            let file = PathBuf::from(file);
            make_secret(&file, Certificate::generate()?.as_str())?;
            open(&file, &file)
        }
        _ => Ok(None),
    }
}

/// A new file that only its owner may read; false if it is there already.
fn make_secret(path: &Path, text: &str) -> Result<bool> {
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all())?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error).with_context(|| format!("{} cannot be made", path.display())),
    }
}

fn read_or_make_key(path: &Path) -> Result<Key> {
    if make_secret(path, &format!("{}\n", Key::new(rand::random()).to_hex()))? {
        tracing::info!(file = %path.display(), "made a new key: copy it to the machine with the volume's metadata");
    }
    let text = key_file::read(path)?;
    text.parse().with_context(|| format!("{} does not contain a key", path.display()))
}
