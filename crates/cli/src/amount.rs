//! Numbers of bytes and addresses as people write them, the same for every argument.

use std::net::{SocketAddr, ToSocketAddrs};
use std::num::NonZeroU64;

/// Powers of 1024, by the letter that names them.
const UNITS: [(char, u64); 6] =
    [('k', 1 << 10), ('m', 1 << 20), ('g', 1 << 30), ('t', 1 << 40), ('p', 1 << 50), ('e', 1 << 60)];

/// `10M`, `10MiB`, `10MB`, `1.5g`, `512`: powers of 1024 all of them; a bare number is bytes.
pub fn parse_bytes(text: &str) -> Option<NonZeroU64> {
    let lower = text.to_ascii_lowercase();
    let number_length = lower.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(number_length);
    let factor = match unit {
        "" | "b" => 1,
        unit => {
            let letter = unit.chars().next()?;
            let (_, factor) = UNITS.into_iter().find(|(known, _)| *known == letter)?;
            matches!(&unit[1..], "" | "b" | "ib").then_some(factor)?
        }
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let fraction = fraction.trim_end_matches('0');
    // Exact: as many digits as this make a whole number of bytes of any size that there is.
    if whole.is_empty() || fraction.len() > 15 || number.ends_with('.') {
        return None;
    }
    let of_fraction = match fraction {
        "" => 0,
        digits => digits.parse::<u128>().ok()? * u128::from(factor) / 10u128.pow(digits.len() as u32),
    };
    let bytes = whole.parse::<u128>().ok()?.checked_mul(u128::from(factor))?.checked_add(of_fraction)?;
    NonZeroU64::new(u64::try_from(bytes).ok()?)
}

/// Bytes per second, for an argument.
pub fn parse_rate(text: &str) -> Result<NonZeroU64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}` is no rate: write bytes per second as in 10M, 1.5GiB or 500K"))
}

/// A number of bytes, for an argument.
pub fn parse_size(text: &str) -> Result<NonZeroU64, String> {
    parse_bytes(text).ok_or_else(|| format!("`{text}` is no size: write bytes as in 10G, 1.5GiB or 500M"))
}

/// Where to listen, for an argument: `127.0.0.1:7600`, `[::1]:7600`, `localhost:7600`, or `:7600` for every address of this
/// machine. Of a name with several addresses the first of IPv4 is taken.
pub fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    let wrong =
        || format!("`{text}` is no address to listen on: write HOST:PORT, as in localhost:7600, or :PORT for all");
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
