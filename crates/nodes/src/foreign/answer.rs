//! What of an HTTP answer is believed: no redirect where the protocol has none, no more bytes than were asked for, no whole
//! object in place of a range; and what refuses for load or for want of room says so.

use super::datanode::DataNode;
use super::failure::{Refusal, meaning, too_long};
use crate::error::NodeErrorKind;
use crate::node::SHARD_BYTES_MAX;
use futures_util::StreamExt;
use futures_util::stream::unfold;
use http::header::{CONTENT_LENGTH, LOCATION, RANGE};
use http::{Method, Request, Response, StatusCode, Uri};
use opendal::{Buffer, Error, HttpBody, HttpTransport};
use opendal_http_transport_reqwest::ReqwestTransport;
use std::error::Error as _;
use std::time::Duration;
use tokio::time::timeout;

/// No connection in so long: nobody is there.
const CONNECT_DEADLINE: Duration = Duration::from_secs(2);

/// Idle connections are kept so long: less than servers keep them.
const IDLE: Duration = Duration::from_secs(20);

/// A request may take so long to be answered, and a body so long to go on, ...
pub(super) const DEADLINE: Duration = Duration::from_secs(10);
/// ... and longer by its bytes at this rate: whoever is slower is as good as silent.
const BYTES_PER_SECOND_MIN: u64 = 256 << 10;

/// WebHDFS sends a reader on to a DataNode, through a router perhaps.
const REDIRECTS_MAX: usize = 3;

/// The longest answer that is no shard: a folder's list of some hundred thousand names.
const LIST_BYTES_MAX: u64 = 256 << 20;

/// An HTTP client that checks what comes back.
pub(super) struct Checked {
    client: ReqwestTransport,
    /// Where the bytes of files go, if not where the service sends them.
    datanode: Option<DataNode>,
}

impl Checked {
    /// A client of its own for one node, so that no node waits for another's connections.
    pub(super) fn new(follows_redirects: bool, datanode: Option<DataNode>) -> Result<Self, reqwest::Error> {
        let redirects = match follows_redirects {
            true => reqwest::redirect::Policy::limited(REDIRECTS_MAX),
            false => reqwest::redirect::Policy::none(),
        };
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_DEADLINE)
            .pool_idle_timeout(IDLE)
            .redirect(redirects)
            .tcp_nodelay(true)
            .build()?;
        Ok(Self { client: ReqwestTransport::new(client), datanode })
    }
}

impl HttpTransport for Checked {
    async fn fetch(&self, mut request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        if let Some(uri) = with_one_copy(request.method(), request.uri()) {
            *request.uri_mut() = uri;
        }
        let instead = self.datanode.as_ref().and_then(|datanode| datanode.instead(request.method(), request.uri()));
        let Some(uri) = instead else { return self.answered(request).await };
        *request.uri_mut() = uri;
        self.answered(request).await.map_err(|error| {
            let (kind, detail) = meaning(&error);
            let datanode = self.datanode.as_ref().expect("the request goes there");
            Refusal { kind, detail: format!("{datanode}: {detail}") }.into()
        })
    }
}

impl Checked {
    async fn answered(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let asked = Asked::of(&request);
        let deadline = deadline(request.body().len() as u64);
        let response = timeout(deadline, self.ask(request)).await.unwrap_or_else(|_| Err(silent()))?;
        if let Some(refusal) = asked.refusal(&response) {
            return Err(refusal.into());
        }
        Ok(response.map(|body| bounded(body, asked.answer_bytes_max)))
    }

    async fn ask(&self, request: Request<Buffer>) -> opendal::Result<Response<HttpBody>> {
        let can_be_repeated = !matches!(request.method().as_str(), "MOVE" | "POST");
        let again = can_be_repeated.then(|| request.clone());
        let answered = match (self.client.fetch(request).await, again) {
            // A server may close an idle connection just as it is used again; but a move asked twice fails, and some drives
            // keep two files of one name.
            (Err(error), Some(again)) if broke_off(&error) => self.client.fetch(again).await,
            (answered, _) => answered,
        };
        answered.map_err(unreachable)
    }
}

/// What of a request decides what may be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    /// First byte of the range asked for by header.
    range_start: Option<u64>,
    answer_bytes_max: u64,
    /// WebDAV's question for names and lengths.
    is_propfind: bool,
}

impl Asked {
    fn of<T>(request: &Request<T>) -> Self {
        let range = request.headers().get(RANGE).and_then(|value| value.to_str().ok()).and_then(range_of);
        let length = match range {
            Some((start, end)) => Some(end.saturating_sub(start).saturating_add(1)),
            None => request.uri().query().and_then(length_of),
        };
        // An error has an answer of its own, which may be longer than a short range.
        const ERROR_BYTES_MAX: u64 = 64 << 10;
        let answer_bytes_max = length.map_or(LIST_BYTES_MAX, |length| length.clamp(ERROR_BYTES_MAX, SHARD_BYTES_MAX));
        let is_propfind = request.method() == "PROPFIND";
        Self { range_start: range.map(|(start, _)| start), answer_bytes_max, is_propfind }
    }

