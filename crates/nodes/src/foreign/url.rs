//! Addresses of nodes on storage of others: `scheme://authority/path?option=value&option=value`. They hold no secrets, since
//! they are shown.

use super::service::{self, Authority, Service};
use crate::url::{percent_decode, percent_encode};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A place on storage of others.
#[derive(Clone, Debug)]
pub struct ForeignUrl {
    pub(super) service: &'static Service,
    /// A bucket, a host with a port and perhaps a user, or a name for an account.
    pub(super) authority: String,
    /// Without slashes at its ends.
    pub(super) path: String,
    /// By name; ordered, so that one place has one text.
    pub(super) options: BTreeMap<&'static str, String>,
}

/// How much the node may hold; the only option that all services have.
const QUOTA: &str = "quota";

/// Which DataNode of HDFS the node is.
const DATANODE: &str = "datanode";

/// Text that is no such address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForeignUrlError {
    /// What follows `://` is neither a bucket, a host nor a name.
    #[error("`{authority}` is not {expected}")]
    Authority {
        /// What is there.
        authority: String,
        /// What should be.
        expected: &'static str,
    },
    /// Empty steps, `.` and `..`, and what cannot be printed.
    #[error("`/{0}` is no path: leave out empty steps, `.`, `..` and control characters")]
    Path(String),
    /// A percent sign without two hex digits, or bytes that are no text.
    #[error("it has a broken percent escape: write `%25` for a percent sign")]
    Escape,
    /// An option that does not exist.
    #[error("{scheme} has no option `{name}`: it has {known}")]
    UnknownOption {
        /// Before `://`.
        scheme: &'static str,
        /// What was given.
        name: String,
        /// What there is.
        known: String,
    },
    /// An option without a value, or given twice.
    #[error("option `{0}` needs one value: write `{0}=VALUE` once")]
    Value(String),
    /// A secret where everybody sees it.
    #[error(
        "`{name}` is a secret and addresses are shown: write `{name} = VALUE` into a file and give it with --key FILE"
    )]
    Secret {
        /// The setting.
        name: String,
    },
    /// No DataNode.
    #[error("`{0}` is no DataNode: write HOST or HOST:PORT, its HTTP address, with the host as the NameNode names it")]
    DataNode(String),
    /// No number of bytes.
    #[error("`{0}` is no quota: write a number and kB, MB, GB, TB, KiB, MiB, GiB or TiB, such as 500GB")]
    Quota(String),
}

impl ForeignUrl {
    /// `rest` is what follows `://`; `None` for schemes of others.
    pub(crate) fn parse(scheme: &str, rest: &str) -> Option<Result<Self, ForeignUrlError>> {
        let service = service::of_scheme(scheme)?;
        Some(parse(service, rest))
    }

    /// Its kind's name.
    pub fn kind(&self) -> &'static str {
        self.service.kind
    }

    /// The most bytes that the node may hold, if that was said.
    pub fn quota_bytes(&self) -> Option<u64> {
        self.options.get(QUOTA).and_then(|text| bytes(text))
    }

    /// The DataNode that the node is bound to, and the port that it has where none is given.
    #[cfg(feature = "foreign")]
    pub(super) fn datanode(&self) -> Option<(&str, u16)> {
        Some((self.options.get(DATANODE)?, self.service.datanode_port?))
    }

    /// Names that a key file for it may hold.
    pub fn secret_names(&self) -> impl Iterator<Item = &'static str> {
        self.service.secrets.iter().map(|secret| secret.name)
    }
}

