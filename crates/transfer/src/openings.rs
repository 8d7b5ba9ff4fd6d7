//! What a volume's nodes know of its openings (`weft_format::records::Opening`), and telling them of a new one.
//!
//! A node holds an opening as a shard under a reserved name with the opening's number, so that its own put, which gives no name away
//! twice, decides between two who take the same number; where a put replaces, whoever came first finds the other's at its next look.
//! On each node the numbers have no gap while a newer one takes an older one's place: an older opening always finds either the number
//! after its own, or its own gone. So a look is two small requests a node, and only a node that lacks the latest opening is listed.

use crate::bounded::within;
use crate::in_flight::{Call, InFlight};
use crate::transfer::Transfer;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use weft_env::Clock;
use weft_format::geometry::Geometry;
use weft_format::records::{OPENINGS, Opening, opening_key};
use weft_format::shard::{HEADER_BYTES, ShardBuilder, ShardHeader, ShardIdentity, verify_object};
use weft_format::{NodeId, ShardKey, VolumeId};
use weft_nodes::{Node, NodeError, NodeErrorKind};

/// A node that takes longer to say whether it has the latest opening is asked again in the next look.
const LOOK_DEADLINE: Duration = Duration::from_secs(2);
/// ... and to list its openings, where it has not: some list all they hold for that.
const LIST_DEADLINE: Duration = Duration::from_secs(30);
/// ... and to take a new opening.
const PUBLISH_DEADLINE: Duration = Duration::from_secs(4);

/// An opening is a few dozen bytes.
const OBJECT_BYTES_MAX: u64 = 4096;

/// Names listed at once; a node holds one or two openings.
const PAGE: usize = 64;

/// What nodes know.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownOpenings {
    /// The newest that is not the latest of the metadata: of a greater number, or another of the same.
    pub newer: Option<Opening>,
    /// The numbers that nodes hold which answered, as far as they were asked for.
    pub held: BTreeMap<NodeId, BTreeSet<u32>>,
}

impl KnownOpenings {
    /// Nodes that answered and lack the opening of this number.
    pub fn lacks(&self, number: u32) -> bool {
        self.held.values().any(|held| !held.contains(&number))
    }
}

/// What one node holds.
struct Found {
    newer: Option<Opening>,
    held: BTreeSet<u32>,
}

impl Transfer {
    /// Asks all nodes, at once, whether they know a newer opening than the latest of the metadata. Those that do not answer soon
    /// count for nothing. Without a latest one every node is asked for all that it holds.
    pub fn look_for_openings(&self, latest: Option<Opening>) -> Call<'_, KnownOpenings> {
        Box::pin(async move {
            let (volume, clock) = (self.inner.volume, self.inner.fleet.clock());
            let nodes = self.inner.fleet.handles(self.inner.class);
            let mut looks = InFlight::new();
            for handle in nodes.values() {
                looks.push(handle, Box::pin(look(&*handle.node, volume, latest, clock)));
            }
            let mut known = KnownOpenings::default();
            while let Some((handle, found)) = looks.next().await {
                match found {
                    Ok(Found { newer, held }) => {
                        known.held.insert(handle.id, held);
                        let newest = known.newer.map_or(0, |newer| newer.number);
                        known.newer = newer.filter(|newer| newer.number > newest).or(known.newer);
                    }
                    Err(error) => tracing::debug!(node = handle.name, %error, "does not say which openings it knows"),
                }
            }
            known
        })
    }

    /// Lets those nodes know of an opening that answered, and forget older ones. The other's, if a node has another of its number. Nodes
    /// that do not take it are told in a later round.
    pub fn publish_opening<'a>(
        &'a self,
        opening: Opening,
        held: &'a BTreeMap<NodeId, BTreeSet<u32>>,
    ) -> Call<'a, Option<Opening>> {
        Box::pin(async move {
            let (volume, clock) = (self.inner.volume, self.inner.fleet.clock());
            let nodes = self.inner.fleet.handles(self.inner.class);
            let mut tellings = InFlight::new();
            for (id, held) in held.iter().filter(|(_, held)| !held.contains(&opening.number)) {
                let Some(handle) = nodes.get(id) else { continue };
                tellings.push(
                    handle,
                    Box::pin(within(clock, PUBLISH_DEADLINE, tell(&*handle.node, volume, opening, held))),
                );
            }
            let mut other = None;
            while let Some((handle, told)) = tellings.next().await {
                match told {
                    Ok(None) => {}
                    Ok(Some(found)) => other = Some(found),
                    Err(error) => tracing::debug!(node = handle.name, %error, "is not told of the opening yet"),
                }
            }
            other
        })
    }
}

async fn look(
    node: &dyn Node,
    volume: VolumeId,
    latest: Option<Opening>,
    clock: &dyn Clock,
) -> Result<Found, NodeError> {
    if let Some(latest) = latest
        && let Some(found) = within(clock, LOOK_DEADLINE, look_at(node, volume, latest)).await?
    {
        return Ok(found);
    }
    let held = within(clock, LIST_DEADLINE, list(node)).await?;
    let newest = held.last().copied().filter(|newest| *newest > latest.map_or(0, |latest| latest.number));
    let newer = match newest {
        Some(newest) => Some(named(newest, within(clock, LOOK_DEADLINE, read(node, volume, newest)).await)?),
        None => None,
    };
    Ok(Found { newer, held })
}

