//! A node that another process serves.

use super::address::DaemonUrl;
use super::auth::{Answered, Asked, Key, Proof, sign_addresses, sign_answer};
use super::connections::{ConnectionError, Connections, Parts, Watch};
use super::dial::{Dial, Tcp};
use super::grant::Grant;
use super::short_circuit::ShortCircuit;
use super::signed_request::SignedRequest;
use super::tls;
use super::wire::{
    ADDRESSES_HEADER, ADDRESSES_PROOF_HEADER, BACKGROUND, CLASS_HEADER, COMBINATION_BYTES_MAX, CombinationBody,
    DIGEST_HEADER, ERROR_HEADER, ErrorBody, GRANT_HEADER, MembersBody, NODE_HEADER, PROOF_HEADER, PageBody,
    SHARD_BYTES_MAX, ShortCircuitBody, SpaceBody, StatBody, already_a_node, kind_of, node_of, node_text, range_header,
};
use async_trait::async_trait;
use bytes::Bytes;
use hyper::header::{AUTHORIZATION, HOST, RANGE};
use hyper::{HeaderMap, Method, Request, StatusCode};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use weft_cluster::gossip::Heard;
use weft_env::Env;
use weft_env::planted::{Planted, has_planted};
use weft_format::ShardKey;
use weft_nodes::combine::Combination;
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::kinds::LOCAL;
use weft_nodes::node::{Capability, Link, Node, NodeIdentity, Page, SHARD_BYTES_PER_SECOND_MIN, ShardStat, Space};
use weft_nodes::rate::Class;

/// What a daemon can do, and at what price.
pub(super) const CAPABILITY: Capability = Capability { combines: true, latency_us: 500, request_price: 4, ..LOCAL };

/// A request may take so long, ...
const DEADLINE: Duration = Duration::from_secs(10);
/// ... and longer by its bytes at this rate: whoever is slower is as good as silent. ...
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;
// ... Shards have [`SHARD_BYTES_PER_SECOND_MIN`]: daemons with limits give and take them, too, whose users find out by other requests
// whether they are there.

/// A page, an error, an identity.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// A daemon's node.
#[derive(Clone)]
pub struct DaemonNode {
    url: DaemonUrl,
    name: String,
    /// Who is to answer; none: whoever is there.
    identity: Option<NodeIdentity>,
    key: Option<Key>,
    connections: Arc<Connections>,
    /// How the next request is going.
    watch: Arc<Watch>,
    /// The addresses that the daemon told last.
    told: Arc<Told>,
    /// What `key` is for, where that is not everything.
    grant: Option<Arc<Grant>>,
    /// What is read past the daemon; none unless that was asked for.
    short_circuit: Option<Arc<ShortCircuit>>,
    capability: Capability,
    class: Class,
    env: Env,
    /// One line in the log is enough.
    has_warned: Arc<AtomicBool>,
}

/// Under which addresses users reach a daemon, as it says it.
#[derive(Default)]
pub(super) struct Told {
    /// As in its answers.
    addresses: Mutex<String>,
    is_new: AtomicBool,
}

impl Told {
    pub(super) fn tell(&self, addresses: &str) {
        let mut known = self.addresses.lock();
        if *known != addresses {
            addresses.clone_into(&mut known);
            self.is_new.store(true, Ordering::Relaxed);
        }
    }

    /// What was told since this was asked last.
    pub(super) fn take_new(&self) -> Option<String> {
        // Nearly always there is nothing, which is told for less.
        let is_new = self.is_new.load(Ordering::Relaxed) && self.is_new.swap(false, Ordering::Relaxed);
        is_new.then(|| self.addresses.lock().clone())
    }
}

/// What to ask.
struct NodeRequest<'a> {
    method: Method,
    target: String,
    range: Option<String>,
    body: &'a [Bytes],
    /// The longest answer that makes sense.
    answer_bytes_max: u64,
    /// Whom to ask; none: whoever is there.
    of: Option<NodeIdentity>,
    /// The proof, where another has signed the request.
    proof: Option<Proof>,
    /// How long the answer may take, where that is not to be guessed from its length.
    timeout: Option<Duration>,
}