fn parse(service: &'static Service, rest: &str) -> Result<ForeignUrl, ForeignUrlError> {
    // What follows `#` is a mark that only tells addresses apart.
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = place.split_once('/').unwrap_or((place, ""));
    let expected = match service.authority {
        Authority::Bucket(_) | Authority::Account if is_bucket(authority) => None,
        Authority::Bucket(_) => Some("the name of a bucket: give lower-case letters, digits, `.`, `-` and `_`"),
        Authority::Account => {
            Some("a name that you choose for the account: give lower-case letters, digits, `.`, `-` and `_`")
        }
        Authority::Host { may_have_user: true, .. }
            if is_host(authority.rsplit_once('@').map_or(authority, |(_, host)| host)) =>
        {
            None
        }
        Authority::Host { may_have_user: false, .. } if is_host(authority) => None,
        Authority::Host { may_have_user: true, .. } => Some("a host: give HOST, HOST:PORT or USER@HOST:PORT"),
        Authority::Host { may_have_user: false, .. } => {
            Some("a host: give HOST or HOST:PORT, and who you are with --key FILE")
        }
    };
    if let Some(expected) = expected {
        return Err(ForeignUrlError::Authority { authority: without_password(authority), expected });
    }
    let path = decode(path.trim_end_matches('/'))?;
    let is_step = |step: &str| !matches!(step, "" | "." | "..");
    if path.chars().any(char::is_control) || !(path.is_empty() || path.split('/').all(is_step)) {
        return Err(ForeignUrlError::Path(path));
    }
    let mut options = BTreeMap::new();
    for option in query.split('&').filter(|option| !option.is_empty()) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let name = known_option(service, name)?;
        let value = decode(value)?;
        if name == QUOTA && bytes(&value).is_none() {
            return Err(ForeignUrlError::Quota(value));
        }
        if name == DATANODE && !is_host(&value) {
            return Err(ForeignUrlError::DataNode(value));
        }
        if value.is_empty() || value.chars().any(char::is_control) || options.insert(name, value).is_some() {
            return Err(ForeignUrlError::Value(name.to_owned()));
        }
    }
    Ok(ForeignUrl { service, authority: authority.to_owned(), path, options })
}

fn known_option(service: &Service, name: &str) -> Result<&'static str, ForeignUrlError> {
    let datanode = service.datanode_port.map(|_| DATANODE);
    let known = || service.options.iter().map(|option| option.name).chain(datanode).chain([QUOTA]);
    if let Some(known) = known().find(|known| *known == name) {
        return Ok(known);
    }
    // OpenDAL's own names for secrets too: whoever knows them expects them here.
    if service.secrets.iter().any(|secret| secret.name == name || secret.opendal == name) {
        return Err(ForeignUrlError::Secret { name: name.to_owned() });
    }
    let known = known().collect::<Vec<_>>().join(", ");
    Err(ForeignUrlError::UnknownOption { scheme: service.scheme, name: name.to_owned(), known })
}

fn is_bucket(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_');
    !text.is_empty() && text.len() <= 255 && text.bytes().all(allowed)
}

fn is_host(text: &str) -> bool {
    let Ok(authority) = text.parse::<http::uri::Authority>() else { return false };
    let has_right_port = match authority.port() {
        Some(port) => port.as_u16() > 0,
        None => authority.as_str().len() == authority.host().len(),
    };
    !authority.host().is_empty() && !text.contains('@') && has_right_port
}

/// As it may be shown: what follows a colon and is no port may be a password, whole or in part.
fn without_password(authority: &str) -> String {
    match authority.split_once(':') {
        Some((_, port)) if !port.bytes().all(|byte| byte.is_ascii_digit()) => "...".to_owned(),
        _ => authority.to_owned(),
    }
}

fn decode(text: &str) -> Result<String, ForeignUrlError> {
    let bytes = percent_decode(text.as_bytes()).ok_or(ForeignUrlError::Escape)?;
    String::from_utf8(bytes).map_err(|_| ForeignUrlError::Escape)
}

/// `500GB`, `2 TiB`: more than nothing.
fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, u64); 8] = [
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("TB", 1_000_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("TiB", 1 << 40),
    ];
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.parse::<u64>().ok()?.checked_mul(*unit).filter(|bytes| *bytes > 0)
}

impl fmt::Display for ForeignUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.service.scheme, self.authority)?;
        if !self.path.is_empty() {
            write!(f, "/{}", percent_encode(self.path.as_bytes()))?;
        }
        for (number, (name, value)) in self.options.iter().enumerate() {
            let mark = if number == 0 { '?' } else { '&' };
            // Colons need no escape here, and endpoints have them.
            write!(f, "{mark}{name}={}", percent_encode(value.as_bytes()).replace("%3A", ":"))?;
        }
        Ok(())
    }
}

impl PartialEq for ForeignUrl {
    fn eq(&self, other: &Self) -> bool {
        let key = |url: &Self| (url.service.scheme, url.authority.clone(), url.path.clone(), url.options.clone());
        key(self) == key(other)
    }
}

impl Eq for ForeignUrl {}

impl Hash for ForeignUrl {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.service.scheme, &self.authority, &self.path, &self.options).hash(state);
    }
}

#[cfg(test)]
#[path = "url_tests.rs"]
mod tests;
