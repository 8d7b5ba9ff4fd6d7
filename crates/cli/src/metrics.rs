//! An endpoint for Prometheus: a text that a process makes for each scrape.

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};
use weft_engine::Metrics;

/// Who asks has so long for the question, and for taking the answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Questions at one time; for one more, the oldest is given up. A scraper comes every few seconds, and asks at once.
const CONNECTIONS_MAX: usize = 16;

/// Answers until it is dropped.
pub struct Endpoint(JoinHandle<()>);

impl Endpoint {
    /// Answers those who ask at `listener`.
    pub fn start(listener: std::net::TcpListener, shown: Metrics, runtime: &Handle) -> Result<Self> {
        tracing::info!("metrics at http://{}/metrics", listener.local_addr()?);
        let _entered = runtime.enter();
        let listener = TcpListener::from_std(listener)?;
        Ok(Self(runtime.spawn(serve(listener, shown))))
    }
}

/// Listens at an address of this machine, before there is anything to show: a command that cannot listen ends before it has
/// begun anything. What is shown is for this machine only, since whoever asks is not asked who it is.
pub fn listen(address: SocketAddr) -> Result<std::net::TcpListener> {
    if !address.ip().is_loopback() {
        bail!("other machines can reach {address}: give 127.0.0.1:PORT or [::1]:PORT for --metrics");
    }
    let listener = std::net::TcpListener::bind(address)
        .with_context(|| format!("cannot listen on {address} for --metrics: give a free port"))?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: TcpListener, shown: Metrics) {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(DEADLINE).keep_alive(false);
    // Ended with this.
    let mut connections = JoinSet::new();
    let mut oldest_first = VecDeque::new();
    loop {
        while connections.try_join_next().is_some() {}
        oldest_first.retain(|connection: &AbortHandle| !connection.is_finished());
        match listener.accept().await {
            Ok((stream, _)) => {
                // Whoever connects and says nothing keeps nobody from asking.
                if oldest_first.len() >= CONNECTIONS_MAX
                    && let Some(oldest) = oldest_first.pop_front()
                {
                    oldest.abort();
                }
                let (http, shown) = (http.clone(), Arc::clone(&shown));
                oldest_first.push_back(connections.spawn(async move {
                    let answered = service_fn(|request| answer(request, &shown));
                    let served = http.serve_connection(TokioIo::new(stream), answered);
                    match tokio::time::timeout(DEADLINE, served).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => tracing::debug!("a request for metrics was not answered: {error}"),
                        Err(_) => tracing::debug!("a request for metrics was too slow"),
                    }
                }));
            }
            Err(error) => {
                tracing::warn!("requests for metrics cannot be accepted: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer(request: Request<Incoming>, shown: &Metrics) -> Result<Response<Full<Bytes>>> {
    let (status, text) = match (request.method(), request.uri().path()) {
        (&Method::GET, "/metrics") => {
            let shown = Arc::clone(shown);
            match tokio::task::spawn_blocking(move || shown()).await? {
                Ok(text) => (StatusCode::OK, text),
                Err(error) => (StatusCode::SERVICE_UNAVAILABLE, format!("{error}\n")),
            }
        }
        _ => (StatusCode::NOT_FOUND, "ask for /metrics\n".to_owned()),
    };
    let response = Response::builder().status(status).header(CONTENT_TYPE, "text/plain; version=0.0.4");
    Ok(response.body(Full::from(text))?)
}