/// What came back, and is what it should be.
struct Answer {
    status: StatusCode,
    body: Bytes,
}

impl<'a> NodeRequest<'a> {
    fn new(method: Method, target: impl Into<String>) -> Self {
        Self {
            method,
            target: target.into(),
            range: None,
            body: &[],
            answer_bytes_max: TEXT_BYTES_MAX,
            of: None,
            proof: None,
            timeout: None,
        }
    }

    /// How long its bytes and those of the answer may take.
    fn time_for(&self, asked_bytes: u64) -> Duration {
        let seconds = match self.answer_bytes_max {
            TEXT_BYTES_MAX if self.body.is_empty() => TEXT_BYTES_MAX / BYTES_PER_SECOND_MIN,
            TEXT_BYTES_MAX => asked_bytes / SHARD_BYTES_PER_SECOND_MIN,
            shard_bytes => (asked_bytes + shard_bytes.min(SHARD_BYTES_MAX)) / SHARD_BYTES_PER_SECOND_MIN,
        };
        Duration::from_secs(seconds)
    }
}

impl DaemonNode {
    /// The node `identity` at `url`. Asks nobody: a daemon that does not answer is `Unavailable` at each call.
    ///
    /// # Errors
    /// `Denied`: the certificates to trust cannot be read.
    pub fn open(
        url: &DaemonUrl,
        name: &str,
        identity: NodeIdentity,
        key: Option<Key>,
        env: &Env,
    ) -> Result<Self, NodeError> {
        Self::open_unidentified(url, name, Some(identity), key, env)
    }

    /// Whatever daemon is at `url`, or with an identity that one.
    pub(super) fn open_unidentified(
        url: &DaemonUrl,
        name: &str,
        identity: Option<NodeIdentity>,
        key: Option<Key>,
        env: &Env,
    ) -> Result<Self, NodeError> {
        let tls = url.tls.as_ref().map(tls::client).transpose();
        let tls = tls.map_err(|error| NodeError::new(NodeErrorKind::Denied, name, error.to_string()))?;
        Ok(Self {
            url: url.clone(),
            name: name.to_owned(),
            has_warned: Arc::default(),
            identity,
            key,
            grant: None,
            connections: Arc::new(Connections::new(&url.authority, tls, Arc::new(Tcp), &env.clock)),
            watch: Arc::default(),
            told: Arc::default(),
            short_circuit: None,
            capability: CAPABILITY,
            class: Class::Foreground,
            env: env.clone(),
        })
    }

    /// The same with the key of a grant.
    #[must_use]
    pub fn with_grant(self, grant: Option<Arc<Grant>>) -> Self {
        Self { grant, ..self }
    }

    /// The same node with short-circuit reads, where its daemon is on this machine, allows them, and is this user's or root's.
    #[must_use]
    pub fn with_short_circuit(self) -> Self {
        Self { short_circuit: Some(Arc::new(ShortCircuit::new(&self.env.clock))), ..self }
    }

    /// Makes the place that the daemon serves into the node `identity`, and opens it.
    ///
    /// # Errors
    /// `Unavailable`: nobody answers; `Exists`, `WrongNode`: it is a node already; `Denied`: another key; and whatever making
    /// a node there meets.
    pub async fn create(
        url: &DaemonUrl,
        name: &str,
        identity: NodeIdentity,
        key: Option<Key>,
        env: &Env,
    ) -> Result<Self, NodeError> {
        let node = Self::open(url, name, identity, key, env)?;
        // Whoever creates a node is told.
        node.has_warned.store(true, Ordering::Relaxed);
        let body = [Bytes::from(identity.encode())];
        node.ask(NodeRequest { body: &body, ..NodeRequest::new(Method::PUT, "/identity") }).await?;
        Ok(node)
    }

    /// The same over connections that `dial` makes.
    #[must_use]
    pub fn dialed_by(self, dial: Arc<dyn Dial>) -> Self {
        Self { connections: Arc::new(self.connections.dialed_by(dial)), ..self }
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.url.authority
    }

    /// The same daemon at another of its addresses: with connections of their own, and proof of the same kind.
    pub(super) fn at(&self, authority: &str) -> Self {
        let url = DaemonUrl { authority: authority.to_owned(), tls: self.url.tls.clone() };
        Self { url, connections: Arc::new(self.connections.at(authority)), ..self.clone() }
    }

