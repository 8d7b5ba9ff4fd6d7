//! `weft node serve PLACE`: our daemon, in the foreground until a signal ends it.

use crate::amount;
use crate::arguments::Bandwidth;
use crate::signals::Ending;
use anyhow::Result;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use weft_engine::objects::KeeperSettings;
use weft_engine::{DAEMON_PORT, Encryption, Env, ServeSettings, Serving};

/// Keepers that rebuild soon look around this often.
const PAUSE_MIN: Duration = Duration::from_millis(200);

/// How to serve.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  weft node serve /srv/disk --listen :7600 --key disk.key --tls
  weft node serve /srv/disk
  weft node serve /srv/disk --listen :7600 --key disk.key --tls --advertise 10.0.0.2:7600,10.1.0.2:7600
  weft node serve /srv/disk --listen :7600 --advertise me:7600 --plain --key disk.key --cluster-key all.key --objects --join nas:7600")]
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
    /// Address at which others reach this daemon, or several, one for each network card: users keep connections to all of them, and do
    /// without those that are down [default: the address it listens on]
    #[arg(long, value_name = "HOST:PORT", value_delimiter = ',')]
    advertise: Vec<String>,
    /// Failure domain to tell other daemons, outermost level first, as in site1/rack3/host7
    #[arg(long, value_name = "DOMAIN", default_value = "")]
    domain: String,
    /// Keep objects of the cluster (`weft object`) instead of a volume's shards, and look after them
    #[arg(long, requires = "cluster_key")]
    objects: bool,
    /// Rebuild shards of objects that are missing for this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 600, requires = "objects")]
    rebuild_after: u64,
    /// Remove what is left of an unfinished upload this many seconds after its last shard came
    #[arg(long, value_name = "SECONDS", default_value_t = 3600, requires = "objects")]
    leftover_grace: u64,
}

/// Serves a folder, a device or an image file, until a signal asks for the end.
pub fn serve(arguments: &Arguments) -> Result<()> {
    weft_engine::runtime()?.block_on(async {
        let mut ending = Ending::catch()?;
        let serving = Serving::open(settings(arguments), &Env::system()).await?;
        let what = match serving.identity() {
            Some(identity) => format!("node {} of volume {}", identity.node, identity.volume),
            None => "not a node yet: add it with `weft node add META NAME` and this address".to_owned(),
        };
        println!("Serving {} at {} ({what})", serving.place(), serving.url());
        std::io::stdout().flush()?;
        let stop = async {
            ending.asked().await;
            tracing::info!("received a signal: finishing the requests in progress");
        };
        serving.run(stop).await;
        Ok(())
    })
}

fn settings(arguments: &Arguments) -> ServeSettings {
    let Arguments { place, listen, key, short_circuit, open_metrics, join, cluster_key, advertise, domain, .. } =
        arguments.clone();
    let encryption = match (&arguments.cert, &arguments.cert_key) {
        (Some(chain), Some(key)) => Encryption::Certificate { chain: chain.clone(), key: key.clone() },
        _ if arguments.tls => Encryption::Own,
        _ if arguments.plain => Encryption::Plain,
        _ => Encryption::Unsaid,
    };
    let bytes_per_second = arguments.bandwidth.bwlimit;
    let objects = arguments.objects.then(|| KeeperSettings {
        rebuild_after: Duration::from_secs(arguments.rebuild_after),
        leftover_grace: Duration::from_secs(arguments.leftover_grace),
        // What is waited for is looked at several times meanwhile.
        pause: KeeperSettings::default().pause.min(Duration::from_secs(arguments.rebuild_after) / 4).max(PAUSE_MIN),
        ..KeeperSettings::default()
    });
    ServeSettings {
        place,
        listen,
        key,
        encryption,
        bytes_per_second,
        short_circuit,
        open_metrics,
        join,
        cluster_key,
        advertise,
        domain,
        objects,
    }
}
