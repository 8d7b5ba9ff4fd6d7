//! What a request gets: whom it is from, what is done, and the answer.

use super::gathered::Gathered;
use super::per_ip_limit::Slot;
use super::reply::Reply;
use super::room::Holding;
use super::{Daemon, Peer};
use crate::auth::{Answered, Asked, AuthError, Key, Proof, sign_addresses, sign_answer};
use crate::gossip::Gossiper;
use crate::grant::Grant;
use crate::objects::ObjectHost;
use crate::outgoing::{Outgoing, READ_BYTES, Unread};
use crate::signed_request::SignedRequest;
use crate::wire::{
    ADDRESSES_HEADER, ADDRESSES_PROOF_HEADER, BACKGROUND, BUSY, CLASS_HEADER, COMBINATION_BYTES_MAX, Call,
    CombinationBody, DIGEST_HEADER, ERROR_HEADER, GRANT_HEADER, MembersBody, NODE_HEADER, PROOF_HEADER, PageBody,
    QUESTION_BYTES_MAX, SHARD_BYTES_MAX, SpaceBody, StatBody, already_a_node, node_of, node_text,
};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderMap, HeaderValue, RANGE, RETRY_AFTER, TRANSFER_ENCODING};
use hyper::{Request, Response, StatusCode};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use weft_cluster::gossip::PACKET_BYTES_MAX;
use weft_env::planted::{Planted, has_planted};
use weft_format::ShardKey;
use weft_format::records::Secret;
use weft_nodes::NodeAt;
use weft_nodes::combine::combine_gets;
use weft_nodes::error::{NodeError, NodeErrorKind};
use weft_nodes::node::{Node, NodeIdentity};
use weft_nodes::rate::Class;

/// When to ask a busy node again.
const RETRY_AFTER_SECONDS: &str = "1";

/// A body of which nothing comes for so long is given up, ...
const BODY_DEADLINE: Duration = Duration::from_secs(30);
/// ... and so is one slower than this on the whole.
const BODY_BYTES_PER_SECOND_MIN: u64 = 16 << 10;

/// Other nodes that it has connections to, for chains; with more it begins anew.
const PEERS_MAX: usize = 1024;

/// An identity has some hundred bytes.
const CLAIM_BYTES_MAX: u64 = 4096;

/// Who asks, as the key says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Asker {
    /// A user of the node.
    User,
    /// Another daemon of the cluster, or its owner.
    Member,
    /// Who has a grant, and its key.
    Grantee(Box<(Grant, Key)>),
}

/// A body, and the connection that it comes by.
struct Body<'a> {
    body: Incoming,
    slot: &'a Slot,
}

/// What headers say of a body.
struct Announced {
    bytes: u64,
    digest: Option<blake3::Hash>,
}

impl Daemon {
    pub(super) async fn answer(self: &Arc<Self>, request: Request<Incoming>, peer: &Peer) -> Response<Outgoing> {
        let began = self.env.clock.now();
        let proof = proof_of(request.headers());
        let class = class_of(request.headers());
        let mut asker = Asker::User;
        let (name, reply) = self.reply(request, proof, class, peer, &mut asker).await;
        if let Some(why) = reply.complaint() {
            // What was asked may be repeated in it, and must not make lines of its own.
            tracing::warn!(node = self.name, %peer, "refused: {}", why.escape_debug());
        }
        let unread_bytes = reply.unread.as_ref().map_or(0, |unread| unread.range.end - unread.range.start);
        self.metrics.answered(
            name,
            reply.status,
            reply.body.len() as u64 + unread_bytes,
            self.env.clock.elapsed(began),
        );
        self.respond(reply, proof, class.unwrap_or_default(), &asker)
    }

    /// The answer on a connection for which there is no place.
    pub(super) fn refuse_for_now(&self) -> Response<Outgoing> {
        let reply = Reply::ask_later("all connections that it grants are at work: ask later");
        self.metrics.answered("refused", reply.status, 0, Duration::ZERO);
        self.respond(reply, None, Class::default(), &Asker::User)
    }