    /// The same, with `watch` on its next request.
    pub(super) fn watched(&self, watch: &Arc<Watch>, class: Class) -> Self {
        Self { watch: Arc::clone(watch), class, ..self.clone() }
    }

    pub(super) fn url(&self) -> &DaemonUrl {
        &self.url
    }

    pub(super) fn connections(&self) -> &Connections {
        &self.connections
    }

    pub(super) fn told(&self) -> &Told {
        &self.told
    }

    pub(super) fn env(&self) -> &Env {
        &self.env
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Asks who is there, and believes only the node itself, whatever it says of its store.
    pub(super) async fn prove(&self) -> Result<(), NodeError> {
        let request = NodeRequest { of: self.identity, ..NodeRequest::new(Method::GET, "/identity") };
        let (http, nonce) = self.http_request(&request, 0)?;
        match self.connections.ask(http, TEXT_BYTES_MAX, &self.watch).await {
            Ok((head, body)) => self.believe(&request, &head.headers, head.status, nonce, &body).map(drop),
            Err(error) => Err(self.unanswered(&error)),
        }
    }

    fn error(&self, kind: NodeErrorKind, detail: impl Into<String>) -> NodeError {
        NodeError::new(kind, &self.name, detail)
    }

    async fn ask(&self, request: NodeRequest<'_>) -> Result<Answer, NodeError> {
        let asked_bytes = request.body.iter().map(|part| part.len() as u64).sum::<u64>();
        let timeout = request.timeout.unwrap_or_else(|| DEADLINE + request.time_for(asked_bytes));
        match self.env.clock.timeout(timeout, self.ask_without_deadline(request, asked_bytes)).await {
            Ok(answered) => answered,
            Err(_) => {
                let detail =
                    format!("{} does not answer: see whether the daemon and the network are up", self.address());
                Err(self.error(NodeErrorKind::TimedOut, detail))
            }
        }
    }

    async fn ask_without_deadline(&self, request: NodeRequest<'_>, body_bytes: u64) -> Result<Answer, NodeError> {
        // An error has an answer of its own, which may be longer than a short range.
        let bytes_max = request.answer_bytes_max.max(TEXT_BYTES_MAX);
        loop {
            let (http, nonce) = self.http_request(&request, body_bytes)?;
            // An answer begins when the node has done its work, so there is no shorter deadline for its beginning.
            match self.connections.ask(http, bytes_max, &self.watch).await {
                Ok((head, body)) => return self.check(&request, &head.headers, head.status, nonce, body),
                // What changes nothing may be asked again. Each time one idle connection less is there.
                Err(ConnectionError::Idle(_)) if request.method == Method::GET => {}
                Err(error) => return Err(self.unanswered(&error)),
            }
        }
    }

    fn unanswered(&self, error: &ConnectionError) -> NodeError {
        if let Some(why) = tls::refusal(error) {
            if !self.has_warned.swap(true, Ordering::Relaxed) {
                tracing::warn!(node = self.name, "{} is not believed: {why}", self.address());
            }
            return self.not_a_node(&why);
        }
        let (kind, why) = match error {
            ConnectionError::Request(answer) | ConnectionError::Idle(answer) if answer.is_parse() => {
                return self.speaks_otherwise();
            }
            ConnectionError::TooLong => return self.not_a_node("its answer is longer than what was asked"),
            ConnectionError::Connect(_) => (NodeErrorKind::Unavailable, reason(error)),
            // It says that the daemon ends, and nothing of shards: a disk that fails has an answer.
            ConnectionError::Request(_) | ConnectionError::Idle(_) => (NodeErrorKind::TimedOut, reason(error)),
            ConnectionError::Answer(error) => {
                let detail = format!("the answer of {} was cut off ({error}): ask again", self.address());
                return self.error(NodeErrorKind::Io, detail);
            }
        };
        self.error(kind, format!("{} cannot be asked ({why}): start its daemon", self.address()))
    }

    /// Something answers, in a language that is not HTTP. A daemon that was started with TLS is asked without it.
    fn speaks_otherwise(&self) -> NodeError {
        let detail = format!(
            "{} does not answer in plain HTTP: if its daemon was started with TLS, give the address that it prints, \
             weft+tls://{}/sha256:...",
            self.address(),
            self.address()
        );
        self.error(NodeErrorKind::Unavailable, detail)
    }

    fn http_request(&self, request: &NodeRequest<'_>, body_bytes: u64) -> Result<(Request<Parts>, u128), NodeError> {
        let mut http = Request::builder().method(request.method.clone()).uri(&request.target);
        http = http.header(HOST, self.address());
        if let Some(range) = &request.range {
            http = http.header(RANGE, range);
        }
        let class = self.class_header();
        if !class.is_empty() {
            http = http.header(CLASS_HEADER, class);
        }
        if let Some(grant) = &self.grant {
            http = http.header(GRANT_HEADER, grant.to_string());
        }
        let mut nonce = 0;
        if self.key.is_some() || request.proof.is_some() {
            let body = digest(request.body);
            let made = || self.key.as_ref().map(|key| self.proof(key, request, body_bytes, body));
            if let Some(proof) = request.proof.or_else(made) {
                nonce = proof.nonce;
                http = http.header(AUTHORIZATION, proof.encode());
            }
            http = http.header(DIGEST_HEADER, body.to_hex().as_str());
        } else if let Some(node) = request.of {
            // Who has the address now may be another node, which must not do what is asked.
            http = http.header(NODE_HEADER, node_text(node));
        }
        let http = http.body(Parts::of(request.body)).map_err(|error| {
            let detail = format!("`{}` is no address ({error}): give host and port", self.address());
            self.error(NodeErrorKind::Unavailable, detail)
        })?;
        Ok((http, nonce))
    }

    fn class_header(&self) -> &'static str {
        match self.class {
            Class::Foreground => "",
            Class::Background => BACKGROUND,
        }
    }

