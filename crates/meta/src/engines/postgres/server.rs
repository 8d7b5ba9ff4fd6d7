//! Connections to the server: made, prepared, kept for the next.

use super::address::Address;
use super::sql;
use crate::engines::remote::failure::{Failure, TIMEOUT};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::AbortHandle;
use tokio_postgres::config::{LoadBalanceHosts, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::{AsyncMessage, CancelToken, Client, Config, NoTls, Notification, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;
use weft_env::Env;
use weft_env::sync::Mutex;

/// Idle connections that are kept; more are closed.
const IDLE_MAX: usize = 16;
/// Neither a connection nor a request is waited for longer; then another connection is tried.
pub(super) const REQUEST_MAX: Duration = Duration::from_secs(20);
/// How long a connection lives after its request was cancelled: by then the server has answered, or is away.
const FAREWELL: Duration = Duration::from_secs(1);
/// Who wants a connection waits so long for others to give theirs back.
const FULL_MAX: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The statements that a connection has prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum Sql {
    Get,
    Scan,
    Fetch,
    Commit,
    Settle,
    Displace,
    Attempt,
    Guard,
    GuardAlone,
    Hold,
    HoldToChange,
    HoldDirectories,
    HoldDirectoriesToChange,
    Absent,
    Range,
    Remove,
    Make,
    Set,
    Forget,
    Add,
    Lock,
    Take,
    WaitedFor,
    WaitedForAmong,
    WaitedForWithin,
    Heartbeat,
    Enter,
    Leave,
    Sessions,
    Sweep,
}

impl Sql {
    /// All of them, in the order of the numbers.
    const ALL: [Sql; 30] = [
        Sql::Get,
        Sql::Scan,
        Sql::Fetch,
        Sql::Commit,
        Sql::Settle,
        Sql::Displace,
        Sql::Attempt,
        Sql::Guard,
        Sql::GuardAlone,
        Sql::Hold,
        Sql::HoldToChange,
        Sql::HoldDirectories,
        Sql::HoldDirectoriesToChange,
        Sql::Absent,
        Sql::Range,
        Sql::Remove,
        Sql::Make,
        Sql::Set,
        Sql::Forget,
        Sql::Add,
        Sql::Lock,
        Sql::Take,
        Sql::WaitedFor,
        Sql::WaitedForAmong,
        Sql::WaitedForWithin,
        Sql::Heartbeat,
        Sql::Enter,
        Sql::Leave,
        Sql::Sessions,
        Sql::Sweep,
    ];

    fn text(self) -> String {
        match self {
            Sql::Get => sql::get(),
            Sql::Scan => sql::scan(),
            Sql::Fetch => sql::fetch(),
            Sql::Commit => sql::commit(),
            Sql::Settle => sql::SETTLE.into(),
            Sql::Displace => sql::DISPLACE.into(),
            Sql::Attempt => sql::ATTEMPT.into(),
            Sql::Guard => sql::guard(false),
            Sql::GuardAlone => sql::guard(true),
            Sql::Hold => sql::hold(false),
            Sql::HoldToChange => sql::hold(true),
            Sql::HoldDirectories => sql::hold_directories(false),
            Sql::HoldDirectoriesToChange => sql::hold_directories(true),
            Sql::Absent => sql::ABSENT.into(),
            Sql::Range => sql::RANGE.into(),
            Sql::Remove => sql::REMOVE.into(),
            Sql::Make => sql::MAKE.into(),
            Sql::Set => sql::SET.into(),
            Sql::Forget => sql::FORGET.into(),
            Sql::Add => sql::ADD.into(),
            Sql::Lock => sql::LOCK.into(),
            Sql::Take => sql::TAKE.into(),
            Sql::WaitedFor => sql::WAITED_FOR.into(),
            Sql::WaitedForAmong => sql::WAITED_FOR_AMONG.into(),
            Sql::WaitedForWithin => sql::WAITED_FOR_WITHIN.into(),
            Sql::Heartbeat => sql::HEARTBEAT.into(),
            Sql::Enter => sql::ENTER.into(),
            Sql::Leave => sql::LEAVE.into(),
            Sql::Sessions => sql::SESSIONS.into(),
            Sql::Sweep => sql::SWEEP.into(),
        }
    }
}

/// A connection, ready for every statement.
pub(super) struct Connection {
    pub client: Client,
    statements: Vec<Statement>,
    end: Box<End>,
}

impl Connection {
    pub fn of(&self, sql: Sql) -> &Statement {
        &self.statements[sql as usize]
    }
}

/// How a connection is ended that does not answer.
#[derive(Clone)]
struct End {
    cancel: CancelToken,
    served: AbortHandle,
}

/// What is done with notifications.
type Hear = Arc<dyn Fn(Notification) + Send + Sync>;

/// Moves a connection's requests and answers until it ends. Requests on it then fail with the reason.
async fn serve<S, T>(mut connection: tokio_postgres::Connection<S, T>, hear: Hear)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
        if let AsyncMessage::Notification(notification) = message {
            hear(notification);
        }
    }
}

