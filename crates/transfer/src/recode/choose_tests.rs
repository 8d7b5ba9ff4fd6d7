use super::*;
use weft_cluster::Membership;
use weft_format::Generation;
use weft_format::records::{NodeRecord, NodeState, PlacementRule, ShardLocation};
use weft_format::shard::Digest;

fn segment(number: u128) -> SegmentId {
    SegmentId::new(1_700_000_000_000, number)
}

/// Of a code, with shards on these nodes.
fn record(code: &str, data_bytes: u64, nodes: &[u128]) -> SegmentRecord {
    let shape = weft_codes::parse(code).expect("a code").shape().clone();
    let natives = shape.native_count as u32;
    let location = |node: &u128| {
        Some(ShardLocation { node: NodeId(*node), generation: Generation(1), digest: Digest([0; 32]), origin: None })
    };
    SegmentRecord {
        code: code.into(),
        geometry: Geometry::new(data_bytes, natives, shape.alpha as u32, 1, 65_536).expect("lengths"),
        generation: Generation(1),
        shards: nodes.iter().map(location).collect(),
    }
}

/// Nodes 0.. , two to a domain.
fn view(node_count: u128) -> Arc<View> {
    view_of(node_count, PlacementRule::default())
}

fn view_of(node_count: u128, rule: PlacementRule) -> Arc<View> {
    let node = |number: u128| {
        let record = NodeRecord {
            name: number.to_string(),
            url: String::new(),
            state: NodeState::Active,
            domain: format!("d{}", number / 2),
            weight: 1,
            secret: Default::default(),
            limits: Default::default(),
        };
        (NodeId(number), record)
    };
    let membership = Membership::default();
    membership.set_records((0..node_count).map(node), rule);
    membership.view()
}

fn places(old: &str, new: &str) -> Option<(usize, Vec<usize>)> {
    let algebra = Algebra::default();
    let (old, new) = (algebra.load(old).expect("a code"), algebra.load(new).expect("a code"));
    let fit = algebra.fit(&old, &new)?;
    Some((fit.source_count, fit.places.iter().map(Vec::len).collect()))
}

#[test]
fn codes_that_segments_can_be_merged_under() {
    assert_eq!(places("replica:3", "rs:4+2"), Some((4, vec![3, 3, 3, 3, 0, 0])));
    assert_eq!(places("replica:2", "raid5:5"), Some((4, vec![2, 2, 2, 2, 0])));
    assert_eq!(places("replica:3", "lrc:4+2+2").map(|(count, _)| count), Some(4));
    assert_eq!(places("rs:4+2", "rs:8+3"), Some((2, [vec![1; 8], vec![0; 3]].concat())));
    assert_eq!(places("raid5:3", "raid6:8"), Some((3, vec![1, 1, 1, 1, 1, 1, 0, 0])));
    for (old, new) in [
        ("rs:4+2", "rs:4+3"),
        ("rs:4+2", "rs:6+3"),
        ("rs:8+3", "rs:4+2"),
        ("rs:4+2", "replica:3"),
        ("replica:3", "replica:2"),
        ("rs:4+2", "clay:4+2"),
    ] {
        assert_eq!(places(old, new), None, "{old} to {new}");
    }
}

#[test]
fn copies_that_stay_are_in_unlike_domains() {
    let (algebra, view) = (Algebra::default(), view(12));
    let (old, new) = (algebra.load("replica:2").expect("a code"), algebra.load("rs:3+2").expect("a code"));
    let fit = algebra.fit(&old, &new).expect("they fit");
    // The first takes its second copy, as the others have no choice.
    let parts = [[0, 2], [0, 1], [5, 4]].map(|nodes| record("replica:2", 9_000, &nodes));
    let parts: Vec<&SegmentRecord> = parts.iter().collect();
    let found = kept(&fit, &parts, 1, domain_of(&view, 0)).expect("there are such");
    assert_eq!(found, [Some((0, 1)), Some((1, 0)), Some((2, 0)), None, None]);
    let close = record("replica:2", 9_000, &[4, 3]);
    assert!(kept(&fit, &[parts[0], parts[1], &close], 1, domain_of(&view, 0)).is_some());
    let closer = record("replica:2", 9_000, &[3, 2]);
    assert_eq!(kept(&fit, &[parts[0], parts[1], &closer], 1, domain_of(&view, 0)), None);
    let away = |node: NodeId| domain_of(&view, 0)(node).filter(|_| node != NodeId(2));
    assert_eq!(kept(&fit, &[parts[0], parts[1], parts[2]], 1, away), None, "one node is not to be relied on");
}

