//! Where a store is: `//[USER@]HOST[:PORT][,HOST[:PORT]...][/NAME][?tls=on|off]`, and how its servers are reached.
//!
//! An address is shown in lists of processes, tables of mounts and messages, so it has no password: that comes from
//! `ETCDCTL_PASSWORD`, as with etcd's own program.

use std::ffi::OsStr;

/// What a store is called if the address has no name for it.
const NAME: &str = "weft";
const NAME_BYTES_MAX: usize = 63;
const PORT: u16 = 2379;

/// A store, and the servers that have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// `http://HOST:PORT` of each member, with TLS `https`.
    pub members: Vec<String>,
    pub has_tls: bool,
    pub user: Option<String>,
    /// What its keys begin with.
    pub prefix: Vec<u8>,
    /// As commands take it.
    pub shown: String,
}

/// Why a place is none.
pub(super) fn refuse(place: &OsStr) -> Option<&'static str> {
    parse(place).err()
}

/// # Errors
/// A clause that ends in the mend.
pub(super) fn parse(place: &OsStr) -> Result<Address, &'static str> {
    const FORM: &str = "it names no server; write etcd://HOST:PORT,HOST:PORT/NAME";
    let place = place.to_str().ok_or("it is not UTF-8; write etcd://HOST:PORT/NAME")?;
    let rest = place.strip_prefix("//").ok_or(FORM)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (servers, name) = rest.split_once('/').unwrap_or((rest, NAME));
    let (user, hosts) = match servers.rsplit_once('@') {
        Some((user, _)) if user.contains(':') => {
            return Err("everybody can read an address; leave the password out, and give it by ETCDCTL_PASSWORD");
        }
        Some((user, hosts)) => (Some(user.to_owned()), hosts),
        None => (None, servers),
    };
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.chars().all(is_of_name) {
        return Err("a store's name has letters, digits and `_-.`, at most 63; write etcd://HOST/NAME");
    }
    let hosts = hosts.split(',').map(host_and_port).collect::<Option<Vec<_>>>().ok_or(FORM)?;
    let has_tls = match query {
        "" => !hosts.iter().all(|(host, _)| is_here(host)),
        "tls=on" => true,
        "tls=off" => false,
        _ => return Err("all that may follow is ?tls=on or ?tls=off; correct it"),
    };
    let scheme = if has_tls { "https" } else { "http" };
    Ok(Address {
        members: hosts.iter().map(|(host, port)| format!("{scheme}://{host}:{port}")).collect(),
        has_tls,
        user,
        prefix: format!("{name}/").into_bytes(),
        shown: format!("etcd:{place}"),
    })
}

/// `HOST`, `HOST:PORT` or `[ADDRESS]:PORT`.
fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let is_of_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let end = rest.find(']')?;
            rest[..end].parse::<std::net::Ipv6Addr>().ok()?;
            (&text[..end + 2], &rest[end + 1..])
        }
        None => {
            let end = text.find(':').unwrap_or(text.len());
            let host = &text[..end];
            (!host.is_empty() && host.chars().all(is_of_host)).then_some(())?;
            (host, &text[end..])
        }
    };
    let port = if port.is_empty() { PORT } else { port.strip_prefix(':')?.parse().ok()? };
    Some((host, port))
}

/// It is a name or an address of this machine for itself.
fn is_here(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || address.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