    fn proof(&self, key: &Key, request: &NodeRequest<'_>, body_bytes: u64, body: blake3::Hash) -> Proof {
        let asked = Asked {
            method: request.method.as_str(),
            target: &request.target,
            range: request.range.as_deref().unwrap_or_default(),
            class: self.class_header(),
            body_bytes,
            body,
            node: request.of,
        };
        Proof::of(key, &asked, self.env.clock.unix_ms(), self.env.rng.next_u128())
    }

    /// Is it an answer, of the right node, to this request?
    fn check(
        &self,
        request: &NodeRequest<'_>,
        headers: &HeaderMap,
        status: StatusCode,
        nonce: u128,
        body: Bytes,
    ) -> Result<Answer, NodeError> {
        let error = self.believe(request, headers, status, nonce, &body)?;
        let detail = || serde_json::from_slice::<ErrorBody>(&body).map(|body| body.detail).ok();
        if let Some(kind) = kind_of(error, status) {
            self.watch.refuse();
            return Err(self.error(kind, detail().unwrap_or_else(|| format!("{} gives no reason", self.address()))));
        }
        if status.is_success() || status == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(Answer { status, body });
        }
        let why = detail().map_or_else(String::new, |why| format!(": {why}"));
        Err(self.error(NodeErrorKind::Io, format!("{} answers {status}{why}", self.address())))
    }

    /// Is it of the right node, and signed? The name of the error that it tells, or nothing.
    fn believe<'h>(
        &self,
        request: &NodeRequest<'_>,
        headers: &'h HeaderMap,
        status: StatusCode,
        nonce: u128,
        body: &Bytes,
    ) -> Result<&'h str, NodeError> {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let hash = |name: &str| text(name).and_then(|hex| blake3::Hash::from_hex(hex).ok());
        let error = text(ERROR_HEADER).unwrap_or_default();
        // Which node it is comes first: another one has another key.
        self.check_node(request, text(NODE_HEADER))?;
        if status == StatusCode::UNAUTHORIZED || status == StatusCode::TOO_MANY_REQUESTS {
            let why = serde_json::from_slice::<ErrorBody>(body).map(|body| body.detail).ok();
            let why = why.unwrap_or_else(|| "it does not say why".to_owned());
            let kind = if status == StatusCode::UNAUTHORIZED { NodeErrorKind::Denied } else { NodeErrorKind::Busy };
            return Err(self.error(kind, format!("{} refuses: {why}", self.address())));
        }
        if let Some(key) = self.key.as_ref().filter(|_| !has_planted(Planted::AnswerUnproved)) {
            let answered = Answered { status: status.as_u16(), error, body: blake3::hash(body) };
            if hash(PROOF_HEADER) != Some(sign_answer(key, nonce, &answered)) {
                return Err(self.not_a_node("its answer is not signed with the node's key"));
            }
        }
        if let Some(addresses) = text(ADDRESSES_HEADER) {
            let is_signed = |key| hash(ADDRESSES_PROOF_HEADER) == Some(sign_addresses(key, nonce, addresses));
            if self.key.as_ref().is_none_or(is_signed) {
                self.told.tell(addresses);
            }
        }
        Ok(error)
    }

    fn check_node(&self, request: &NodeRequest<'_>, node: Option<&str>) -> Result<(), NodeError> {
        let Some(identity) = self.identity else { return Ok(()) };
        match node.map(node_of) {
            Some(Some(found)) if found == identity => Ok(()),
            Some(Some(_)) if has_planted(Planted::AnyNodeAnswers) => Ok(()),
            Some(Some(found)) if request.of.is_none() => Err(already_a_node(self.address(), found, identity)),
            Some(Some(found)) => {
                let detail =
                    format!("{} is node {} of volume {}, not the one wanted", self.address(), found.node, found.volume);
                Err(self.error(NodeErrorKind::WrongNode, detail))
            }
            // A place without an owner refuses whatever else than to be claimed.
            None if request.of.is_none() => Ok(()),
            _ => Err(self.not_a_node("it did not identify itself")),
        }
    }

    fn not_a_node(&self, why: &str) -> NodeError {
        let detail = format!("the server at {} is no node ({why}): check the program that runs there", self.address());
        self.error(NodeErrorKind::WrongNode, detail)
    }

    fn shard(method: Method, key: ShardKey) -> NodeRequest<'static> {
        NodeRequest::new(method, format!("/shards/{key}"))
    }

    async fn ask_node(&self, request: NodeRequest<'_>) -> Result<Answer, NodeError> {
        self.ask(NodeRequest { of: self.identity, ..request }).await
    }

    fn combine_request(key: ShardKey) -> NodeRequest<'static> {
        NodeRequest::new(Method::POST, format!("/shards/{key}?combine"))
    }

    /// What is read later may be had as files, where the daemon is on this machine. Nobody waits for that.
    fn ask_for_files_if_local(&self) {
        let Some(short_circuit) = self.short_circuit.as_ref().filter(|_| self.connections.is_local()) else { return };
        if short_circuit.may_ask() {
            let (node, short_circuit) = (self.clone(), Arc::clone(short_circuit));
            self.env.spawner.task(Box::pin(async move {
                short_circuit.answered(node.terms().await.ok()).await;
            }));
        }
    }

    /// Where its open files can be had.
    pub(super) async fn terms(&self) -> Result<ShortCircuitBody, NodeError> {
        self.decoded(&self.ask_node(NodeRequest::new(Method::POST, "/short-circuit")).await?)
    }

    async fn combined(&self, request: NodeRequest<'_>) -> Result<Bytes, NodeError> {
        let bytes = request.answer_bytes_max;
        let answer = self.ask_node(request).await?;
        if answer.status != StatusCode::OK || answer.body.len() as u64 != bytes {
            return Err(self.not_a_node("its answer is no combination"));
        }
        Ok(answer.body)
    }

    /// Makes a request that was signed beforehand.
    pub(super) async fn send(&self, request: &SignedRequest) -> Result<Bytes, NodeError> {
        let asker = Self { class: request.class, identity: Some(request.node), ..self.clone() };
        let request = NodeRequest {
            body: std::slice::from_ref(&request.body),
            answer_bytes_max: request.answer_bytes,
            proof: request.proof,
            timeout: Some(request.timeout),
            ..Self::combine_request(request.shard)
        };
        asker.combined(request).await
    }

    /// Gives the daemon a packet of gossip.
    pub(super) async fn tell(&self, packet: Bytes) -> Result<(), NodeError> {
        let body = [packet];
        self.ask_node(NodeRequest { body: &body, ..NodeRequest::new(Method::POST, "/gossip") }).await.map(drop)
    }

    /// The members that the daemon knows, itself first: to a user of the node those of its volume, with the cluster's key all.
    ///
    /// # Errors
    /// It does not answer, does not gossip, or refuses.
    pub async fn members(&self) -> Result<Vec<Heard>, NodeError> {
        let body: MembersBody = self.decoded(&self.ask_node(NodeRequest::new(Method::GET, "/members")).await?)?;
        Ok(body.members)
    }

    /// Asks what only members of an object store are asked.
    ///
    /// # Errors
    /// It does not answer, is none, or refuses.
    pub async fn ask_objects(&self, question: Bytes) -> Result<Bytes, NodeError> {
        let body = [question];
        let request = NodeRequest { body: &body, ..NodeRequest::new(Method::POST, "/objects") };
        Ok(self.ask_node(request).await?.body)
    }

    fn decoded<T: serde::de::DeserializeOwned>(&self, answer: &Answer) -> Result<T, NodeError> {
        serde_json::from_slice(&answer.body).map_err(|_| self.not_a_node("its answer makes no sense"))
    }
}

