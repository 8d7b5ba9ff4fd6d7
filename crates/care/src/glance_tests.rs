use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use crate::roster::Reach;
use proptest::prelude::*;
use weft_format::geometry::Geometry;
use weft_format::records::{NodeRecord, PlacementRule, SegmentRecord, ShardLocation};
use weft_format::shard::Digest;
use weft_format::{Generation, SegmentId};
use weft_nodes::Space;

const CODES: [(&str, usize); 3] = [("rs:4+2", 6), ("rs:2+2", 4), ("lrc:4+2+2", 8)];
const NODES: u128 = 12;

/// A segment on nodes of which several may be the same.
#[derive(Clone, Debug)]
struct Drawn {
    code: usize,
    nodes: Vec<u128>,
    missing: Option<usize>,
    data_bytes: u64,
    is_dead: bool,
    is_marked: bool,
}

impl Drawn {
    fn record(&self) -> SegmentRecord {
        let (code, n) = CODES[self.code];
        let shape = weft_codes::parse(code).expect("a code");
        let native_count = shape.shape().native_count as u32;
        let location = |(index, node): (usize, &u128)| {
            let location =
                ShardLocation { node: NodeId(*node), generation: Generation(0), digest: Digest([0; 32]), origin: None };
            (self.missing != Some(index)).then_some(location)
        };
        SegmentRecord {
            code: code.into(),
            geometry: Geometry::new(self.data_bytes, native_count, 1, 1, 4096).expect("a geometry"),
            generation: Generation(0),
            shards: self.nodes.iter().take(n).enumerate().map(location).collect(),
        }
    }
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let spread = Just((1..=NODES).collect::<Vec<_>>()).prop_shuffle();
    let nodes = prop_oneof![20 => spread, 1 => prop::collection::vec(1..=NODES, 8)];
    let missing = prop_oneof![10 => Just(None), 1 => (0..4_usize).prop_map(Some)];
    (0..CODES.len(), nodes, missing, 1..100_000_u64, prop::bool::weighted(0.1), prop::bool::weighted(0.1)).prop_map(
        |(code, nodes, missing, data_bytes, is_dead, is_marked)| Drawn {
            code,
            nodes,
            missing,
            data_bytes,
            is_dead,
            is_marked,
        },
    )
}

/// How a node is, as a number: most answer.
fn facts(number: u128, how: u8, is_sharing: bool) -> NodeFacts {
    let domain = if is_sharing { format!("host{}", number / 2) } else { format!("host{number}") };
    let state = match how {
        0 => NodeState::Draining,
        1 => NodeState::Lost,
        2 => NodeState::ReadOnly,
        _ => NodeState::Active,
    };
    let reach = match how {
        1 | 3 => Reach::OutOfReach("it is away".into()),
        4 => Reach::Refuses("denied".into()),
        5 => Reach::Wiped("nothing is left".into()),
        _ => Reach::Answers(Space { total_bytes: 1, free_bytes: 1, disk: None }),
    };
    let record = NodeRecord {
        name: format!("n{number}"),
        url: String::new(),
        state,
        domain,
        weight: 1,
        secret: Default::default(),
        limits: Default::default(),
    };
    NodeFacts { record, reach, presumed_lost: how == 3 && number.is_multiple_of(2) }
}

proptest! {
    #[test]
    fn sums_say_what_a_walk_over_all_says(
        segments in prop::collection::vec(drawn(), 0..40),
        how in prop::collection::vec(prop_oneof![30 => Just(9_u8), 1 => 0..6_u8], NODES as usize),
        is_sharing in prop::bool::weighted(0.1),
        // Of a segment a node may be named that the volume does not have.
        known in prop_oneof![9 => Just(NODES), 1 => Just(NODES - 1)],
    ) {
        let catalogue = MemoryCatalogue::default();
        for (number, drawn) in segments.iter().enumerate() {
            let segment = SegmentId(number as u128);
            catalogue.commit(segment, drawn.record(), &format!("/f{number}"));
            if drawn.is_dead {
                catalogue.kill(segment, 5);
            }
            if drawn.is_marked {
                catalogue.mark_damaged(segment).expect("marked");
            }
        }
        let nodes = (1..=known).zip(&how).map(|(number, how)| (NodeId(number), facts(number, *how, is_sharing)));
        let roster = Roster { nodes: nodes.collect(), rule: PlacementRule::default() };
        let walked = glance_at_all(&catalogue, &roster).expect("read");
        let is_plain = |drawn: &Drawn| SegmentSum::of(&drawn.record()).doubled_count == 0;
        match glance_by_sums(&catalogue, &roster).expect("read") {
            Some(summed) => prop_assert_eq!(summed, walked),
            // It says so where units have several nodes, and where a segment has several shards on one.
            None => prop_assert!(is_sharing || !segments.iter().all(is_plain)),
        }
    }
}
