//! A place of this machine, served to users elsewhere: `weft node serve`.

use crate::key_file::{self, KeyFileError};
use crate::object_member::{Access, Heard, Own, store_of};
use parking_lot::Mutex;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use weft_daemon::{Cables, Certificate, Daemon, DaemonUrl, GossipSettings, Key, LINKS_MAX, TlsError, Trust};
use weft_env::{Env, Rng};
use weft_format::{NodeId, VolumeId};
use weft_nodes::{NodeError, NodeErrorKind, NodeIdentity, NodeUrl, UrlError};
use weft_objects::{Host, Keeper, KeeperSettings};

/// How to serve a place.
#[derive(Debug)]
pub struct ServeSettings {
    /// A folder, a device or an image file, as a path or a URL.
    pub place: String,
    /// Where to listen; port 0 is any free port.
    pub listen: SocketAddr,
    /// File with the key that users must have, made if it is missing.
    pub key: Option<PathBuf>,
    /// Can others read the traffic?
    pub encryption: Encryption,
    /// Bytes a second, sent and received.
    pub bytes_per_second: Option<NonZeroU64>,
    /// Users on this machine may read shard files directly.
    pub short_circuit: bool,
    /// Metrics for this machine without a signature.
    pub open_metrics: bool,
    /// Daemons to ask for all others: `HOST:PORT` or URLs.
    pub join: Vec<String>,
    /// File with the key that all daemons of the cluster share, made if it is missing; `None`: the node's key.
    pub cluster_key: Option<PathBuf>,
    /// Where others reach this daemon, `HOST:PORT`, one for each of its links; empty: where it listens.
    pub advertise: Vec<String>,
    /// Failure domain, outermost level first.
    pub domain: String,
    /// Keep objects of the cluster, and how to look after them; `None`: the place is for a volume.
    pub objects: Option<KeeperSettings>,
}

/// The protection of the traffic.
#[derive(Debug, PartialEq, Eq)]
pub enum Encryption {
    /// TLS with a certificate in `FILE.tls` beside the key file, made if it is missing.
    Own,
    /// TLS with this certificate.
    Certificate {
        /// The certificate and its chain, PEM.
        chain: PathBuf,
        /// Its key, PEM.
        key: PathBuf,
    },
    /// None, which is an error where others can reach the daemon.
    Unsaid,
    /// None, as its owner says.
    Plain,
}