#[async_trait]
impl Node for DaemonNode {
    fn capability(&self) -> &Capability {
        &self.capability
    }

    fn in_background(&self) -> Option<Arc<dyn Node>> {
        // They share their connections.
        Some(Arc::new(Self { class: Class::Background, ..self.clone() }))
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        self.ask_node(NodeRequest { body: parts, ..Self::shard(Method::PUT, key) }).await.map(drop)
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        if range.is_empty() {
            // Whether the shard is there is to be known all the same.
            self.stat(key).await?;
            return Ok(Bytes::new());
        }
        if let Some(short_circuit) = &self.short_circuit
            && let Some(bytes) = short_circuit.get(key, &range).await
        {
            return Ok(bytes);
        }
        let bytes_max = (range.end - range.start).min(SHARD_BYTES_MAX);
        let request = NodeRequest {
            range: Some(range_header(&range)),
            answer_bytes_max: bytes_max,
            ..Self::shard(Method::GET, key)
        };
        let answer = self.ask_node(request).await?;
        self.ask_for_files_if_local();
        match answer.status {
            StatusCode::RANGE_NOT_SATISFIABLE => Ok(Bytes::new()),
            StatusCode::PARTIAL_CONTENT if answer.body.len() as u64 <= bytes_max => Ok(answer.body),
            _ => Err(self.not_a_node("its answer is no range")),
        }
    }

