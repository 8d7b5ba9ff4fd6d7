//! What other processes change: each announces it by the server's notifications, and listens on a connection of its own.
//!
//! What was committed within some milliseconds is announced together, by a transaction that is not waited for: the server lets commits
//! with a notification through one at a time, and each would wait for the disk. A server without notifications, or a pooler in between, makes
//! a feed that says nothing.

use super::Engine;
use super::server::REQUEST_MAX;
use crate::engines::remote::failure::Failure;
use crate::engines::remote::place::SIGN_EVERY;
use crate::kv::{Batch, ChangedKeys};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::unbounded_channel;
use weft_env::sync::{Mutex, Sender};

/// Changes within this time are announced together.
const GATHERING: Duration = Duration::from_millis(10);
/// After the connection was lost.
const PAUSE: Duration = Duration::from_secs(1);
/// The server takes less than 8,000 bytes.
const NOTIFICATION_BYTES_MAX: usize = 7_900;

/// Keys that this process has changed and not announced.
#[derive(Default)]
pub(super) struct Announcements {
    /// Of these tables; without them there is no feed.
    tables: OnceLock<&'static [u8]>,
    keys: Mutex<BTreeSet<Vec<u8>>>,
    are_there: Notify,
}

impl Announcements {
    /// False: it has begun before.
    pub fn begin(&self, tables: &'static [u8]) -> bool {
        self.tables.set(tables).is_ok()
    }

    /// What of a batch is to be announced.
    pub fn of(&self, batch: &Batch) -> ChangedKeys {
        self.tables.get().map(|tables| batch.changed_in(tables)).unwrap_or_default()
    }

    /// It is committed.
    pub fn note(&self, keys: ChangedKeys) {
        if !keys.is_empty() {
            self.keys.lock().extend(keys);
            self.are_there.notify_one();
        }
    }
}

/// Announces what is committed until the store is closed.
pub(super) async fn announce(engine: Arc<Engine>) {
    loop {
        tokio::select! {
            () = engine.announcements.are_there.notified() => {}
            () = engine.closing.notified() => {}
        }
        if engine.is_closed.load(Ordering::Acquire) {
            return;
        }
        engine.server.env.clock.sleep(GATHERING).await;
        if let Err(failure) = engine.announce().await {
            tracing::debug!(?failure, "changes are not announced; others find out by time");
        }
    }
}

/// Listens until the store is closed, or nobody wants to know any more.
pub(super) async fn listen(engine: Arc<Engine>, heard: Sender<ChangedKeys>) {
    while !engine.is_closed.load(Ordering::Acquire) {
        match engine.listen(&heard).await {
            Ok(()) => return,
            Err(failure) => tracing::debug!(?failure, "changes of others are not heard; they show by time"),
        }
        tokio::select! {
            () = engine.server.env.clock.sleep(PAUSE) => {}
            () = engine.closing.notified() => {}
        }
    }
}

impl Engine {
    /// Announces what waits for it. What fails is not announced again.
    pub(super) async fn announce(&self) -> Result<(), Failure> {
        let keys = std::mem::take(&mut *self.announcements.keys.lock());
        if keys.is_empty() {
            return Ok(());
        }
        let session = self.session().await?;
        let mut request = "SELECT set_config('synchronous_commit', 'off', true)".to_owned();
        for notification in notifications(session, keys) {
            // Neither has a quote in it.
            request.push_str(&format!("; NOTIFY {}, '{notification}'", self.server.address.schema));
        }
        let connection = self.server.connection().await?;
        let announced = self.server.with(connection, async |connection| {
            let announced = connection.client.batch_execute(&request).await;
            announced.map(|()| connection).map_err(|error| Failure::of(&error))
        });
        self.server.put_back(announced.await??);
        Ok(())
    }

    /// Until nobody wants to know any more.
    async fn listen(&self, heard: &Sender<ChangedKeys>) -> Result<(), Failure> {
        let (own, clock) = (self.session().await?, &self.server.env.clock);
        let (tell, mut told) = unbounded_channel();
        let connected = self.server.connect_and_hear(move |notification| {
            // It may come when nobody listens any more.
            let _ = tell.send(notification.payload().to_owned());
        });
        let silent = |_| Failure::Lost("it does not answer".into());
        let client =
            clock.timeout(REQUEST_MAX, connected).await.map_err(silent)?.map_err(|error| Failure::of(&error))?;
        // The later ones are empty: an answer says that the connection still stands.
        let mut request = format!("LISTEN {}", self.server.address.schema);
        while !self.is_closed.load(Ordering::Acquire) {
            let answered = clock.timeout(REQUEST_MAX, client.batch_execute(&request)).await.map_err(silent)?;
            answered.map_err(|error| Failure::of(&error))?;
            request.clear();
            let mut sign = clock.sleep(SIGN_EVERY);
            loop {
                let payload = tokio::select! {
                    payload = told.recv() => payload.ok_or_else(|| Failure::Lost("it ended the connection".into()))?,
                    () = &mut sign => break,
                    () = self.closing.notified() => return Ok(()),
                };
                let keys = keys_of(&payload).filter(|(session, _)| *session != own);
                if let Some((_, keys)) = keys
                    && heard.send(keys).is_err()
                {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// Texts of notifications: the session, then each key in hexadecimal, with spaces between.
pub(super) fn notifications(session: i64, keys: BTreeSet<Vec<u8>>) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for key in keys {
        let has_room = |text: &&mut String| text.len() + 1 + 2 * key.len() <= NOTIFICATION_BYTES_MAX;
        if texts.last_mut().filter(has_room).is_none() {
            texts.push(session.to_string());
        }
        let text = texts.last_mut().expect("one was pushed");
        text.push(' ');
        text.extend(key.iter().map(|byte| format!("{byte:02x}")));
    }
    texts
}

/// The session and keys of a notification; `None`: it is another program's.
pub(super) fn keys_of(notification: &str) -> Option<(i64, ChangedKeys)> {
    let mut words = notification.split(' ');
    let session = words.next()?.parse().ok()?;
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |pair: &[u8]| match *pair {
        [high, low] => u8::try_from(digit(high)? << 4 | digit(low)?).ok(),
        _ => None,
    };
    let key = |word: &str| word.as_bytes().chunks(2).map(byte).collect::<Option<Vec<u8>>>();
    Some((session, words.map(key).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notifications_say_which_keys_in_as_little_as_the_server_takes() {
        let keys: BTreeSet<Vec<u8>> = (0..200u8).map(|byte| vec![byte; 260]).collect();
        let texts = notifications(-7, keys.clone());
        assert!(texts.len() > 1 && texts.iter().all(|text| text.len() <= NOTIFICATION_BYTES_MAX));
        let found: Vec<_> = texts.iter().map(|text| keys_of(text).unwrap()).collect();
        assert!(found.iter().all(|(session, _)| *session == -7));
        assert_eq!(found.into_iter().flat_map(|(_, keys)| keys).collect::<BTreeSet<_>>(), keys);
    }

    #[test]
    fn notifications_of_other_programs_are_none() {
        for text in ["", "job 17", "5 0g", "5 abc", "5 +1", "{\"a\": 1}"] {
            assert_eq!(keys_of(text), None, "{text:?}");
        }
        assert_eq!(keys_of("5"), Some((5, Vec::new())));
    }
}
