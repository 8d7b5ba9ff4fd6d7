//! An endpoint for Prometheus, of a worker that cares for a volume.

use anyhow::{Context, Result, bail};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use weft_care::{Board, Catalogue};

/// A question is a line and a few headers.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// Who asks has so long for the question, and for taking the answer.
const DEADLINE: Duration = Duration::from_secs(10);

/// Answers until it is dropped.
pub struct Endpoint(JoinHandle<()>);

impl Endpoint {
    /// What is shown is for this machine only, since whoever asks is not asked who it is.
    pub fn start(
        address: SocketAddr,
        board: Arc<Board>,
        catalogue: Arc<dyn Catalogue>,
        runtime: &Handle,
    ) -> Result<Self> {
        if !address.ip().is_loopback() {
            bail!("{address} can be reached from other machines: give 127.0.0.1:PORT or [::1]:PORT for --metrics");
        }
        let listener = runtime.block_on(TcpListener::bind(address));
        let listener = listener.with_context(|| format!("{address} cannot be listened at for --metrics"))?;
        tracing::info!("metrics at http://{}/metrics", listener.local_addr()?);
        Ok(Self(runtime.spawn(serve(listener, board, catalogue))))
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(listener: TcpListener, board: Arc<Board>, catalogue: Arc<dyn Catalogue>) {
    loop {
        match listener.accept().await {
            // One at a time: a scraper comes every few seconds.
            Ok((stream, _)) => {
                let answered = tokio::time::timeout(DEADLINE, answer(stream, &board, &catalogue)).await;
                if let Ok(Err(error)) = answered {
                    tracing::debug!("metrics were not answered: {error:#}");
                }
            }
            Err(error) => {
                tracing::warn!("metrics cannot be asked for: {error}");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

async fn answer(mut stream: TcpStream, board: &Arc<Board>, catalogue: &Arc<dyn Catalogue>) -> Result<()> {
    let mut head = Vec::new();
    let mut part = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let count = stream.read(&mut part).await?;
        head.extend(&part[..count]);
        if head.len() > HEAD_BYTES_MAX || count == 0 {
            bail!("the question is too long, or ends in the middle");
        }
    }
    let (status, body) = match head.starts_with(b"GET /metrics ") {
        false => ("404 Not Found", "ask for /metrics\n".to_owned()),
        true => {
            let (board, catalogue) = (board.clone(), catalogue.clone());
            match tokio::task::spawn_blocking(move || board.text(&*catalogue)).await? {
                Ok(text) => ("200 OK", text),
                Err(error) => ("503 Service Unavailable", format!("{error}\n")),
            }
        }
    };
    let kind = "text/plain; version=0.0.4";
    let length = body.len();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    Ok(stream.shutdown().await?)
}