    /// Why the answer is not taken.
    fn refusal<T>(&self, response: &Response<T>) -> Option<Refusal> {
        let status = response.status();
        let refuse =
            |kind, detail: &str| Some(Refusal { kind, detail: format!("{detail} (HTTP {})", status.as_u16()) });
        match status {
            // What was created has a place too; only of those that send elsewhere it is one to go to.
            _ if status.is_redirection() && response.headers().contains_key(LOCATION) => refuse(
                NodeErrorKind::Unavailable,
                "it sends to another address: give that one, with its scheme and region",
            ),
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
                refuse(NodeErrorKind::Busy, "it refuses for load: ask later")
            }
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                refuse(NodeErrorKind::Unavailable, "a proxy does not reach it: see whether the server is up")
            }
            StatusCode::INSUFFICIENT_STORAGE => refuse(NodeErrorKind::Full, "it has no room left"),
            StatusCode::UNAUTHORIZED => {
                refuse(NodeErrorKind::Denied, "it does not accept the credentials: give a key file with --key FILE")
            }
            // A page reads as a list without an entry, and that as absence.
            StatusCode::OK if self.is_propfind => {
                refuse(NodeErrorKind::Corrupt, "it does not speak WebDAV here: see whether address and path are right")
            }
            // The whole object is no range, unless it begins there and is no longer.
            StatusCode::OK if self.range_start.is_some_and(|start| start > 0) || self.is_longer(response) => {
                refuse(NodeErrorKind::Corrupt, "it sends another answer than the range that was asked for")
            }
            _ => None,
        }
    }

    fn is_longer<T>(&self, response: &Response<T>) -> bool {
        let length = response.headers().get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        length.is_some_and(|length| length > self.answer_bytes_max)
    }
}

/// The address that makes a file of WebHDFS with one copy of each block; `None`: it makes none, or says how many. HDFS would keep as many
/// as its servers' default is, and of shards WeftFS has others.
fn with_one_copy(method: &Method, uri: &Uri) -> Option<Uri> {
    let query = uri.query()?;
    let makes_file = *method == Method::PUT
        && uri.path().starts_with("/webhdfs/v1/")
        && query.split('&').any(|setting| setting.eq_ignore_ascii_case("op=CREATE"));
    let says_how_many = query.split('&').any(|setting| setting.starts_with("replication="));
    if !makes_file || says_how_many {
        return None;
    }
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{query}&replication=1", uri.path()).parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// How long moving so many bytes may take.
pub(super) fn deadline(bytes: u64) -> Duration {
    DEADLINE + Duration::from_secs(bytes / BYTES_PER_SECOND_MIN)
}

/// First and last byte of `bytes=first-last`.
fn range_of(header: &str) -> Option<(u64, u64)> {
    let (first, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    Some((first.parse().ok()?, last.parse().unwrap_or(u64::MAX)))
}

/// What WebHDFS calls a range's length.
fn length_of(query: &str) -> Option<u64> {
    query.split('&').find_map(|pair| pair.strip_prefix("length="))?.parse().ok()
}

/// The same body, which fails where it goes on beyond `bytes_max`, or falls silent.
fn bounded(body: HttpBody, bytes_max: u64) -> HttpBody {
    body.map_inner(move |stream| {
        Box::new(Box::pin(unfold((stream, bytes_max), |(mut stream, left)| async move {
            let piece = match timeout(DEADLINE, stream.next()).await {
                Ok(piece) => piece?,
                Err(_) => Err(silent()),
            };
            let left_then = left.saturating_sub(piece.as_ref().map_or(0, |piece| piece.len() as u64));
            let piece = piece.and_then(|piece| if piece.len() as u64 > left { Err(too_long()) } else { Ok(piece) });
            Some((piece, (stream, left_then)))
        })))
    })
}

pub(super) fn silent() -> Error {
    let detail = "it does not answer: see whether the server and the network are up".to_owned();
    Refusal { kind: NodeErrorKind::TimedOut, detail }.into()
}

fn http_error(error: &Error) -> Option<&reqwest::Error> {
    error.source().and_then(|source| source.downcast_ref())
}

/// Was there a connection, that ended before an answer came?
fn broke_off(error: &Error) -> bool {
    http_error(error).is_some_and(|http| http.is_request() && !http.is_connect() && !http.is_timeout())
}

/// Nobody there is another thing than a broken answer.
fn unreachable(error: Error) -> Error {
    match http_error(&error) {
        Some(http) if http.is_redirect() => {
            Refusal { kind: NodeErrorKind::Io, detail: "it sends from address to address".to_owned() }.into()
        }
        Some(http) if http.is_connect() => {
            let detail =
                format!("it cannot be reached ({}): see whether the server and the network are up", innermost(http));
            Refusal { kind: NodeErrorKind::Unavailable, detail }.into()
        }
        _ => error,
    }
}

/// Innermost cause, which says most in fewest words.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