    async fn reply(
        self: &Arc<Self>,
        request: Request<Incoming>,
        proof: Option<Proof>,
        class: Option<Class>,
        peer: &Peer,
        asker: &mut Asker,
    ) -> (&'static str, Reply) {
        let (head, body) = request.into_parts();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let range = header(RANGE.as_str());
        let Some(class) = class else {
            return ("invalid", Reply::invalid("a request is in the `background`, or says nothing"));
        };
        let call = match Call::parse(&head.method, head.uri.path(), head.uri.query(), range) {
            Ok(call) => call,
            Err(why) => return ("invalid", Reply::invalid(why)),
        };
        let name = call.name();
        let announced = match announced(&head.headers) {
            Ok(announced) => announced,
            Err(refused) => return (name, refused),
        };
        let is_open = call == Call::Metrics && self.has_open_metrics && peer.address.ip().is_loopback();
        let asked = Asked {
            method: head.method.as_str(),
            target: head.uri.path_and_query().map_or("", |target| target.as_str()),
            range: range.unwrap_or_default(),
            class: header(CLASS_HEADER).unwrap_or_default(),
            body_bytes: announced.bytes,
            body: announced.digest.unwrap_or_else(|| blake3::hash(&[])),
            node: None,
        };
        let believed = match head.headers.get(GRANT_HEADER) {
            Some(grant) => self.believe_grant(&call, asked, proof, grant),
            None if is_open => Ok(Asker::User),
            None => self.believe(&call, asked, proof),
        };
        match believed {
            Ok(believed) => *asker = believed,
            Err(error) => {
                let status = match error {
                    // It will be otherwise in a while.
                    AuthError::TooMany | AuthError::BeforeStart => StatusCode::TOO_MANY_REQUESTS,
                    _ => StatusCode::UNAUTHORIZED,
                };
                return (name, Reply::refused(status, "", error.to_string()));
            }
        }
        if let Some(wanted) = header(NODE_HEADER)
            && node_of(wanted) != self.identity()
            && !has_planted(Planted::AnyNodeAnswers)
        {
            let detail = format!("node {wanted:.80} is asked, and this is another: see where its daemon is now");
            return (name, NodeError::new(NodeErrorKind::WrongNode, &self.name, detail).into());
        }
        if call == Call::ShortCircuit && !peer.is_here {
            let detail = "short-circuit reads are for users on the same machine: ask for bytes";
            return (name, NodeError::new(NodeErrorKind::Unsupported, &self.name, detail).into());
        }
        let done = self.perform(call, class, announced, Body { body, slot: &peer.slot }, asker).await;
        (name, done.unwrap_or_else(|refused| refused))
    }

