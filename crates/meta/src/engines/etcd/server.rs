//! Requests to the members of the cluster: one is asked until it fails, then the next.

use super::address::Address;
use super::protocol::{
    Compaction, Done, Found, Grant, Granted, Lease, Login, Outcome, Range, Token, Transaction, Watch, WatchRange,
    Watched,
};
use crate::engines::remote::failure::{Failure, TIMEOUT};
use futures_util::{StreamExt, stream};
use http::uri::PathAndQuery;
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request, Status, Streaming};
use tonic_prost::ProstCodec;
use weft_env::Env;
use weft_env::sync::Mutex;

/// No answer is waited for longer; then another member is asked.
const REQUEST_MAX: Duration = Duration::from_secs(5);
/// Who opens a store waits so long for its servers, as for the choice of a leader.
pub(super) const OPENING: Duration = Duration::from_secs(5);
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// A member that is cut off is noticed after so long, also in the middle of a request.
const SILENCE: Duration = Duration::from_secs(3);
/// A sign of life reaches another member before the lease is over.
const SIGN_TIMEOUT: Duration = Duration::from_secs(8);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// An answer has at most some hundred values, of which each is below a request's limit.
const ANSWER_BYTES_MAX: usize = 512 << 20;

const TRANSACT: &str = "/etcdserverpb.KV/Txn";
const ASK: &str = "/etcdserverpb.KV/Range";
const COMPACT: &str = "/etcdserverpb.KV/Compact";
const GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
const REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
const KEEP_ALIVE: &str = "/etcdserverpb.Lease/LeaseKeepAlive";
const TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
const WATCH: &str = "/etcdserverpb.Watch/Watch";
const LOG_IN: &str = "/etcdserverpb.Auth/Authenticate";

/// The cluster of a store.
pub(super) struct Server {
    pub address: Address,
    pub env: Env,
    /// Which member is asked.
    current: AtomicUsize,
    channels: Vec<Mutex<Option<Channel>>>,
    /// Of the user that the address names.
    token: Mutex<Option<String>>,
}

impl Server {
    pub fn new(address: Address, env: &Env) -> Self {
        let channels = address.members.iter().map(|_| Mutex::default()).collect();
        Self { address, env: env.clone(), current: AtomicUsize::new(0), channels, token: Mutex::default() }
    }

    fn channel(&self, member: usize) -> Result<Channel, Failure> {
        let mut channel = self.channels[member].lock();
        if let Some(channel) = &*channel {
            return Ok(channel.clone());
        }
        let failed = |error: tonic::transport::Error| Failure::Failed(sentence(&error));
        let mut endpoint = Endpoint::from_shared(self.address.members[member].clone()).map_err(failed)?;
        if self.address.has_tls {
            endpoint = endpoint.tls_config(ClientTlsConfig::new().with_native_roots()).map_err(failed)?;
        }
        let endpoint = endpoint
            .connect_timeout(CONNECT_MAX)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(SILENCE)
            .keep_alive_timeout(SILENCE);
        Ok(channel.insert(endpoint.connect_lazy()).clone())
    }

    async fn client(&self, member: usize) -> Result<Grpc<Channel>, Failure> {
        let mut client = Grpc::new(self.channel(member)?).max_decoding_message_size(ANSWER_BYTES_MAX);
        client.ready().await.map_err(|error| Failure::Lost(sentence(&error)))?;
        Ok(client)
    }

    /// A request of the user that the address names.
    fn signed<Q>(&self, message: Q) -> Request<Q> {
        let mut request = Request::new(message);
        if let Some(token) = &*self.token.lock()
            && let Ok(token) = MetadataValue::try_from(token)
        {
            request.metadata_mut().insert("token", token);
        }
        request
    }