#[test]
fn a_domain_keeps_as_many_shards_as_an_even_spread_puts_there() {
    let (algebra, rule) = (Algebra::default(), PlacementRule { unit_shards: 2, ..PlacementRule::default() });
    let shards = |node_count: u128, code: &str| {
        let of_copies = record("replica:3", 9_000, &[0, 2, 4]);
        fit(&algebra, &view_of(node_count, rule), &of_copies, code).map(|(_, domain_shards)| domain_shards)
    };
    // Of three domains two each, of six one; and no more than can be lost.
    assert_eq!((shards(6, "rs:4+2"), shards(12, "rs:4+2"), shards(6, "raid5:5")), (Some(2), Some(1), Some(1)));
    let view = view_of(6, rule);
    let mut candidates = MergeCandidates::new(Arc::default(), view.clone(), 0);
    let nodes = [[0, 2, 4], [0, 3, 5], [1, 2, 4], [1, 3, 5]];
    let sources = nodes.map(|nodes| record("replica:3", 9_000, &nodes));
    let offered =
        (0..).zip(sources.clone()).flat_map(|(number, source)| candidates.offer(segment(number), source, "rs:4+2"));
    assert_eq!(offered.collect::<Vec<_>>(), [(0..4).map(segment).collect::<Vec<_>>()]);
    let (fit, domain_shards) = fit(&algebra, &view, &sources[0], "rs:4+2").expect("they fit");
    let sources: Vec<&SegmentRecord> = sources.iter().collect();
    let kept = kept(&fit, &sources, domain_shards, domain_of(&view, 0)).expect("there are such");
    let node = |(source, index): (usize, usize)| nodes[source][index];
    let mut kept: Vec<u128> = kept.into_iter().flatten().map(node).collect();
    kept.sort_unstable();
    assert!((0..3).all(|domain| kept.iter().filter(|node| **node / 2 == domain).count() <= 2), "{kept:?}");
    kept.dedup();
    assert_eq!(kept.len(), 4, "each on a node of its own");
}

#[test]
fn segments_of_one_kind_find_each_other_and_the_rest_stays_alone() {
    let mut candidates = MergeCandidates::new(Arc::default(), view(24), 0);
    let mut merged = Vec::new();
    let mut offer = |candidates: &mut MergeCandidates, number: u128, record: SegmentRecord, code: &str| {
        let settled = candidates.offer(segment(number), record, code);
        merged.extend(settled.into_iter().map(|group| group.iter().map(|id| id.0 & 0xffff).collect::<Vec<_>>()));
    };
    for number in 0..6 {
        let nodes = [number % 8, (number + 3) % 8 + 8, number % 8 + 16];
        offer(&mut candidates, number, record("replica:3", 8 << 20, &nodes), "rs:4+2");
        offer(&mut candidates, 100 + number, record("replica:3", 8 << 20, &nodes), "rs:8+3");
    }
    // Of another length, of a code that fits nothing, and too long to be one.
    offer(&mut candidates, 50, record("replica:3", 7 << 20, &[1, 3, 5]), "rs:4+2");
    offer(&mut candidates, 51, record("rs:4+2", 8 << 20, &[1, 3, 5, 7, 9, 11]), "rs:6+2");
    offer(&mut candidates, 52, record("replica:3", 17 << 20, &[1, 3, 5]), "rs:4+2");
    assert_eq!(merged, [vec![0, 1, 2, 3], vec![51], vec![52]]);
    let mut rest: Vec<u128> = candidates.rest().map(|id| id.0 & 0xffff).collect();
    rest.sort_unstable();
    assert_eq!(rest, [4, 5, 50, 100, 101, 102, 103, 104, 105]);
}

