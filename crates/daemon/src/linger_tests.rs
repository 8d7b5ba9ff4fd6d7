use super::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weft_env::Env;

async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    (client, listener.accept().await.unwrap().0)
}

/// The other side sends more than the buffers of both sockets hold, and reads the answer only afterwards.
#[tokio::test(flavor = "multi_thread")]
async fn the_answer_reaches_a_side_that_still_sends() {
    let (mut client, server) = pair().await;
    let mut server = Lingering::new(server, Arc::new(AtomicBool::new(true)), &Env::system().clock);
    let served = tokio::spawn(async move {
        server.write_all(b"no").await.unwrap();
        server.shutdown().await.unwrap();
    });
    client.write_all(&vec![0; 32 << 20]).await.unwrap();
    let mut answer = [0; 2];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"no");
    drop(client);
    served.await.unwrap();
}

/// A side that sends for ever is cut off.
#[tokio::test(start_paused = true)]
async fn it_lingers_for_a_short_time_only() {
    let (client, server) = tokio::io::duplex(64);
    let mut server = Lingering::new(server, Arc::new(AtomicBool::new(true)), &Env::system().clock);
    let began = tokio::time::Instant::now();
    server.shutdown().await.unwrap();
    assert_eq!(began.elapsed().as_secs(), LINGER.as_secs());
    drop(client);
}

/// When everything was read, it closes at once.
#[tokio::test(start_paused = true)]
async fn it_does_not_linger_after_what_was_read() {
    let (client, server) = tokio::io::duplex(64);
    let mut server = Lingering::new(server, Arc::new(AtomicBool::new(false)), &Env::system().clock);
    let began = tokio::time::Instant::now();
    server.shutdown().await.unwrap();
    assert!(began.elapsed().is_zero());
    drop(client);
}
