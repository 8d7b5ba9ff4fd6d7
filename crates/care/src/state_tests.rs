use super::*;
use crate::standing::Misplacement;
use weft_format::Generation;
use weft_format::geometry::Geometry;
use weft_format::records::ShardLocation;
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
    state(&record(), &verdicts, &mut Margins::default())
}

fn readable(count: usize) -> State {
    State::Readable(Survives { nodes: count, shards: count })
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
    let rest = Some(Survives { nodes: 1, shards: 1 });
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
