use super::*;
use crate::roster::{NodeFacts, Reach};
use crate::standing::Misplacement;
use weft_format::Generation;
use weft_format::geometry::Geometry;
use weft_format::records::{NodeRecord, NodeState, ShardLocation};
use weft_format::shard::Digest;
use weft_transfer::Damage;

/// Ten stripes of four frames of data each, a frame a cell.
fn record() -> SegmentRecord {
    let location =
        |node| ShardLocation { node: NodeId(node), generation: Generation(1), digest: Digest([0; 32]), origin: None };
    SegmentRecord {
        code: "rs:4+2".into(),
        geometry: Geometry::new(10 * 4 * 4096, 4, 1, 1, 4096).expect("a geometry"),
        generation: Generation(1),
        shards: (1..=6).map(|node| Some(location(node))).collect(),
    }
}

fn damaged(frames: Range<u64>) -> Standing {
    Standing::Lost(Loss::Damaged(Damage { how: "damaged".into(), frames: Some(vec![frames]) }))
}

fn judge(changes: &[(usize, Standing)]) -> State {
    let mut verdicts = vec![Standing::Sound; 6];
    changes.iter().for_each(|(index, verdict)| verdicts[*index] = verdict.clone());
    state(&record(), &verdicts, &Roster::default(), &mut Margins::default())
}

fn readable(count: usize) -> State {
    State::Readable(Survives { units: count, nodes: count, shards: count })
}

#[test]
fn finding_09_damage_counts_in_its_stripe_only() {
    assert_eq!(judge(&[]), readable(2));
    assert_eq!(judge(&[(0, damaged(1..2))]), readable(1));
    let apart: Vec<(usize, Standing)> = (0..6).map(|index| (index, damaged(index as u64..index as u64 + 1))).collect();
    assert_eq!(judge(&apart), readable(1));
    assert_eq!(judge(&[(0, damaged(1..3)), (5, damaged(2..4))]), readable(0));
    let header = Standing::Lost(Loss::Damaged(Damage { how: "its header".into(), frames: Some(Vec::new()) }));
    assert_eq!(judge(&[(3, header)]), readable(2));
    assert_eq!(judge(&[(3, Standing::Misplaced(Misplacement::Draining))]), readable(2));
}

#[test]
fn finding_09_only_what_no_stripe_gives_is_lost() {
    let stripe = |number: u64, native: u64| {
        let start = (number * 4 + native) * 4096;
        start..start + 4096
    };
    // Two data shards and a parity: what lies in the other data shards is there.
    let state = judge(&[(1, damaged(2..3)), (3, damaged(2..4)), (4, damaged(2..3))]);
    let rest = Some(Survives { units: 1, nodes: 1, shards: 1 });
    assert_eq!(state, State::Lost { data: vec![stripe(2, 1), stripe(2, 3)], rest });
    assert_eq!(state.survives(), None);
    let lost: Vec<(usize, Standing)> = (0..3).map(|index| (index, Standing::Lost(Loss::Missing))).collect();
    let State::Lost { data, rest: None } = judge(&lost) else { panic!("three of six are too many") };
    assert_eq!(data.iter().map(|range| range.end - range.start).sum::<u64>(), 10 * 3 * 4096);
}

#[test]
fn finding_09_who_is_silent_may_come_back() {
    let silent = |index| (index, Standing::OutOfReach);
    assert_eq!(judge(&[silent(0), silent(1), (2, damaged(0..1))]), State::OutOfReach);
    assert_eq!(judge(&[silent(0), (1, Standing::Refused), (2, damaged(0..1))]), State::OutOfReach);
    let away = |index: usize| {
        let run = index as u64..index as u64 + 1;
        let damage = Damage { how: "damaged".into(), frames: Some(vec![run]) };
        (index, Standing::Lost(Loss::DamagedAway(damage)))
    };
    assert_eq!(judge(&[away(0), away(1), away(2)]), State::OutOfReach, "they come back with what is sound of them");
}

