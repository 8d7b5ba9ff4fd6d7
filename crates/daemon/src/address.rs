//! Where a daemon is and how it is spoken with, as text: what follows `weft://` or `weft+tls://`.
//!
//! ```text
//! weft://host:port                       signed, and readable to those who listen
//! weft+tls://host:port/sha256:HEX        TLS; the daemon's certificate is the one with this fingerprint
//! weft+tls://host:port/ca:/path          TLS; the certificate is for this host, by an authority in this file
//! weft+tls://host:port                   TLS; the certificate is for this host, by an authority that this machine trusts
//! ```

use super::tls::Trust;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::str::FromStr;
use weft_nodes::UrlError;
use weft_nodes::url::{percent_decode, percent_encode};

/// Where a daemon listens if nothing else is said.
pub const DAEMON_PORT: u16 = 7600;

/// A daemon's address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DaemonUrl {
    /// Host and port.
    pub authority: String,
    /// TLS, and by what the daemon's certificate is known; none: without.
    pub tls: Option<Trust>,
}

impl DaemonUrl {
    /// Reads what follows `weft://` or `weft+tls://`.
    ///
    /// # Errors
    /// It names no daemon.
    pub fn parse(scheme: &str, rest: &str) -> Result<Self, UrlError> {
        let tls = match scheme {
            "weft" => Some(false),
            "weft+tls" => Some(true),
            _ => None,
        };
        tls.and_then(|tls| Self::read(tls, rest)).ok_or_else(|| {
            UrlError::Unfit(format!(
                "`{scheme}://{rest}` names no daemon: write `weft://host:port`, or `weft+tls://host:port/sha256:HEX` as the daemon \
                 says it, or `weft+tls://host:port/ca:/path/of/its/authority`"
            ))
        })
    }

    /// As others say that a daemon is reached; `None`: it is no such address, or it names a file of this machine, of which they cannot know.
    #[must_use]
    pub fn of_rumour(text: &str) -> Option<Self> {
        text.parse::<Self>().ok().filter(|url| !matches!(url.tls, Some(Trust::Authority(_))))
    }

    /// What `weft://` or, with `tls`, `weft+tls://` is followed by. A slash at the end does no harm, and what follows `#` is a
    /// mark that only tells addresses apart.
    fn read(tls: bool, rest: &str) -> Option<Self> {
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
        // Brackets are around an address of IPv6 or nowhere: the parser takes a lone one for part of a name, if no port follows.
        let name =
            authority.host().strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(authority.host());
        let is_plain = !name.is_empty() && !name.contains(['[', ']']) && !authority.as_str().contains('@');
        let port = match authority.port() {
            Some(port) => port.as_u16(),
            // `host:` has an empty port, which is none.
            None if authority.as_str().len() == authority.host().len() => DAEMON_PORT,
            None => return None,
        };
        is_plain.then(|| Self { authority: format!("{}:{port}", authority.host()), tls })
    }
}

impl FromStr for DaemonUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        Self::parse(scheme, rest)
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