    /// Whose key is a request signed with? Packets of gossip are for members only; who the members are, for users too.
    fn believe(&self, call: &Call, asked: Asked<'_>, proof: Option<Proof>) -> Result<Asker, AuthError> {
        let check = |key: Option<&Key>, asked: &Asked<'_>| match key {
            Some(key) => {
                let uptime_ms = self.env.clock.elapsed(self.began).as_millis() as u64;
                self.nonces.lock().check(key, asked, proof, self.env.clock.unix_ms(), uptime_ms)
            }
            None => Ok(()),
        };
        let of_node = Asked { node: self.identity(), ..asked };
        let user = || match &self.gossip {
            // Members of an object store have one key, for each other and for clients.
            Some(gossip) if self.objects.is_some() => match check(gossip.key(), &of_node) {
                Err(_) if self.key.is_some() => check(self.key.as_ref(), &of_node).map(|()| Asker::User),
                believed => believed.map(|()| Asker::Member),
            },
            _ => check(self.key.as_ref(), &of_node).map(|()| Asker::User),
        };
        match (call, &self.gossip) {
            (Call::Gossip, Some(gossip)) => check(gossip.key(), &asked).map(|()| Asker::Member),
            (Call::Members, Some(gossip)) => match check(gossip.key(), &asked) {
                Ok(()) => Ok(Asker::Member),
                Err(_) => check(self.key.as_ref(), &of_node).map(|()| Asker::User),
            },
            // A member, which knows an address and no node, asks over each link whether the daemon is there.
            (Call::Identity, Some(gossip)) if gossip.key().is_some() => match check(gossip.key(), &asked) {
                Ok(()) => Ok(Asker::Member),
                Err(_) => user(),
            },
            _ => user(),
        }
    }

    /// As [`Self::believe`], of who shows a grant.
    fn believe_grant(
        &self,
        call: &Call,
        asked: Asked<'_>,
        proof: Option<Proof>,
        shown: &HeaderValue,
    ) -> Result<Asker, AuthError> {
        let grant: Option<Grant> = shown.to_str().ok().and_then(|text| text.parse().ok());
        let cluster = self.gossip.as_ref().and_then(|gossip| gossip.key());
        let (Some(grant), Some(cluster), Some(own)) = (grant, cluster, self.identity()) else {
            return Err(AuthError::NoProof);
        };
        let key = grant.key(cluster);
        let node = (*call != Call::Members).then_some(own);
        let (now_ms, uptime_ms) = (self.env.clock.unix_ms(), self.env.clock.elapsed(self.began).as_millis() as u64);
        self.nonces.lock().check(&key, &Asked { node, ..asked }, proof, now_ms, uptime_ms)?;
        if self.objects.is_none() || grant.store != own.volume || grant.until_ms <= now_ms {
            return Err(AuthError::NotGranted);
        }
        Ok(Asker::Grantee(Box::new((grant, key))))
    }

    /// Is a call granted? Of a put the body is looked at, too.
    fn permit(&self, call: &Call, grant: &Grant) -> Result<(), Reply> {
        let objects = self.objects()?;
        let is_granted = match call {
            Call::Members | Call::Space | Call::Identity | Call::Objects => true,
            Call::Get(key, _) | Call::Stat(key) => grant.may_read && objects.may_get(*key, grant),
            Call::Put(_) => grant.may_write,
            _ => false,
        };
        if is_granted { Ok(()) } else { Err(self.not_granted(call.name(), grant)) }
    }

    fn not_granted(&self, what: &str, grant: &Grant) -> Reply {
        let detail = format!("the grant for names that begin with `{}` does not allow this {what}", grant.prefix);
        NodeError::new(NodeErrorKind::Denied, &self.name, detail).into()
    }

    async fn perform(
        self: &Arc<Self>,
        call: Call,
        class: Class,
        announced: Announced,
        body: Body<'_>,
        asker: &Asker,
    ) -> Result<Reply, Reply> {
        let takes_body = matches!(call, Call::Put(_) | Call::Combine(_) | Call::Claim | Call::Gossip | Call::Objects);
        if !takes_body && announced.bytes > 0 {
            return Err(Reply::invalid("this request takes no body"));
        }
        let grant = match asker {
            Asker::Grantee(granted) => Some(&granted.0),
            Asker::User | Asker::Member => None,
        };
        if let Some(grant) = grant {
            self.permit(&call, grant)?;
        }
        match call {
            Call::Put(key) => {
                let node = self.node_or_refusal()?;
                let (parts, _held) = self.receive(class, announced, body, SHARD_BYTES_MAX).await?;
                if let Some(grant) = grant
                    && !self.objects()?.may_put(key, &parts, grant)
                {
                    return Err(self.not_granted("put", grant));
                }
                match has_planted(Planted::PutAnsweredEarly) {
                    true => self.env.spawner.task(Box::pin(async move { drop(node.put(key, &parts).await) })),
                    false => node.put(key, &parts).await?,
                }
                Ok(Reply { status: StatusCode::CREATED, ..Reply::ok("") })
            }
            Call::Get(key, range) => self.get(self.node_or_refusal()?, class, key, range).await,
            Call::Combine(key) => {
                let node = self.node_or_refusal()?;
                let (parts, _held) = self.receive(class, announced, body, COMBINATION_BYTES_MAX).await?;
                self.combine(&*node, class, key, &parts.concat().into()).await
            }
            Call::Stat(key) => {
                let stat = self.node_or_refusal()?.stat(key).await?;
                Ok(Reply::json(&StatBody { bytes: stat.bytes, modified_ms: stat.modified_ms }))
            }
            Call::Remove(key) => {
                self.node_or_refusal()?.remove(key).await?;
                Ok(Reply { status: StatusCode::NO_CONTENT, ..Reply::ok("") })
            }
            Call::List { after, limit } => {
                let page = self.node_or_refusal()?.list(after, limit).await?;
                let keys = page.keys.iter().map(ToString::to_string).collect();
                Ok(Reply::json(&PageBody { keys, foreign: page.foreign, more: page.more }))
            }
            Call::Space => {
                let space = self.node_or_refusal()?.space().await?;
                Ok(Reply::json(&SpaceBody { total_bytes: space.total_bytes, free_bytes: space.free_bytes }))
            }
            Call::Identity => Ok(Reply::ok(self.node_or_refusal()?.identity().await?.encode())),
            Call::Claim => {
                let (parts, _held) = self.receive(class, announced, body, CLAIM_BYTES_MAX).await?;
                self.claim(&parts.concat()).await
            }
            Call::ShortCircuit => {
                self.node_or_refusal()?;
                let file_socket = self.file_socket().ok_or_else(|| {
                    NodeError::new(NodeErrorKind::Unsupported, &self.name, "short-circuit reads are off: ask for bytes")
                })?;
                Ok(Reply::json(&file_socket.terms()))
            }
            Call::Metrics => {
                let further = self.objects.as_ref().map(|objects| objects.counters()).unwrap_or_default();
                Ok(Reply::ok(self.metrics.text(&further)))
            }
            Call::Gossip => {
                let gossip = self.gossip()?;
                let (parts, _held) = self.receive(class, announced, body, PACKET_BYTES_MAX as u64).await?;
                gossip.hear(&parts.concat()).map_err(|error| Reply::invalid(error.to_string()))?;
                Ok(Reply { status: StatusCode::NO_CONTENT, ..Reply::ok("") })
            }
            Call::Objects => {
                let (parts, _held) = self.receive(class, announced, body, QUESTION_BYTES_MAX).await?;
                Ok(Reply::ok(self.objects()?.answer(&parts.concat(), grant)?))
            }
            Call::Members => {
                let mut members = self.gossip()?.members();
                if *asker != Asker::Member {
                    let volume = self.identity().map(|identity| identity.volume.to_string());
                    members.retain(|heard| volume.as_ref() == Some(&heard.facts.volume));
                }
                Ok(Reply::json(&MembersBody { members }))
            }
        }
    }

    fn gossip(&self) -> Result<&Gossiper, Reply> {
        self.gossip.as_ref().ok_or_else(|| {
            let detail = "it does not gossip: start it with --advertise and the address that others know it by";
            NodeError::new(NodeErrorKind::Unsupported, &self.name, detail).into()
        })
    }

    fn objects(&self) -> Result<&dyn ObjectHost, Reply> {
        self.objects.as_deref().ok_or_else(|| {
            let detail = "it is no member of an object store: start it with --objects and --cluster-key";
            NodeError::new(NodeErrorKind::Unsupported, &self.name, detail).into()
        })
    }

    fn node_or_refusal(&self) -> Result<Arc<dyn Node>, Reply> {
        self.served().map(|(_, node)| node).ok_or_else(|| {
            let detail = format!("{} belongs to no volume yet: add it with `weft node add`", self.name);
            Reply::from(NodeError::new(NodeErrorKind::WrongNode, &self.name, detail))
        })
    }

    async fn get(&self, node: Arc<dyn Node>, class: Class, key: ShardKey, range: Range<u64>) -> Result<Reply, Reply> {
        let past_the_end = || Ok(Reply { status: StatusCode::RANGE_NOT_SATISFIABLE, ..Reply::ok("") });
        // What is read in one piece the node itself cuts where the shard ends.
        let range = match range.end - range.start <= READ_BYTES {
            true => range,
            false => range.start..range.end.min(node.stat(key).await?.bytes),
        };
        if range.is_empty() {
            return past_the_end();
        }
        // The signature goes ahead of the bytes, so these must be there; without one they are sent as they are read.
        let is_signed = self.key.is_some() || self.objects.is_some();
        let first_bytes = if is_signed { u64::MAX } else { READ_BYTES };
        let first = range.start..range.end.min(range.start.saturating_add(first_bytes));
        let held_bytes = (range.end - range.start).min(first_bytes.saturating_mul(2));
        let held = self.hold(class, range.end - range.start, held_bytes).await?;
        let body = node.get(key, first.clone()).await?;
        if body.is_empty() {
            return past_the_end();
        }
        let is_whole = first.end == range.end || body.len() as u64 != first.end - first.start;
        let unread = (!is_whole).then(|| Box::new(Unread { node, key, range: first.end..range.end }));
        Ok(Reply { status: StatusCode::PARTIAL_CONTENT, unread, held: Some(held), ..Reply::ok(body) })
    }

    async fn combine(&self, node: &dyn Node, class: Class, key: ShardKey, body: &Bytes) -> Result<Reply, Reply> {
        let (combination, onward, onward_body) = CombinationBody::decode(body).map_err(Reply::invalid)?;
        let cost = combination.cost().map_err(|error| Reply::invalid(error.to_string()))?;
        let link = onward.map(|onward| {
            let link = SignedRequest::of(onward, onward_body, cost.sent_bytes);
            link.ok_or_else(|| Reply::invalid("the shards to add cannot be requested from the other node"))
        });
        let link = link.transpose()?;
        let volume = node.identity().await?.volume;
        // As they are read, without their checks, and what is computed and added.
        let held = self.hold(class, cost.sent_bytes, 2 * cost.read_bytes + 2 * cost.sent_bytes).await?;
        let computed = async {
            let _turn = self.combining.acquire().await;
            combine_gets(node, &self.name, volume, key, &combination).await.map_err(Reply::from)
        };
        let added = async {
            match link {
                Some(link) => self.pull(class, link).await.map(Some),
                None => Ok(None),
            }
        };
        let body = match tokio::try_join!(computed, added)? {
            (own, None) => own,
            (own, Some(added)) => own.iter().zip(&added).map(|(own, added)| own ^ added).collect(),
        };
        self.metrics.combined(cost.read_bytes);
        Ok(Reply { held: Some(held), ..Reply::ok(body) })
    }

    /// Asks another node for what is to be added to a combination.
    async fn pull(&self, class: Class, link: SignedRequest) -> Result<Bytes, Reply> {
        let unsupported = |detail: String| Reply::from(NodeError::new(NodeErrorKind::Unsupported, &self.name, detail));
        if self.key.is_none() {
            // Anybody could have it ask whomever they like.
            return Err(unsupported("it has no key, and asks nobody for others: start it with --key".to_owned()));
        }
        if self.peers.count() >= PEERS_MAX {
            self.peers.keep(|_| false);
        }
        let address = link.url.to_string();
        let bytes = link.answer_bytes;
        let peer = self.peers.get(&address, &[]).ok_or_else(|| unsupported(format!("{address} cannot be asked")))?;
        let peer = peer.first().of_class(class);
        let added = peer.send(&link).await.map_err(|error| unsupported(error.to_string()))?;
        self.room.pay(class, bytes).await;
        Ok(added)
    }

    async fn hold(&self, class: Class, bytes: u64, held_bytes: u64) -> Result<Holding, Reply> {
        let held = self.room.hold(class, bytes, held_bytes).await;
        held.map_err(|why| NodeError::new(NodeErrorKind::Busy, &self.name, why).into())
    }

    /// The whole body, if it is as announced.
    async fn receive(
        &self,
        class: Class,
        announced: Announced,
        body: Body<'_>,
        bytes_max: u64,
    ) -> Result<(Vec<Bytes>, Holding), Reply> {
        let Body { mut body, slot } = body;
        if announced.bytes > bytes_max {
            let detail = format!("a body of {} bytes is more than {bytes_max}", announced.bytes);
            return Err(Reply::refused(StatusCode::PAYLOAD_TOO_LARGE, "", detail));
        }
        let held = self.hold(class, announced.bytes, announced.bytes).await?;
        let clock = &self.env.clock;
        let mut deadline =
            clock.now() + BODY_DEADLINE + Duration::from_secs(announced.bytes / BODY_BYTES_PER_SECOND_MIN);
        let (mut gathered, mut bytes) = (Gathered::default(), 0);
        // Only signed requests announce what their bodies are.
        let mut digests = announced.digest.map(|announced| (announced, blake3::Hasher::new()));
        loop {
            let timeout = BODY_DEADLINE.min(deadline.saturating_duration_since(clock.now()));
            slot.wait_for_body();
            let came = tokio::select! {
                biased;
                came = clock.timeout(timeout, body.frame()) => came,
                () = slot.evicted() => return Err(Reply::ask_later("the body comes slowly, and others wait: ask later")),
            };
            let frame = match came {
                Ok(Some(Ok(frame))) => frame,
                Ok(None) => break,
                Ok(Some(Err(error))) => return Err(Reply::invalid(format!("the body was cut off: {error}"))),
                Err(_) => return Err(Reply::refused(StatusCode::REQUEST_TIMEOUT, "", "the body came too slowly")),
            };
            if let Ok(part) = frame.into_data() {
                slot.body_came(part.len() as u64);
                bytes += part.len() as u64;
                if let Some((_, found)) = &mut digests {
                    found.update(&part);
                }
                let came = clock.now();
                self.room.pay(class, part.len() as u64).await;
                // What our own limit holds back is not the sender's fault.
                deadline += clock.elapsed(came);
                gathered.add(part);
            }
        }
        slot.body_came(0);
        if bytes != announced.bytes || digests.is_some_and(|(announced, found)| announced != found.finalize()) {
            return Err(Reply::invalid("the body is not what was announced"));
        }
        Ok((gathered.finish(), held))
    }

    /// Goes on though who asked has gone: to make a node of a device may take longer than anybody waits.
    async fn claim(self: &Arc<Self>, identity: &[u8]) -> Result<Reply, Reply> {
        let identity = NodeIdentity::decode(identity).map_err(|error| Reply::invalid(error.to_string()))?;
        let turn = Arc::clone(&self.claiming).lock_owned().await;
        let (daemon, (done, claimed)) = (Arc::clone(self), oneshot::channel());
        self.env.spawner.task(Box::pin(async move {
            let _ = done.send(daemon.become_claimed(identity).await);
            drop(turn);
        }));
        let stopped = |_| {
            NodeError::new(
                NodeErrorKind::Io,
                &self.name,
                "the attempt broke off before the place was a node: ask again",
            )
        };
        claimed.await.map_err(stopped)?
    }

    async fn become_claimed(&self, identity: NodeIdentity) -> Result<Reply, Reply> {
        let secret = Secret::default();
        let node = NodeAt { url: &self.place, name: &self.name, identity, secret: &secret };
        match self.identity() {
            Some(own) if own == identity => {
                if self.is_wiped().await && self.kinds.put_back(&node).await? {
                    tracing::warn!(node = self.name, "was deleted but for some shards, and is what it was again");
                }
                return Ok(Reply::ok(""));
            }
            Some(own) if own.volume != identity.volume || !self.is_wiped().await => {
                return Err(already_a_node(&self.name, own, identity).into());
            }
            // What it was is lost, and it may become another.
            Some(_) | None => {}
        }
        self.make(identity).await?;
        tracing::info!(node = self.name, "is node {} of volume {} now", identity.node, identity.volume);
        Ok(Reply::ok(""))
    }

    async fn is_wiped(&self) -> bool {
        let Some(node) = self.node() else { return false };
        node.identity().await.is_err_and(|error| error.kind == NodeErrorKind::Wiped)
    }

    fn respond(&self, reply: Reply, proof: Option<Proof>, class: Class, asker: &Asker) -> Response<Outgoing> {
        let mut response = Response::builder().status(reply.status);
        if let Some(identity) = self.identity() {
            response = response.header(NODE_HEADER, node_text(identity));
        }
        if !reply.error.is_empty() {
            response = response.header(ERROR_HEADER, reply.error);
        }
        if reply.error == BUSY {
            response = response.header(RETRY_AFTER, RETRY_AFTER_SECONDS);
        }
        let key = match (asker, &self.gossip) {
            (Asker::Member, Some(gossip)) => gossip.key(),
            (Asker::Grantee(granted), _) => Some(&granted.1),
            _ => self.key.as_ref(),
        };
        if let (Some(key), Some(proof)) = (key, proof) {
            let answered =
                Answered { status: reply.status.as_u16(), error: reply.error, body: blake3::hash(&reply.body) };
            let signed = sign_answer(key, proof.nonce, &answered);
            response = response.header(PROOF_HEADER, signed.to_hex().as_str());
        }
        // Who was refused learns nothing.
        let addresses = self.gossip.as_ref().and_then(|gossip| gossip.addresses());
        if let Some(addresses) = addresses.filter(|_| reply.status.is_success()) {
            response = response.header(ADDRESSES_HEADER, addresses);
            if let (Some(key), Some(proof)) = (key, proof) {
                let signed = sign_addresses(key, proof.nonce, addresses);
                response = response.header(ADDRESSES_PROOF_HEADER, signed.to_hex().as_str());
            }
        }
        // Shard bytes go within the limit; what is short must not wait behind them, or a busy node seems to be away.
        let (body, rate) = match reply.held {
            Some(held) => (held.with(reply.body), self.room.rate_of(class)),
            None => (reply.body, None),
        };
        response
            .body(Outgoing::new(body, reply.unread.map(|unread| *unread), rate))
            .expect("statuses and headers made here are valid")
    }
}

fn proof_of(headers: &HeaderMap) -> Option<Proof> {
    Proof::decode(headers.get(AUTHORIZATION)?.to_str().ok()?)
}

/// For whom a request is; `None`: it says something else.
fn class_of(headers: &HeaderMap) -> Option<Class> {
    match headers.get(CLASS_HEADER) {
        None => Some(Class::Foreground),
        Some(value) => (value == BACKGROUND).then_some(Class::Background),
    }
}

fn announced(headers: &HeaderMap) -> Result<Announced, Reply> {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let bytes = match text(CONTENT_LENGTH.as_str()) {
        Some(length) => length.parse().map_err(|_| Reply::invalid("the length of the body is no number"))?,
        None if headers.contains_key(TRANSFER_ENCODING) => {
            return Err(Reply::refused(StatusCode::LENGTH_REQUIRED, "", "a body has a length"));
        }
        None => 0,
    };
    let digest = match text(DIGEST_HEADER) {
        Some(hex) => Some(blake3::Hash::from_hex(hex).map_err(|_| Reply::invalid("the digest of the body is none"))?),
        None => None,
    };
    Ok(Announced { bytes, digest })
}