    /// What changes in these ranges from now on, as one member sees it, for as long as it has a leader.
    ///
    /// # Errors
    /// Those of one try.
    pub async fn watch(&self, ranges: Vec<WatchRange>) -> Result<Streaming<Watched>, Failure> {
        let member = self.current.load(Ordering::Relaxed);
        let watched = async {
            let mut client = self.client(member).await?;
            let watches = ranges.into_iter().map(|range| Watch { create: Some(range) });
            // The stream that asks stays open as long as it is answered.
            let mut request = self.signed(stream::iter(watches).chain(stream::pending()));
            request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
            let codec = ProstCodec::<Watch, Watched>::default();
            let answers = client.streaming(request, PathAndQuery::from_static(WATCH), codec).await;
            answers.map(tonic::Response::into_inner).map_err(|status| Failure::of_status(&status))
        };
        let silent = || Failure::Lost("it does not answer".into());
        let watched = self.env.clock.timeout(REQUEST_MAX, watched).await.map_err(|_| silent()).flatten();
        if matches!(watched, Err(Failure::Lost(_))) {
            self.go_on_from(member);
        }
        watched
    }

    /// The next member is asked from now on.
    fn go_on_from(&self, member: usize) {
        let next = (member + 1) % self.address.members.len();
        // Another request may have gone on meanwhile.
        let _ = self.current.compare_exchange(member, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Asks one member once.
    async fn call<Q, A>(&self, member: usize, path: &'static str, message: Q) -> Result<A, Failure>
    where
        Q: Message + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let asked = async {
            let mut client = self.client(member).await?;
            let request = self.signed(message);
            let path = PathAndQuery::from_static(path);
            let answer = client.unary(request, path, ProstCodec::<Q, A>::default()).await;
            answer.map(tonic::Response::into_inner).map_err(|status| Failure::of_status(&status))
        };
        let silent = || Failure::Lost("it does not answer".into());
        self.env.clock.timeout(REQUEST_MAX, asked).await.map_err(|_| silent())?
    }

    /// Logs in, if the address names a user.
    async fn log_in(&self, member: usize) -> Result<(), Failure> {
        let Some(name) = self.address.user.clone() else {
            return Err(Failure::Failed(
                "its servers want a user; write etcd://USER@HOST/NAME, and give the password by ETCDCTL_PASSWORD"
                    .into(),
            ));
        };
        let password = std::env::var("ETCDCTL_PASSWORD").unwrap_or_default();
        let answer: Token = self.call(member, LOG_IN, Login { name, password }).await?;
        *self.token.lock() = Some(answer.token);
        Ok(())
    }

    /// Asks a member, after it let this user in.
    async fn ask_member<Q, A>(&self, member: usize, path: &'static str, message: &Q) -> Result<A, Failure>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        if self.address.user.is_some() && self.token.lock().is_none() {
            self.log_in(member).await?;
        }
        match self.call(member, path, message.clone()).await {
            Err(Failure::Failed(why)) if why == LOG_IN_FIRST => {
                self.log_in(member).await?;
                self.call(member, path, message.clone()).await
            }
            answer => answer,
        }
    }

    /// Asks one member after another until one answers, for as long as `timeout`.
    async fn persist<Q, A>(&self, path: &'static str, message: Q, timeout: Duration) -> Result<A, Failure>
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        self.persist_told(path, message, timeout).await.0
    }

    /// The same; true: a copy of the request got no answer, and may still be on its way.
    async fn persist_told<Q, A>(&self, path: &'static str, message: Q, timeout: Duration) -> (Result<A, Failure>, bool)
    where
        Q: Message + Clone + Send + Sync + 'static,
        A: Message + Default + Send + Sync + 'static,
    {
        let deadline = self.env.clock.now() + timeout;
        let (mut pause, mut was_lost) = (FIRST_PAUSE, false);
        loop {
            let member = self.current.load(Ordering::Relaxed);
            let lost = match self.ask_member(member, path, &message).await {
                Err(Failure::Lost(why)) => why,
                answer => return (answer, was_lost),
            };
            was_lost = true;
            self.go_on_from(member);
            if self.env.clock.now() + pause > deadline {
                return (Err(Failure::Lost(lost)), was_lost);
            }
            tracing::debug!(store = %self.address.shown, member, %lost, "the next member is asked");
            self.env.clock.sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Runs a transaction. It may have run more than once, and one of an attempt that was given up may run later.
    ///
    /// # Errors
    /// [`Failure::Lost`]: it is not known whether it ran.
    pub async fn transact(&self, transaction: Transaction) -> Result<Outcome, Failure> {
        self.persist(TRANSACT, transaction, TIMEOUT).await
    }

    /// The same; true: a copy of it may still be on its way.
    pub async fn transact_told(&self, transaction: Transaction) -> (Result<Outcome, Failure>, bool) {
        self.persist_told(TRANSACT, transaction, TIMEOUT).await
    }

    /// The same for another timeout.
    pub async fn transact_for(&self, transaction: Transaction, timeout: Duration) -> Result<Outcome, Failure> {
        self.persist(TRANSACT, transaction, timeout).await
    }

    pub async fn ask(&self, range: Range) -> Result<Found, Failure> {
        self.persist(ASK, range, TIMEOUT).await
    }

    /// The same for another timeout.
    pub async fn ask_for(&self, range: Range, timeout: Duration) -> Result<Found, Failure> {
        self.persist(ASK, range, timeout).await
    }

    pub async fn compact(&self, revision: i64) -> Result<(), Failure> {
        self.persist::<_, Done>(COMPACT, Compaction { revision }, FIRST_PAUSE).await.map(drop)
    }

    /// A lease that lives for this time after each sign of life.
    pub async fn grant(&self, seconds: i64) -> Result<i64, Failure> {
        let granted: Granted = self.persist(GRANT, Grant { seconds, lease: 0 }, TIMEOUT).await?;
        Ok(granted.lease)
    }

    /// Ends a lease, and removes what goes with it; false: it is over already.
    pub async fn revoke(&self, lease: i64) -> Result<bool, Failure> {
        match self.persist::<_, Done>(REVOKE, Lease { lease }, TIMEOUT).await {
            Ok(_) => Ok(true),
            Err(Failure::Fenced) => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    /// A sign of life.
    ///
    /// # Errors
    /// [`Failure::Fenced`]: the lease is over.
    pub async fn keep_alive(&self, lease: i64) -> Result<(), Failure> {
        let granted: Granted = self.persist(KEEP_ALIVE, Lease { lease }, SIGN_TIMEOUT).await?;
        if granted.seconds > 0 { Ok(()) } else { Err(Failure::Fenced) }
    }

    /// Since the last sign of life; `None`: the lease is over.
    pub async fn silence(&self, lease: i64) -> Result<Option<Duration>, Failure> {
        let left: Granted = match self.persist(TIME_TO_LIVE, Lease { lease }, TIMEOUT).await {
            Err(Failure::Fenced) => return Ok(None),
            left => left?,
        };
        let since = u64::try_from(left.granted_seconds - left.seconds).unwrap_or_default();
        Ok((left.seconds >= 0).then(|| Duration::from_secs(since)))
    }
}

const LOG_IN_FIRST: &str = "it wants its user to log in";

impl Failure {
    /// What a member's refusal means, or that there was no answer.
    fn of_status(status: &Status) -> Self {
        let says = |text: &str| status.message().contains(text);
        let sentence = || status.message().trim_start_matches("etcdserver: ").to_owned();
        match status.code() {
            // The server's rules changed since this user logged in.
            _ if says("auth store is old") || says("in header is old") => Self::Failed(LOG_IN_FIRST.into()),
            Code::Unauthenticated => Self::Failed(LOG_IN_FIRST.into()),
            Code::InvalidArgument if says("user name is empty") => Self::Failed(LOG_IN_FIRST.into()),
            Code::InvalidArgument if says("authentication failed") => Self::Failed(
                "its servers refuse the user or the password; give the right one by ETCDCTL_PASSWORD".into(),
            ),
            Code::PermissionDenied => Self::Failed("the user may not do that there; grant it the role".into()),
            Code::NotFound if says("lease not found") => Self::Fenced,
            Code::OutOfRange => Self::Conflict,
            Code::ResourceExhausted if says("space exceeded") => Self::Full,
            Code::ResourceExhausted if says("larger than max") => {
                Self::Failed("a change is larger than its servers take; raise --max-request-bytes of each".into())
            }
            Code::DataLoss => Self::Damaged(sentence()),
            Code::InvalidArgument | Code::FailedPrecondition if !says("not leader") => Self::Failed(sentence()),
            _ => Self::Lost(sentence_of(status)),
        }
    }
}

/// The last cause of a request's failure, which says most.
fn sentence_of(status: &Status) -> String {
    std::error::Error::source(status).map_or_else(|| status.message().to_owned(), sentence)
}

fn sentence(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
