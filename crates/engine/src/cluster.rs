//! The daemons of a cluster, as some of them know it: `weft node list --from`.

use crate::care::LOOK_DEADLINE;
use crate::object_member::Access;
use crate::reports::LinkLine;
use crate::serving::{ServeError, daemon_url, read_key};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use tokio::task::JoinSet;
use weft_cluster::gossip::Heard;
pub use weft_cluster::gossip::{Facts, Liveness};
use weft_daemon::DaemonUrl;
use weft_env::Env;
use weft_format::NodeIdentity;
use weft_nodes::NodeError;

/// A daemon of a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterMember {
    /// The facts that it reports.
    #[serde(flatten)]
    pub facts: Facts,
    /// Its state, according to most of the daemons asked.
    pub state: Liveness,
    /// How unusual its silence is to the daemons asked, at most.
    pub phi: f64,
    /// How many of the daemons asked know it.
    pub known_by: usize,
    /// Its links, if it has several: the addresses under which it is reached from here.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<LinkLine>,
}

/// The answers of the daemons asked.
#[derive(Clone, Debug)]
pub struct ClusterReport {
    /// All that they know, by address.
    pub members: Vec<ClusterMember>,
    /// Why other daemons did not answer; a sentence each.
    pub refused: Vec<String>,
}

/// Asks each of `from` (`HOST:PORT` or URLs), with the key in the file `cluster_key`. One that answers is enough. Then all links of members that have
/// several are probed, which takes a second more at most.
///
/// # Errors
/// No daemon's address; the key file cannot be used. It is no error if no daemon answers: the report has no members then.
pub async fn cluster_report(
    from: &[String],
    cluster_key: Option<&Path>,
    env: &Env,
) -> Result<ClusterReport, ServeError> {
    let access = cluster_key.map(read_key).transpose()?.map(|key| Access { key, grant: None });
    let mut report = report_by(from, access.clone(), env).await?;
    let key = access.map(|access| access.key);
    let mut looked = JoinSet::new();
    for (at, member) in report.members.iter().enumerate().filter(|(_, member)| !member.facts.further.is_empty()) {
        let Facts { address, volume, node, further, .. } = &member.facts;
        let Some(url) = DaemonUrl::of_rumour(address) else { continue };
        // One that belongs to no volume yet has none.
        let identity = volume.parse().ok().zip(node.parse().ok()).map(|(volume, node)| NodeIdentity { volume, node });
        let (further, key, env) = (further.clone(), key.clone(), env.clone());
        looked.spawn(async move {
            let links = weft_daemon::links(&url, identity, &further, key, &env).await;
            (at, links.unwrap_or_default())
        });
    }
    for (at, links) in looked.join_all().await {
        report.members[at].links = links.into_iter().map(LinkLine::of).collect();
    }
    Ok(report)
}

/// The same with the key of a grant, or none.
pub(crate) async fn report_by(from: &[String], access: Option<Access>, env: &Env) -> Result<ClusterReport, ServeError> {
    let urls = from.iter().map(|text| daemon_url(text)).collect::<Result<Vec<_>, _>>()?;
    let mut asked = JoinSet::new();
    for url in urls {
        let (access, env) = (access.clone(), env.clone());
        asked.spawn(async move {
            match env.clock.timeout(LOOK_DEADLINE, ask(&url, access, &env)).await {
                Ok(heard) => heard.map_err(|error| error.to_string()),
                Err(_) => Err(format!("{url} did not answer within {} s", LOOK_DEADLINE.as_secs())),
            }
        });
    }
    let (told, refused): (Vec<_>, Vec<_>) = asked.join_all().await.into_iter().partition(Result::is_ok);
    let mut refused: Vec<String> = refused.into_iter().filter_map(Result::err).collect();
    refused.sort();
    Ok(ClusterReport { members: merged(told.into_iter().flatten().flatten()), refused })
}

async fn ask(url: &DaemonUrl, access: Option<Access>, env: &Env) -> Result<Vec<Heard>, NodeError> {
    match access {
        Some(Access { key, grant: Some(grant) }) => weft_daemon::members_granted(url, key, grant, env).await,
        access => weft_daemon::members(url, None, access.map(|access| access.key), env).await,
    }
}

/// The answers of several daemons, by address: the latest facts, and the state that most daemons report.
fn merged(told: impl Iterator<Item = Heard>) -> Vec<ClusterMember> {
    let mut by_address: BTreeMap<String, Vec<Heard>> = BTreeMap::new();
    for heard in told {
        by_address.entry(heard.facts.address.clone()).or_default().push(heard);
    }
    let member = |mut heard: Vec<Heard>| {
        heard.sort_by_key(|heard| (heard.facts.started_ms, heard.facts.sequence));
        let votes = |liveness| heard.iter().filter(|heard| heard.liveness == liveness).count();
        let state = [Liveness::Dead, Liveness::Suspect, Liveness::Alive].into_iter().max_by_key(|of| votes(*of))?;
        let phi = heard.iter().map(|heard| heard.phi).fold(0.0, f64::max);
        let known_by = heard.len();
        Some(ClusterMember { facts: heard.pop()?.facts, state, phi, known_by, links: Vec::new() })
    };
    by_address.into_values().filter_map(member).collect()
}
