//! Why a request to a server did not give what was asked for.

use crate::kv::KvError;
use std::time::Duration;

/// A server that is away, or fails over to another, is waited for so long: then the operation fails with one sentence.
pub(in crate::engines) const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a request did not give what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engines) enum Failure {
    /// A check did not hold, or two transactions waited for each other.
    Conflict,
    /// The server is away, or does not take changes yet: the request may be done, or not.
    Lost(String),
    /// The attempt was committed before.
    Done,
    /// Another process took the place of this session.
    Fenced,
    /// The server's disk is full.
    Full,
    /// What is stored is not what was written.
    Damaged(String),
    /// Anything else.
    Failed(String),
}

/// What to do about a server that cannot be reached for this reason: what is to be done otherwise, unless its certificate is not trusted.
pub(in crate::engines) fn mend<'t>(why: &str, otherwise: &'t str) -> &'t str {
    // rustls begins so in every case.
    if why.starts_with("invalid peer certificate") {
        "name the authority that signed the server's certificate by SSL_CERT_FILE, and the server as its certificate does"
    } else {
        otherwise
    }
}

/// Of a delta.
pub(in crate::engines) const MISSING: &str = "the record that a change is to be added to is missing";

impl Failure {
    /// As operations have it.
    pub fn into_error(self, store: &str) -> KvError {
        let store = store.to_owned();
        match self {
            Self::Conflict | Self::Done => KvError::Conflict,
            Self::Lost(why) => {
                let mend = mend(&why, "see that it runs and can be reached, and try again");
                let detail = format!("its server does not answer for {} s ({why}); {mend}", TIMEOUT.as_secs());
                KvError::Failed { store, detail }
            }
            Self::Fenced => KvError::Displaced {
                sentence: format!(
                    "this process gave no sign of life to the metadata server of {store} for too long, and another took its place; end it, and start it again"
                ),
            },
            Self::Full => KvError::Full { store },
            Self::Damaged(detail) => KvError::Damaged { store, detail },
            Self::Failed(detail) => KvError::Failed { store, detail },
        }
    }
}
