//! What is answered.

use crate::outgoing::Unread;
use crate::server::room::Holding;
use crate::wire::{ErrorBody, kind_name};
use bytes::Bytes;
use hyper::StatusCode;
use weft_nodes::error::NodeError;

pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) error: &'static str,
    pub(super) body: Bytes,
    /// What of the body is still to be read.
    pub(super) unread: Option<Box<Unread>>,
    /// What it holds until it is sent.
    pub(super) held: Option<Holding>,
}

impl Reply {
    pub(super) fn ok(body: impl Into<Bytes>) -> Self {
        Self { status: StatusCode::OK, error: "", body: body.into(), unread: None, held: None }
    }

    pub(super) fn json(body: &impl serde::Serialize) -> Self {
        Self::ok(serde_json::to_vec(body).expect("numbers and strings are JSON"))
    }

    pub(super) fn refused(status: StatusCode, error: &'static str, detail: impl Into<String>) -> Self {
        Self { status, error, ..Self::json(&ErrorBody { detail: detail.into() }) }
    }

    /// Why it is no answer of the node, if it is none: what was asked makes no sense, or not from whom it came.
    pub(super) fn complaint(&self) -> Option<String> {
        let is_node = !self.error.is_empty() || !self.status.is_client_error();
        if is_node || self.status == StatusCode::RANGE_NOT_SATISFIABLE {
            return None;
        }
        serde_json::from_slice(&self.body).map(|body: ErrorBody| body.detail).ok()
    }

    /// It has too much to do for this connection.
    pub(super) fn ask_later(detail: &str) -> Self {
        Self::refused(StatusCode::TOO_MANY_REQUESTS, "", detail)
    }

    pub(super) fn invalid(detail: impl Into<String>) -> Self {
        Self::refused(StatusCode::BAD_REQUEST, "", detail)
    }
}

impl From<NodeError> for Reply {
    fn from(error: NodeError) -> Self {
        let (name, status) = kind_name(error.kind);
        Self::refused(status, name, error.detail)
    }
}
