//! A daemon that computes wrongly: what stands before a real one, and changes what it answers to combinations.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

/// The address of one that stands before the daemon at `address`, for as long as the test runs. Where the two have a key it would be
/// found out at once: answers are signed.
pub fn before(address: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let own = listener.local_addr().expect("bound").to_string();
    let address = address.to_owned();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, address) = (client.expect("a connection"), address.clone());
            // Either side may go away at any time.
            thread::spawn(move || answer(client, TcpStream::connect(address)?));
        }
    });
    own
}

fn answer(client: TcpStream, daemon: TcpStream) -> io::Result<()> {
    let (mut to_client, mut to_daemon) = (client.try_clone()?, daemon.try_clone()?);
    let (mut client, mut daemon) = (BufReader::new(client), BufReader::new(daemon));
    loop {
        let (head, body) = message(&mut client)?;
        let is_lie = head.starts_with("POST") && head.lines().next().is_some_and(|line| line.contains("?combine"));
        to_daemon.write_all(head.as_bytes())?;
        to_daemon.write_all(&body)?;
        let (head, mut body) = message(&mut daemon)?;
        if let Some(byte) = body.last_mut().filter(|_| is_lie) {
            *byte ^= 1;
        }
        to_client.write_all(head.as_bytes())?;
        to_client.write_all(&body)?;
    }
}

/// Head and body of a request or an answer; both sides say how long a body is.
fn message(stream: &mut impl BufRead) -> io::Result<(String, Vec<u8>)> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    stream.read_exact(&mut body)?;
    Ok((head, body))
}
