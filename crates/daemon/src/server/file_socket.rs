//! The socket that hands open files of shards to users on the same machine (`short_circuit.rs`).

use super::Daemon;
use crate::short_circuit::{address, closed, give, receive, refuse, socket_name};
use crate::wire::ShortCircuitBody;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use weft_env::Rng;
use weft_format::ShardKey;

/// Connections at once: one a user, and one for each file being handed over. More are closed.
const CONNECTIONS_MAX: usize = 256;

/// A request comes in so long.
const DEADLINE: Duration = Duration::from_secs(1);

/// The socket's name and the ticket, made anew by each daemon.
pub(super) struct FileSocket {
    socket: String,
    ticket: blake3::Hash,
}

impl FileSocket {
    pub(super) fn new(rng: &dyn Rng) -> Self {
        Self { socket: socket_name(rng.next_u128()), ticket: blake3::Hash::from_bytes(rng.bytes()) }
    }

    /// What a user of the node is told.
    pub(super) fn terms(&self) -> ShortCircuitBody {
        ShortCircuitBody { socket: self.socket.clone(), ticket: self.ticket.to_string() }
    }

    /// What is asked for, by whoever has the ticket.
    fn admit<'a>(&self, request: &'a str) -> Option<&'a str> {
        let (ticket, what) = request.split_at_checked(2 * blake3::OUT_LEN)?;
        // Comparing hashes takes constant time.
        (blake3::Hash::from_hex(ticket).ok()? == self.ticket).then_some(what)
    }
}

impl Daemon {
    /// The socket, if it is asked for, the place has files, and they may be read past the daemon. With a limit of bytes a second they may not.
    pub(super) fn file_socket(&self) -> Option<&FileSocket> {
        let may_be_read = self.place.files().is_some() && !self.room.is_limited();
        self.file_socket.as_ref().filter(|_| may_be_read)
    }

    /// Hands over files until it is dropped.
    pub(super) async fn serve_files(self: Arc<Self>) {
        let Some(file_socket) = self.file_socket() else { return };
        let listener = match UnixListener::bind(address(&file_socket.socket)) {
            Ok(listener) => listener,
            Err(error) => {
                tracing::warn!(node = self.name, "short-circuit reads are off, and all bytes are sent: {error}");
                return;
            }
        };
        let mut serving_files = JoinSet::new();
        loop {
            while serving_files.try_join_next().is_some() {}
            match listener.accept().await {
                Ok(_) if serving_files.len() >= CONNECTIONS_MAX => {}
                Ok((stream, _)) => {
                    let daemon = Arc::clone(&self);
                    serving_files.spawn(async move {
                        if daemon.give_file(&stream).await.unwrap_or(false) {
                            // Without the daemon, which may have to end: that is what is waited for, or that the user goes.
                            drop(daemon);
                            closed(&stream).await;
                        }
                    });
                }
                // Out of descriptors, most likely; trying at once would only burn time.
                Err(_) => self.env.clock.sleep(Duration::from_millis(100)).await,
            }
        }
    }

    /// Answers one request; is who asked to be told when the daemon ends?
    async fn give_file(&self, stream: &UnixStream) -> io::Result<bool> {
        // Users may go, or be stopped, as they like.
        let Ok(Some(request)) = self.env.clock.timeout(DEADLINE, receive(stream)).await else { return Ok(false) };
        let Some(what) = self.file_socket().and_then(|file_socket| file_socket.admit(&request)) else {
            tracing::warn!(node = self.name, "refused: somebody on this machine asks for files without the ticket");
            return refuse(stream).await.map(|()| false);
        };
        if what.is_empty() {
            return give(stream, None).await.map(|()| true);
        }
        let file = match (what.parse::<ShardKey>(), self.served()) {
            (Ok(key), Some((_, node))) => node.open_file(key).await,
            _ => None,
        };
        match file {
            Some(file) => {
                self.metrics.short_circuited();
                give(stream, Some(&file)).await?;
            }
            None => refuse(stream).await?,
        }
        Ok(false)
    }
}

/// What a connection to the socket sends; with the right ticket where the first byte is odd.
#[cfg(feature = "fuzzing")]
pub(crate) async fn check_request(bytes: &[u8]) {
    let Some((flags, rest)) = bytes.split_first() else { return };
    let own = FileSocket::new(&weft_env::SeededRng::new(1));
    let ticket = if flags % 2 == 1 { own.terms().ticket } else { String::new() };
    let sent = [ticket.as_bytes(), rest].concat();
    let Ok((mut user, served)) = UnixStream::pair() else { return };
    let sending = async move {
        // It may have been refused before all of it was sent.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut user, &sent).await;
        drop(user);
        sent
    };
    let (sent, request) = tokio::join!(sending, receive(&served));
    let Some(request) = request else { return };
    assert!(sent.starts_with(request.as_bytes()), "it is what was sent");
    let what = own.admit(&request);
    assert_eq!(what.is_some(), flags % 2 == 1, "nobody guesses the ticket");
    if let Some((what, key)) = what.and_then(|what| Some((what, what.parse::<ShardKey>().ok()?))) {
        assert_eq!(key.to_string(), what);
    }
}

#[cfg(feature = "fuzzing")]
pub(crate) fn request_seed(key: ShardKey) -> Vec<u8> {
    format!("\x01{key}\n").into_bytes()
}
