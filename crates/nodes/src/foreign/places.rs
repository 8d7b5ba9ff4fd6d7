//! Asks a NameNode of HDFS on which DataNode files are.

use super::answer::Checked;
use super::credentials::Credentials;
use super::datanode::{DataNode, Place};
use super::failure::Refusal;
use super::service::Authority;
use super::url::ForeignUrl;
use crate::error::NodeErrorKind;
use crate::url::percent_encode;
use http::{Request, StatusCode};
use opendal::{Buffer, HttpTransport};

/// Where the files of a node are.
pub(super) struct Places {
    pub(super) datanode: DataNode,
    transport: Checked,
    /// Address of the node's folder.
    base: String,
    /// Who asks, for the end of an address.
    user: String,
}

impl Places {
    /// Of a node that is bound to a DataNode.
    pub(super) fn new(datanode: DataNode, url: &ForeignUrl, credentials: &Credentials) -> Result<Self, reqwest::Error> {
        let Authority::Host { prefix, .. } = url.service.authority else {
            unreachable!("services with DataNodes are on hosts");
        };
        let path =
            if url.path.is_empty() { String::new() } else { format!("/{}", percent_encode(url.path.as_bytes())) };
        let user = url.options.get("user").map(|user| format!("&user.name={}", percent_encode(user.as_bytes())));
        let token = credentials.get("delegation").map(|token| format!("&delegation={token}"));
        Ok(Self {
            transport: Checked::new(url.service.follows_redirects, None)?,
            base: format!("{prefix}{}/webhdfs/v1{path}", url.authority),
            user: user.into_iter().chain(token).collect(),
            datanode,
        })
    }

    /// Where the blocks of a file below the node's folder are.
    pub(super) async fn of(&self, file: &str) -> opendal::Result<Place> {
        let address = format!("{}/{file}?op=GETFILEBLOCKLOCATIONS{}", self.base, self.user);
        let unknown = |detail: String| opendal::Error::from(Refusal { kind: NodeErrorKind::Io, detail });
        let request = Request::get(address).body(Buffer::new()).map_err(|error| unknown(error.to_string()))?;
        let answer = self.transport.fetch(request).await?;
        let status = answer.status();
        let answer = answer.into_body().to_buffer().await?.to_bytes();
        let place = self.datanode.place(&answer).filter(|_| status == StatusCode::OK);
        let detail = || format!("the NameNode does not say on which DataNode a file is (HTTP {})", status.as_u16());
        place.ok_or_else(|| unknown(detail()))
    }
}