#[test]
fn who_finds_nobody_is_let_go() {
    let mut candidates = MergeCandidates::new(Arc::default(), view(6), 0);
    let mut settled = Vec::new();
    for number in 0..WAITING_MAX as u128 + 5 {
        // All on the same nodes.
        settled.extend(candidates.offer(segment(number), record("rs:2+1", 9_000, &[0, 2, 4]), "rs:4+2"));
    }
    assert_eq!(settled, (0..5).map(|number| vec![segment(number)]).collect::<Vec<_>>());
    assert_eq!(candidates.rest().count(), WAITING_MAX);
    // Nor does one wait for ever for its like.
    let mut candidates = MergeCandidates::new(Arc::default(), view(24), 0);
    let mut settled = Vec::new();
    let unlike = 0..COME_BY_MAX as u128 + 7;
    for number in unlike.clone() {
        settled.extend(candidates.offer(segment(number), record("replica:3", 1 + number as u64, &[0, 2, 4]), "rs:4+2"));
        assert!(candidates.waiting.len() <= COME_BY_MAX && candidates.came.len() <= COME_BY_MAX);
    }
    assert_eq!(settled, (0..7).map(|number| vec![segment(number)]).collect::<Vec<_>>());
    assert_eq!(settled.len() + candidates.rest().count(), unlike.count());
}

/// Is there a way? Each is tried, one after the other.
fn by_trying(choices: &[Vec<(Place<'_>, usize)>], domain_shards: usize, taken: &[Place<'_>]) -> bool {
    let Some((first, rest)) = choices.split_first() else { return true };
    let is_free = |place: &Place<'_>| {
        let in_domain = taken.iter().filter(|other| other.domain == place.domain).count();
        in_domain < domain_shards && taken.iter().all(|other| other.node != place.node)
    };
    let mut free = first.iter().map(|(place, _)| *place).filter(is_free);
    free.any(|place| by_trying(rest, domain_shards, &[taken, &[place]].concat()))
}

#[test]
fn a_choice_is_found_whenever_there_is_one() {
    // Three or four of whom each may have any of four nodes: of domains of their own, or of two domains.
    let domains: [[&str; 4]; 2] = [["a", "b", "c", "d"], ["a", "a", "a", "b"]];
    for (who_count, domains, domain_shards) in
        [(3, domains[0], 1), (4, domains[0], 1), (3, domains[1], 2), (4, domains[1], 3)]
    {
        let place = |node: usize| Place { domain: domains[node], node: NodeId(node as u128) };
        let places_of = |bits: usize| (0..4).filter(move |node| bits >> node & 1 == 1).map(place);
        for bits in 0..1usize << (4 * who_count) {
            let choices: Vec<Vec<(Place<'_>, usize)>> =
                (0..who_count).map(|who| places_of(bits >> (4 * who)).zip(0..).collect()).collect();
            let found = apart(&choices, domain_shards);
            assert_eq!(found.is_some(), by_trying(&choices, domain_shards, &[]), "{choices:?}");
            if let Some(found) = found {
                let taken: Vec<Place<'_>> =
                    found.iter().zip(&choices).map(|(choice, choices)| choices[*choice].0).collect();
                let nodes: BTreeMap<NodeId, &str> = taken.iter().map(|place| (place.node, place.domain)).collect();
                assert_eq!(nodes.len(), who_count, "{choices:?}");
                let count = |domain: &str| nodes.values().filter(|other| **other == domain).count();
                assert!(domains.iter().all(|domain| count(domain) <= domain_shards), "{choices:?}");
            }
        }
    }
}
