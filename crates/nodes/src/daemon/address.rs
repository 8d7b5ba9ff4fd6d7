//! Where a daemon is and how it is spoken with, as text: what follows `weft://` or `weft+tls://`.
//!
//! ```text
//! weft://host:port                       signed, and readable to those who listen
//! weft+tls://host:port/sha256:HEX        TLS; the daemon's certificate is the one with this fingerprint
//! weft+tls://host:port/ca:/path          TLS; the certificate is for this host, by an authority in this file
//! weft+tls://host:port                   TLS; the certificate is for this host, by an authority that this machine trusts
//! ```

use super::tls::Trust;
use crate::url::{DAEMON_PORT, percent_decode, percent_encode};
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A daemon's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DaemonUrl {
    /// Host and port.
    pub authority: String,
    /// TLS, and by what the daemon's certificate is known; none: without.
    pub tls: Option<Trust>,
}

impl DaemonUrl {
    /// What `weft://` or, with `tls`, `weft+tls://` is followed by. A slash at the end does no harm, and what follows `#` is a
    /// mark that only tells addresses apart.
    pub(crate) fn parse(tls: bool, rest: &str) -> Option<Self> {
        let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
        let (authority, trust) = rest.split_once('/').unwrap_or((rest, ""));
        let tls = match (tls, trust.split_once(':')) {
            (false, None) if trust.is_empty() => None,
            (true, None) if trust.is_empty() => Some(Trust::System),
            (true, Some(("sha256", fingerprint))) => Some(Trust::Certificate(fingerprint.parse().ok()?)),
            (true, Some(("ca", path))) if path.starts_with('/') => {
                Some(Trust::Authority(PathBuf::from(OsString::from_vec(percent_decode(path.as_bytes())?))))
            }
            _ => return None,
        };
        let authority: hyper::http::uri::Authority = authority.parse().ok()?;
        let is_plain = !authority.host().is_empty() && !authority.as_str().contains('@');
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            // `host:` has an empty port, which is none.
            None if authority.as_str().len() == authority.host().len() => DAEMON_PORT,
            None => return None,
        };
        is_plain.then(|| Self { authority: format!("{}:{port}", authority.host()), tls })
    }
}

impl fmt::Display for DaemonUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let authority = &self.authority;
        match &self.tls {
            None => write!(f, "weft://{authority}"),
            Some(Trust::System) => write!(f, "weft+tls://{authority}"),
            Some(Trust::Certificate(fingerprint)) => write!(f, "weft+tls://{authority}/sha256:{fingerprint}"),
            Some(Trust::Authority(path)) => {
                write!(f, "weft+tls://{authority}/ca:{}", percent_encode(path.as_os_str().as_bytes()))
            }
        }
    }
}