    async fn combine(&self, key: ShardKey, combination: &Combination) -> Result<Bytes, NodeError> {
        let cost = combination
            .cost()
            .map_err(|error| self.error(NodeErrorKind::Unsupported, format!("shard {key} is not combined: {error}")))?;
        let body = [CombinationBody::encode(combination, None)];
        self.combined(NodeRequest { body: &body, answer_bytes_max: cost.sent_bytes, ..Self::combine_request(key) })
            .await
    }

    fn link(&self, key: ShardKey, combination: &Combination, onward: Option<&Link>, timeout: Duration) -> Option<Link> {
        let (node, answer_bytes) = (self.identity?, combination.cost().ok()?.sent_bytes);
        // What nodes of another kind made, a daemon cannot ask for.
        let onward = match onward {
            Some(onward) => Some(onward.request::<SignedRequest>()?),
            None => None,
        };
        let body = [CombinationBody::encode(combination, onward.map(|onward| (onward.head(), &onward.body)))];
        let request = NodeRequest { body: &body, of: self.identity, ..Self::combine_request(key) };
        let proof = self.key.as_ref().map(|key| self.proof(key, &request, body[0].len() as u64, digest(&body)));
        let [body] = body;
        let is_sent = SignedRequest::leads(&self.url) && body.len() as u64 <= COMBINATION_BYTES_MAX;
        let (url, class) = (self.url.clone(), self.class);
        let request = SignedRequest { url, node, shard: key, class, proof, body, answer_bytes, timeout };
        is_sent.then(|| Link::new(key, request))
    }

