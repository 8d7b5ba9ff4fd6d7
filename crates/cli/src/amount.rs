//! Numbers of bytes and addresses as people write them, the same for every argument.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU64;
use weft_format::amount::parse_bytes;

/// Bytes per second, for an argument.
pub fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}` is not a rate: write bytes per second as in 10M, 1.5GiB or 500K"))
}

/// A number of bytes, for an argument.
pub fn parse_size(text: &str) -> Result<NonZeroU64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}` is not a size: write bytes as in 10G, 1.5GiB or 500M"))
}

/// Where to listen, for an argument: `127.0.0.1:7600`, `[::1]:7600`, `localhost:7600`, or `:7600` for every address of this
/// machine. Of a name with several addresses the first of IPv4 is taken.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let wrong =
        || format!("`{text}` is not an address to listen on: write HOST:PORT, as in localhost:7600, or :PORT for all");
    if let Some(port) = text.strip_prefix(':') {
        return port.parse().map(|port| SocketAddr::from(([0, 0, 0, 0], port))).map_err(|_| wrong());
    }
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    let found = (host, port).to_socket_addrs();
    let addresses: Vec<SocketAddr> = found.map_err(|_| format!("{} has no address here: {}", host, wrong()))?.collect();
    addresses.iter().find(|address| address.is_ipv4()).or(addresses.first()).copied().ok_or_else(wrong)
}

#[cfg(test)]
#[path = "amount_tests.rs"]
mod tests;