/// Why a place cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// Everybody could read and write.
    #[error("{0} can be reached by other machines: give --key FILE (made if missing), or listen on 127.0.0.1:{port}", port = .0.port())]
    NoKey(SocketAddr),
    /// Everybody could listen.
    #[error(
        "{0} can be reached by other machines, which could read the data on the network: give --tls, or --plain if they may"
    )]
    Readable(SocketAddr),
    /// Others would be told an address of no use.
    #[error(
        "{0} is not an address that other daemons can use: give --advertise HOST:PORT, where they reach this machine"
    )]
    NoAddress(SocketAddr),
    /// One link is one address.
    #[error("--advertise has {0} twice: give each address once")]
    AdvertisedTwice(String),
    /// Users probe all of them together.
    #[error("--advertise has {count} addresses, and a daemon has {LINKS_MAX} links at most: leave some out")]
    TooManyAddresses {
        /// How many there are.
        count: usize,
    },
    /// Members know each other by the cluster's key.
    #[error("objects need the key of their cluster: give --cluster-key FILE (made if missing)")]
    NoClusterKey,
    /// It has shards of something else.
    #[error(
        "{place} is a node of volume {volume}, and objects of this cluster are not kept there: give another place, or the right cluster key"
    )]
    OtherVolume {
        /// The place.
        place: String,
        /// What it belongs to.
        volume: VolumeId,
    },
    /// A text that names no daemon.
    #[error("`{text}` is not a daemon: give HOST:PORT, or the address that the daemon prints when it starts")]
    NoDaemon {
        /// The text.
        text: String,
        /// Why not.
        source: UrlError,
    },
    /// The place's text.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// The place.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// A certificate.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A key file.
    #[error(transparent)]
    KeyFile(#[from] KeyFileError),
    /// A file that holds something else.
    #[error("{} does not contain a key", .0.display())]
    NotAKey(PathBuf),
    /// A file for a new key or certificate.
    #[error("{} cannot be made", path.display())]
    Unmade {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {listen}")]
    Listen {
        /// The address.
        listen: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
}

/// A daemon that listens.
pub struct Serving {
    daemon: Daemon,
    listener: TcpListener,
    place: NodeUrl,
    url: DaemonUrl,
    /// None unless it keeps objects.
    member: Option<Member>,
    env: Env,
}

/// What a member of an object store needs beside its daemon.
struct Member {
    host: Arc<Host>,
    key: Key,
    settings: KeeperSettings,
}

impl Serving {
    /// Opens the place and listens. No request is answered before [`Self::run`].
    ///
    /// # Errors
    /// [`ServeError`].
    pub async fn open(settings: ServeSettings, env: &Env) -> Result<Self, ServeError> {
        let kinds = crate::kinds();
        let (place, listen) = (kinds.parse(&settings.place)?, settings.listen);
        refuse_the_unprotected(&settings)?;
        let make_key = |file: &PathBuf| read_or_make_key(file, &*env.rng);
        let key = settings.key.as_ref().map(make_key).transpose()?;
        if settings.objects.is_some() && settings.cluster_key.is_none() {
            return Err(ServeError::NoClusterKey);
        }
        let cluster_key = match &settings.cluster_key {
            Some(file) => Some(make_key(file)?),
            None => key.clone(),
        };
        let join = settings.join.iter().map(|text| daemon_url(text)).collect::<Result<Vec<_>, _>>()?;
        let is_heard = !join.is_empty() || settings.objects.is_some();
        if listen.ip().is_unspecified() && settings.advertise.is_empty() && is_heard {
            return Err(ServeError::NoAddress(listen));
        }
        let certificate = certificate(&settings)?;
        let mut daemon = Daemon::open(kinds, place.clone(), key, env)?;
        if let Some(certificate) = &certificate {
            daemon = daemon.with_tls(certificate)?;
        }
        if let Some(bytes_per_second) = settings.bytes_per_second {
            daemon = daemon.with_bytes_per_second(bytes_per_second);
        }
        if settings.short_circuit {
            daemon = daemon.with_short_circuit();
        }
        if settings.open_metrics {
            daemon = daemon.with_open_metrics();
        }
        let failed = |source| ServeError::Listen { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let tls = certificate.as_ref().map(|certificate| match settings.encryption {
            Encryption::Own => Trust::Certificate(certificate.fingerprint()),
            _ => Trust::System,
        });
        let url = DaemonUrl { authority: address.to_string(), tls };
        // Without an address that others could use it has nothing to tell.
        if !settings.advertise.is_empty() || !address.ip().is_unspecified() {
            let mut advertised = advertised(&settings.advertise)?.into_iter();
            let own = match advertised.next() {
                Some(authority) => DaemonUrl { authority, tls: url.tls.clone() },
                None => url.clone(),
            };
            let (key, further, domain) = (cluster_key.clone(), advertised.collect(), settings.domain);
            daemon = daemon.with_gossip(GossipSettings { key, own, further, join, domain });
        }
        let mut member = None;
        if let (Some(keeper), Some(key)) = (settings.objects, cluster_key) {
            let host = become_member(&daemon, &place, &key, env).await?;
            daemon = daemon.with_objects(host.node(), Arc::new(Own(Arc::clone(&host))));
            member = Some(Member { host, key, settings: keeper });
        }
        Ok(Self { daemon, listener, place, url, member, env: env.clone() })
    }

    /// The place that is served.
    #[must_use]
    pub fn place(&self) -> &NodeUrl {
        &self.place
    }

    /// Where users reach it.
    #[must_use]
    pub fn url(&self) -> &DaemonUrl {
        &self.url
    }

    /// Which node it is; `None`: none yet.
    #[must_use]
    pub fn identity(&self) -> Option<NodeIdentity> {
        self.daemon.identity()
    }

    /// Serves until `stop` is over and all requests have ended.
    pub async fn run(self, stop: impl Future<Output = ()>) {
        let daemon = Arc::new(self.daemon);
        let keeping = self.member.map(|Member { host, key, settings }| {
            let (daemon, env) = (Arc::downgrade(&daemon), self.env.clone());
            let access = Access { key, grant: None };
            let heard = Arc::new(Heard {
                daemon,
                host: Arc::clone(&host),
                access,
                cables: Cables::default(),
                env,
                asked: Mutex::default(),
            });
            let keeper = Keeper::new(host, heard, settings, &self.env, tokio::runtime::Handle::current());
            tokio::spawn(keeper.run())
        });
        daemon.serve(self.listener, stop).await;
        if let Some(keeping) = keeping {
            keeping.abort();
        }
    }
}

/// Makes the place a member of the cluster's store, unless it is one.
async fn become_member(daemon: &Daemon, place: &NodeUrl, key: &Key, env: &Env) -> Result<Arc<Host>, ServeError> {
    let volume = store_of(key);
    let new = || NodeIdentity { volume, node: NodeId(env.rng.next_u128()) };
    let identity = daemon.identity().unwrap_or_else(new);
    if identity.volume != volume {
        return Err(ServeError::OtherVolume { place: place.to_string(), volume: identity.volume });
    }
    daemon.become_node(identity).await?;
    let none = || NodeError::new(NodeErrorKind::Unavailable, &place.to_string(), "it is no node");
    let node = daemon.node().ok_or_else(none)?;
    Ok(Host::open(identity, &place.to_string(), node).await?)
}

fn refuse_the_unprotected(settings: &ServeSettings) -> Result<(), ServeError> {
    let listen = settings.listen;
    if listen.ip().is_loopback() {
        Ok(())
    } else if settings.key.is_none() {
        Err(ServeError::NoKey(listen))
    } else if settings.encryption == Encryption::Unsaid {
        Err(ServeError::Readable(listen))
    } else {
        Ok(())
    }
}

/// Host and port of each link of a daemon.
fn advertised(texts: &[String]) -> Result<Vec<String>, ServeError> {
    if texts.len() > LINKS_MAX {
        return Err(ServeError::TooManyAddresses { count: texts.len() });
    }
    let mut known = Vec::new();
    for text in texts {
        let DaemonUrl { authority, .. } = daemon_url(text)?;
        if known.contains(&authority) {
            return Err(ServeError::AdvertisedTwice(authority));
        }
        known.push(authority);
    }
    Ok(known)
}

/// A daemon's address, as it says it or as host and port alone.
pub(crate) fn daemon_url(text: &str) -> Result<DaemonUrl, ServeError> {
    let url = if text.contains("://") { text.to_owned() } else { format!("weft://{text}") };
    url.parse().map_err(|source| ServeError::NoDaemon { text: text.to_owned(), source })
}

/// Its certificate, if it is to use TLS.
fn certificate(settings: &ServeSettings) -> Result<Option<Certificate>, ServeError> {
    let open = |chain: &Path, key: &Path| {
        key_file::refuse_public(key)?;
        Ok(Some(Certificate::open(chain, key)?))
    };
    match (&settings.encryption, &settings.key) {
        (Encryption::Certificate { chain, key }, _) => open(chain, key),
        (Encryption::Own, Some(key)) => {
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
fn make_secret(path: &Path, text: &str) -> Result<bool, ServeError> {
    let failed = |source| ServeError::Unmade { path: path.to_owned(), source };
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

fn read_or_make_key(path: &Path, rng: &dyn Rng) -> Result<Key, ServeError> {
    if make_secret(path, &format!("{}\n", Key::new(rng.bytes()).to_hex()))? {
        tracing::info!(file = %path.display(), "made a new key: copy it to the machine with the volume's metadata");
    }
    read_key(path)
}

/// The key that a file holds.
pub(crate) fn read_key(path: &Path) -> Result<Key, ServeError> {
    key_file::read(path)?.parse().map_err(|_| ServeError::NotAKey(path.to_owned()))
}
