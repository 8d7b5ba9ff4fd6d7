//! `weft node serve PLACE`: our daemon, in the foreground until a signal ends it.

use crate::compose;
use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use weft_nodes::{Daemon, Key, NodeUrl};

/// Serves a folder, a device or an image file at `listen`, until SIGTERM or SIGINT.
pub fn serve(place: &str, listen: SocketAddr, key_file: Option<&Path>) -> Result<()> {
    let place: NodeUrl = place.parse()?;
    let key = key_file.map(read_or_make_key).transpose()?;
    if key.is_none() && !listen.ip().is_loopback() {
        bail!(
            "{listen} can be reached by others: give --key FILE (made if it is not there), or listen on 127.0.0.1:{}",
            listen.port()
        );
    }
    let daemon = Daemon::open(place.clone(), key)?;
    compose::runtime()?.block_on(async {
        let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        let listener = TcpListener::bind(listen).await.with_context(|| format!("cannot listen on {listen}"))?;
        let address = listener.local_addr()?;
        let what = match daemon.identity() {
            Some(identity) => format!("node {} of volume {}", identity.node, identity.volume),
            None => "no node yet: add it with `weft node add META NAME` and this address".to_owned(),
        };
        println!("Serving {place} at weft://{address} ({what})");
        std::io::stdout().flush()?;
        let stop = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("a signal asks for the end: finishing what is under way");
        };
        Arc::new(daemon).serve(listener, stop).await;
        Ok(())
    })
}

/// The key in a file that only its owner may read.
pub fn read_key(path: &Path) -> Result<Key> {
    let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
    let mode = file.metadata()?.mode();
    if mode & 0o077 != 0 {
        bail!("{} can be read by others: chmod 600 {0}", path.display());
    }
    // A key has 64 digits and perhaps a line end; whatever is longer is none.
    let mut text = String::new();
    let read = file.take(100).read_to_string(&mut text);
    read.map_err(anyhow::Error::from)
        .and_then(|_| Ok(text.parse()?))
        .with_context(|| format!("{} holds no key", path.display()))
}

fn read_or_make_key(path: &Path) -> Result<Key> {
    let key = Key::new(rand::random());
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(mut file) => {
            writeln!(file, "{}", key.to_hex())?;
            file.sync_all()?;
            tracing::info!(file = %path.display(), "a new key: copy it to where the volume's metadata is");
            Ok(key)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => read_key(path),
        Err(error) => Err(error).with_context(|| format!("{} cannot be made", path.display())),
    }
}