/// As [`record`] of a code, with its shards on nodes of these units.
fn spread(code: &str, native_count: u32, units: &[&str]) -> (SegmentRecord, Roster) {
    let location =
        |node| ShardLocation { node: NodeId(node), generation: Generation(1), digest: Digest([0; 32]), origin: None };
    let record = SegmentRecord {
        code: code.into(),
        geometry: Geometry::new(10 * u64::from(native_count) * 4096, native_count, 1, 1, 4096).expect("a geometry"),
        shards: (1..=units.len() as u128).map(|node| Some(location(node))).collect(),
        ..record()
    };
    let facts = |domain: &&str| NodeFacts {
        record: NodeRecord {
            name: String::new(),
            url: String::new(),
            state: NodeState::Active,
            domain: (*domain).to_owned(),
            weight: 1,
            secret: Default::default(),
            limits: Default::default(),
        },
        reach: Reach::OutOfReach(String::new()),
        presumed_lost: false,
    };
    let nodes = (1..).map(NodeId).zip(units.iter().map(facts)).collect();
    (record, Roster { nodes, ..Roster::default() })
}

/// What is survived with these shards gone: of units, nodes and shards. The slow way: every set of each is tried.
fn tried(record: &SegmentRecord, roster: &Roster, gone: &[usize]) -> Option<(usize, usize)> {
    let erasures = weft_codes::Erasures::new(&*weft_codes::parse(&record.code).expect("a code")).expect("a matrix");
    let n = record.shards.len();
    let unit = |shard: usize| roster.unit(NodeId(shard as u128 + 1)).expect("a unit");
    let units: std::collections::BTreeSet<&str> = (0..n).filter(|shard| !gone.contains(shard)).map(unit).collect();
    let units: Vec<&str> = units.into_iter().collect();
    let survives = |is_lost: &dyn Fn(usize) -> bool| {
        erasures.decodes(&(0..n).filter(|shard| gone.contains(shard) || is_lost(*shard)).collect::<Vec<_>>())
    };
    let patterns =
        |of: usize, count: usize| (0..1u32 << of).filter(move |pattern| pattern.count_ones() as usize == count);
    let all_units = |count: &usize| {
        patterns(units.len(), *count).all(|pattern| {
            survives(&|shard| units.iter().position(|name| *name == unit(shard)).is_some_and(|i| pattern >> i & 1 == 1))
        })
    };
    let here: Vec<usize> = (0..n).filter(|shard| !gone.contains(shard)).collect();
    let all_nodes = |count: &usize| {
        patterns(here.len(), *count).all(|pattern| {
            survives(&|shard| here.iter().position(|i| *i == shard).is_some_and(|i| pattern >> i & 1 == 1))
        })
    };
    survives(&|_| false).then(|| {
        let most = |fits: &dyn Fn(&usize) -> bool, of: usize| (0..=of).take_while(fits).last().unwrap_or(0);
        (most(&all_units, units.len()), most(&all_nodes, here.len()))
    })
}

#[test]
fn units_and_nodes_are_counted_as_every_loss_of_them_says() {
    for (code, native_count, units) in [
        ("rs:4+2", 4, &["a", "a", "b", "b", "c", "c"][..]),
        ("rs:4+2", 4, &["a", "a", "a", "b", "c", "d"]),
        ("rs:2+4", 2, &["a", "b", "c", "a", "b", "c"]),
        ("lrc:4+2+2", 4, &["a", "b", "c", "d", "a", "b", "c", "d"]),
        ("lrc:4+2+2", 4, &["a", "a", "b", "b", "a", "b", "c", "d"]),
        ("replica:3", 1, &["a", "a", "b"]),
    ] {
        let (record, roster) = spread(code, native_count, units);
        let mut margins = Margins::default();
        let n = units.len();
        for gone in (0..n).map(|i| vec![i]).chain((0..n).map(|i| vec![i, (i + 2) % n])).chain([Vec::new()]) {
            let mut verdicts = vec![Standing::Sound; n];
            gone.iter().for_each(|shard| verdicts[*shard] = Standing::Lost(Loss::Missing));
            let found = state(&record, &verdicts, &roster, &mut margins).survives();
            let found = found.map(|survives| (survives.units, survives.nodes));
            assert_eq!(found, tried(&record, &roster, &gone), "{code} on {units:?} without {gone:?}");
        }
    }
}
