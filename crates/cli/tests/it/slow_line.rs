//! A line to a server of this machine, on which answers may take long.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Open until the test ends.
pub struct SlowLine {
    pub port: u16,
    delay_ms: Arc<AtomicU64>,
}

impl SlowLine {
    /// To the server at this port.
    pub fn to(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let delay_ms = Arc::new(AtomicU64::new(0));
        let delays = delay_ms.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (asks, answers) = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
                let delays = delays.clone();
                std::thread::spawn(move || carry(asks, server, || 0));
                std::thread::spawn(move || carry(answers, client, || delays.load(Ordering::SeqCst)));
            }
        });
        Self { port, delay_ms }
    }

    /// From now on each answer takes so long.
    pub fn delay(&self, time: Duration) {
        self.delay_ms.store(time.as_millis() as u64, Ordering::SeqCst);
    }
}

/// Until one side has closed.
fn carry(mut from: TcpStream, mut to: TcpStream, delay_ms: impl Fn() -> u64) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        std::thread::sleep(Duration::from_millis(delay_ms()));
        if to.write_all(&bytes[..count]).is_err() {
            return;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