/// The server of a store.
pub(super) struct Server {
    pub address: Address,
    tls: Option<MakeRustlsConnect>,
    idle: Mutex<Vec<Connection>>,
    pub env: Env,
}

impl Server {
    /// # Errors
    /// A clause: this machine trusts nobody.
    pub fn new(address: Address, env: &Env) -> Result<Self, String> {
        let tls = match address.config.get_ssl_mode() {
            SslMode::Disable => None,
            _ => Some(MakeRustlsConnect::new(tls_config()?)),
        };
        Ok(Self { address, tls, idle: Mutex::default(), env: env.clone() })
    }

    /// A connection without statements.
    pub async fn connect(&self) -> Result<Client, tokio_postgres::Error> {
        self.connect_and_hear(|_| ()).await
    }

    /// The same; what it is notified of goes to `hear`.
    pub async fn connect_and_hear(
        &self,
        hear: impl Fn(Notification) + Send + Sync + 'static,
    ) -> Result<Client, tokio_postgres::Error> {
        self.connect_and_serve(Arc::new(hear)).await.map(|(client, _)| client)
    }

    /// A server that has no connection left is asked again for some time: commands give theirs back when they are done.
    async fn connect_and_serve(&self, hear: Hear) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
        let (clock, mut pause) = (&self.env.clock, FIRST_PAUSE);
        let began = clock.now();
        loop {
            match self.try_to_connect(&hear).await {
                Err(error)
                    if error.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) && clock.elapsed(began) < FULL_MAX =>
                {
                    clock.sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                tried => return tried,
            }
        }
    }

    async fn try_to_connect(&self, hear: &Hear) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
        let mut servers: Vec<&Config> = self.address.servers.iter().collect();
        if self.address.config.get_load_balance_hosts() == LoadBalanceHosts::Random {
            servers.sort_by_cached_key(|_| self.env.rng.next_u64());
        }
        let mut last = None;
        for server in servers {
            match &self.tls {
                None => match server.connect(NoTls).await {
                    Ok((client, connection)) => {
                        return Ok((client, tokio::spawn(serve(connection, hear.clone())).abort_handle()));
                    }
                    Err(error) => last = Some(error),
                },
                Some(tls) => match server.connect(tls.clone()).await {
                    Ok((client, connection)) => {
                        return Ok((client, tokio::spawn(serve(connection, hear.clone())).abort_handle()));
                    }
                    Err(error) => last = Some(error),
                },
            }
        }
        Err(last.expect("an address names a server"))
    }

    async fn make(&self) -> Result<Connection, tokio_postgres::Error> {
        let (client, served) = self.connect_and_serve(Arc::new(|_| ())).await?;
        client.batch_execute(&sql::prepare(&self.address.schema)).await?;
        let texts: Vec<String> = Sql::ALL.into_iter().map(Sql::text).collect();
        let prepared = futures_util::future::try_join_all(texts.iter().map(|text| client.prepare(text)));
        let statements = prepared.await?;
        let end = Box::new(End { cancel: client.cancel_token(), served });
        Ok(Connection { client, statements, end })
    }

    /// Does something with a connection. What takes too long is given up, at the server as well: it would keep the connection for as long as
    /// it waits, as a commit does while no standby is there.
    ///
    /// # Errors
    /// [`Failure::Lost`]: it took too long.
    pub async fn with<T, W>(&self, connection: Connection, work: impl FnOnce(Connection) -> W) -> Result<T, Failure>
    where
        W: Future<Output = T>,
    {
        let end = connection.end.clone();
        let done = self.env.clock.timeout(REQUEST_MAX, work(connection)).await;
        done.map_err(|_| {
            self.give_up(*end);
            Failure::Lost("it does not answer".into())
        })
    }

    fn give_up(&self, End { cancel, served }: End) {
        let (clock, tls) = (self.env.clock.clone(), self.tls.clone());
        tokio::spawn(async move {
            let canceled = async {
                match tls {
                    None => cancel.cancel_query(NoTls).await,
                    Some(tls) => cancel.cancel_query(tls).await,
                }
            };
            if let Ok(Err(error)) = clock.timeout(REQUEST_MAX, canceled).await {
                tracing::debug!(%error, "the metadata server may go on with a request that was given up");
            }
            clock.sleep(FAREWELL).await;
            served.abort();
        });
    }

    /// One that nobody uses. Of an idle one it turns out when it is used whether it still stands.
    ///
    /// # Errors
    /// The server's, of one try.
    pub async fn connection(&self) -> Result<Connection, Failure> {
        loop {
            let idle = self.idle.lock().pop();
            match idle {
                Some(connection) if connection.client.is_closed() => {}
                Some(connection) => return Ok(connection),
                None => {
                    let made = self.env.clock.timeout(REQUEST_MAX, self.make()).await;
                    let made = made.map_err(|_| Failure::Lost("it does not answer".into()))?;
                    return made.map_err(|error| Failure::of(&error));
                }
            }
        }
    }

    /// It is in no transaction.
    pub fn put_back(&self, connection: Connection) {
        let mut idle = self.idle.lock();
        if idle.len() < IDLE_MAX && !connection.client.is_closed() {
            idle.push(connection);
        }
    }

    /// The same for work that leaves the connection free.
    ///
    /// # Errors
    /// Those of [`Self::persist`].
    pub async fn get<T, W>(&self, work: impl FnMut(Connection) -> W) -> Result<T, Failure>
    where
        W: Future<Output = (Connection, Result<T, Failure>)>,
    {
        let (connection, done) = self.persist(work).await?;
        self.put_back(connection);
        Ok(done)
    }

    /// Tries `work` with one connection after another until the server is there, for as long as [`TIMEOUT`].
    ///
    /// # Errors
    /// Those of the work but for a lost connection; that after the last try.
    pub async fn persist<T, W>(&self, mut work: impl FnMut(Connection) -> W) -> Result<(Connection, T), Failure>
    where
        W: Future<Output = (Connection, Result<T, Failure>)>,
    {
        let deadline = self.env.clock.now() + TIMEOUT;
        let mut pause = FIRST_PAUSE;
        loop {
            let lost = match self.connection().await {
                Ok(connection) => match self.with(connection, &mut work).await {
                    Ok((connection, Ok(done))) => return Ok((connection, done)),
                    Ok((connection, Err(failure))) if !matches!(failure, Failure::Lost(_)) => {
                        self.put_back(connection);
                        return Err(failure);
                    }
                    Ok((_, Err(Failure::Lost(why)))) | Err(Failure::Lost(why)) => why,
                    Ok((_, Err(failure))) | Err(failure) => return Err(failure),
                },
                Err(Failure::Lost(why)) => why,
                Err(failure) => return Err(failure),
            };
            if self.env.clock.now() + pause > deadline {
                return Err(Failure::Lost(lost));
            }
            tracing::debug!(store = %self.address.shown, %lost, "the metadata server is asked again");
            self.env.clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// Trusts what this machine trusts: the system's authorities, or those of `SSL_CERT_FILE`.
fn tls_config() -> Result<rustls::ClientConfig, String> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        return Err("this machine trusts no authority, so it cannot know the server: install ca-certificates, name a file by SSL_CERT_FILE, or add sslmode=disable to the address".into());
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    Ok(builder.map_err(|error| error.to_string())?.with_root_certificates(roots).with_no_client_auth())
}

/// One request, not yet sent.
pub(super) type Step<'c> = Pin<Box<dyn Future<Output = Result<(), tokio_postgres::Error>> + Send + 'c>>;

/// Sends all requests, in their order, and waits for all answers. The first failure, with its place.
pub(super) async fn together(steps: Vec<Step<'_>>) -> Result<(), (usize, tokio_postgres::Error)> {
    let mut steps: Vec<_> = steps.into_iter().map(futures_util::future::maybe_done).collect();
    std::future::poll_fn(|context| {
        let mut is_pending = false;
        for step in &mut steps {
            is_pending |= Pin::new(step).poll(context).is_pending();
        }
        if is_pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    for (place, step) in steps.iter_mut().enumerate() {
        if let Some(Err(error)) = Pin::new(step).take_output() {
            return Err((place, error));
        }
    }
    Ok(())
}

#[cfg(test)]
#[test]
fn statements_are_found_by_their_number() {
    for (number, sql) in Sql::ALL.into_iter().enumerate() {
        assert_eq!(sql as usize, number);
    }
}