    async fn pull(&self, link: Link) -> Result<Bytes, NodeError> {
        match link.request::<SignedRequest>() {
            Some(request) => self.send(request).await,
            None => Err(self.error(NodeErrorKind::Unsupported, "it can only make requests of daemons")),
        }
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        let request = NodeRequest::new(Method::GET, format!("/shards/{key}?stat"));
        let stat: StatBody = self.decoded(&self.ask_node(request).await?)?;
        Ok(ShardStat { bytes: stat.bytes, modified_ms: stat.modified_ms })
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let from = after.map(|key| format!("after={key}&")).unwrap_or_default();
        let request = NodeRequest::new(Method::GET, format!("/shards?{from}limit={limit}"));
        let page: PageBody = self.decoded(&self.ask_node(request).await?)?;
        let keys: Result<Vec<ShardKey>, _> = page.keys.iter().map(|key| key.parse()).collect();
        let keys = keys.map_err(|_| self.not_a_node("it lists what is no key"))?;
        // Each page goes on, or a list would never end.
        let ascends = after.iter().chain(&keys).is_sorted_by(|one, next| one < next);
        if keys.len() > limit || !ascends {
            return Err(self.not_a_node("it lists keys that were not asked for"));
        }
        if page.more && keys.is_empty() && limit > 0 {
            return Err(self.not_a_node("it says that it has more keys and lists none"));
        }
        Ok(Page { keys, foreign: page.foreign, more: page.more })
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        if let Some(short_circuit) = &self.short_circuit {
            short_circuit.forget(key);
        }
        self.ask_node(Self::shard(Method::DELETE, key)).await.map(drop)
    }

    async fn space(&self) -> Result<Space, NodeError> {
        let space: SpaceBody = self.decoded(&self.ask_node(NodeRequest::new(Method::GET, "/space")).await?)?;
        Ok(Space { total_bytes: space.total_bytes, free_bytes: space.free_bytes, disk: None })
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        let answer = self.ask_node(NodeRequest::new(Method::GET, "/identity")).await?;
        NodeIdentity::decode(&answer.body).map_err(|_| self.not_a_node("it did not identify itself"))
    }
}

/// The daemons that the one at `url` knows, itself first. With the cluster's key all, with `identity` and the node's key those
/// of its volume.
///
/// # Errors
/// It does not answer, does not gossip, or refuses.
pub async fn members(
    url: &DaemonUrl,
    identity: Option<NodeIdentity>,
    key: Option<Key>,
    env: &Env,
) -> Result<Vec<Heard>, NodeError> {
    members_over(&(Arc::new(Tcp) as Arc<dyn Dial>), url, identity, key, env).await
}

/// As [`members`], over a connection that `dial` makes.
pub(super) async fn members_over(
    dial: &Arc<dyn Dial>,
    url: &DaemonUrl,
    identity: Option<NodeIdentity>,
    key: Option<Key>,
    env: &Env,
) -> Result<Vec<Heard>, NodeError> {
    let node = DaemonNode::open_unidentified(url, &url.to_string(), identity, key, env)?;
    members_by(node.dialed_by(Arc::clone(dial))).await
}

/// As [`members`], with the key of a grant: those of its store.
///
/// # Errors
/// As [`members`].
pub async fn members_granted(url: &DaemonUrl, key: Key, grant: Arc<Grant>, env: &Env) -> Result<Vec<Heard>, NodeError> {
    let node = DaemonNode::open_unidentified(url, &url.to_string(), None, Some(key), env)?;
    members_by(node.with_grant(Some(grant))).await
}

async fn members_by(node: DaemonNode) -> Result<Vec<Heard>, NodeError> {
    let members = node.members().await?;
    if members.is_empty() {
        let detail = format!("{} does not identify itself: check the program that runs there", node.url);
        return Err(node.error(NodeErrorKind::WrongNode, detail));
    }
    Ok(members)
}

fn digest(body: &[Bytes]) -> blake3::Hash {
    let mut digest = blake3::Hasher::new();
    body.iter().for_each(|part| {
        digest.update(part);
    });
    digest.finalize()
}

/// Innermost cause, which says most in fewest words.
fn reason(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