/// What the node has under the number of the latest opening and the next one; `None`: it does not have the latest, or it is damaged.
async fn look_at(node: &dyn Node, volume: VolumeId, latest: Opening) -> Result<Option<Found>, NodeError> {
    let found = match read(node, volume, latest.number).await {
        Err(error) if matches!(error.kind, NodeErrorKind::NotFound | NodeErrorKind::Corrupt) => return Ok(None),
        found => found?,
    };
    let next = latest.number.saturating_add(1);
    let newer = match found == latest {
        true => if_there(named(next, read(node, volume, next).await))?,
        false => Some(found),
    };
    Ok(Some(Found { newer, held: [latest.number].into() }))
}

/// One that is damaged is there all the same: its name says which number was taken.
fn named(number: u32, outcome: Result<Opening, NodeError>) -> Result<Opening, NodeError> {
    match outcome {
        Err(error) if error.kind == NodeErrorKind::Corrupt => Ok(Opening { number, tag: 0, began_ms: 0 }),
        outcome => outcome,
    }
}

fn if_there<T>(outcome: Result<T, NodeError>) -> Result<Option<T>, NodeError> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind == NodeErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Puts an opening where older ones are, and removes these.
async fn tell(
    node: &dyn Node,
    volume: VolumeId,
    opening: Opening,
    held: &BTreeSet<u32>,
) -> Result<Option<Opening>, NodeError> {
    let number = opening.number;
    let mut older: BTreeSet<u32> = held.iter().copied().filter(|held| *held < number).collect();
    // An older opening must find the number after its own as long as it finds its own: what is there says that it is over.
    let after: Vec<u32> = older.iter().map(|held| held.saturating_add(1)).filter(|next| *next < number).collect();
    for next in after {
        if older.insert(next) {
            put(node, volume, next, opening).await?;
        }
    }
    if let Err(error) = put(node, volume, number, opening).await {
        if error.kind != NodeErrorKind::Exists {
            return Err(error);
        }
        return Ok(Some(read(node, volume, number).await?));
    }
    if !node.capability().puts_conditionally {
        let found = read(node, volume, number).await?;
        if found != opening {
            return Ok(Some(found));
        }
    }
    for number in older {
        // What a telling that was cut off has left lies just below, and goes first: no opening must find its own number without the next one.
        let mut first = number;
        while first > 1 && if_there(named(first - 1, read(node, volume, first - 1).await))?.is_some() {
            first -= 1;
        }
        for number in first..=number {
            match node.remove(opening_key(number)).await {
                Err(error) if error.kind != NodeErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(None)
}

async fn put(node: &dyn Node, volume: VolumeId, number: u32, opening: Opening) -> Result<(), NodeError> {
    node.put(opening_key(number), &[object(volume, number, opening)]).await
}

/// What is there under a number, whichever opening that is.
async fn read(node: &dyn Node, volume: VolumeId, number: u32) -> Result<Opening, NodeError> {
    let key = opening_key(number);
    let object = node.get(key, 0..OBJECT_BYTES_MAX).await?;
    parse(volume, key, &object)
        .map_err(|detail| NodeError::new(NodeErrorKind::Corrupt, "of the volume", format!("its {key}: {detail}")))
}

/// The numbers of all openings that a node holds.
async fn list(node: &dyn Node) -> Result<BTreeSet<u32>, NodeError> {
    let mut held = BTreeSet::new();
    loop {
        let page = node.list(Some(opening_key(held.last().copied().unwrap_or(0))), PAGE).await?;
        let before = held.len();
        held.extend(page.keys.iter().filter(|key| key.segment == OPENINGS).map(|key| key.generation.0));
        if !page.more || held.len() == before {
            return Ok(held);
        }
    }
}

/// The opening as a shard of one frame.
fn object(volume: VolumeId, number: u32, opening: Opening) -> Bytes {
    let payload = opening.encode();
    let geometry = Geometry::new(payload.len() as u64, 1, 1, 1, OBJECT_BYTES_MAX as u32);
    let identity = ShardIdentity { volume, key: opening_key(number) };
    let header = ShardHeader { identity, code: CODE.into(), geometry: geometry.expect("a few dozen bytes fit") };
    let mut builder = ShardBuilder::new(&header).expect("the header is right");
    builder.write(0, &payload).expect("it is as long as the geometry says");
    builder.finish().0
}

/// It is there once.
const CODE: &str = "replica:1";

fn parse(volume: VolumeId, key: ShardKey, object: &[u8]) -> Result<Opening, String> {
    let identity = ShardIdentity { volume, key };
    verify_object(&identity, object).map_err(|error| error.to_string())?;
    let header = ShardHeader::decode(object).map_err(|error| error.to_string())?;
    let payload = object[HEADER_BYTES..].get(..header.geometry.data_bytes as usize).ok_or("it is too short")?;
    Opening::decode(payload).map_err(|error| error.to_string())
}

#[cfg(test)]
#[path = "openings_tests.rs"]
mod tests;
