use super::choose::{ROUND_BYTES, ROUND_SEGMENTS};
use super::*;

const MIB: u64 = 1 << 20;

/// A living segment, chosen or not.
fn living(number: u128, live_mib: u64, data_mib: u64) -> Living {
    let (live_bytes, data_bytes) = (live_mib * MIB, data_mib * MIB);
    let (segment, code) = (SegmentId(number), "rs:4+2".into());
    Living { segment, live_bytes, data_bytes, stored_bytes: data_bytes, code, is_divided: false }
}

fn candidate(number: u128, live_mib: u64) -> Candidate {
    let live_bytes = live_mib * MIB;
    Candidate { segment: SegmentId(number), live_bytes, stored_bytes: live_bytes, reason: Reason::Thin }
}

fn numbers(candidates: &[Candidate]) -> Vec<u128> {
    candidates.iter().map(|candidate| candidate.segment.0).collect()
}

fn chosen(segments: Vec<Living>, demand: Demand, tried: &[u128]) -> Vec<u128> {
    let tried = tried.iter().map(|number| SegmentId(*number)).collect();
    numbers(&choose(segments, demand, &tried))
}

#[test]
fn the_thinnest_come_first_and_those_half_alive_never() {
    let all = vec![living(1, 4, 8), living(2, 3, 8), living(3, 1, 8), living(4, 2, 32)];
    assert_eq!(chosen(all.clone(), Demand::Any, &[]), [4, 3, 2]);
    assert_eq!(chosen(all.clone(), Demand::Any, &[4]), [3, 2]);
    assert_eq!(chosen(all, Demand::Any, &[2, 3, 4]), [0u128; 0]);
}

#[test]
fn what_files_divide_is_chosen_whatever_it_is_worth() {
    let divided = Living { is_divided: true, ..living(2, 8, 8) };
    let all = vec![living(1, 1, 8), divided, living(3, 8, 8)];
    assert_eq!(chosen(all.clone(), Demand::Worthwhile, &[]), [2]);
    assert_eq!(chosen(all.clone(), Demand::Any, &[]), [1, 2]);
    assert_eq!(chosen(all, Demand::Worthwhile, &[2]), [0u128; 0]);
}

#[test]
fn a_round_moves_no_more_than_there_is_room_for() {
    let round = |candidates: &[Candidate], room_mib: u64| {
        one_round(candidates.to_vec(), room_mib * MIB).map(|chosen| numbers(&chosen))
    };
    let few = [candidate(1, 1), candidate(2, 2), candidate(3, 3)];
    assert_eq!(round(&few, 100), Ok(vec![1, 2, 3]));
    assert_eq!(round(&few, 3), Ok(vec![1, 2]));
    assert_eq!(round(&few, 2), Ok(vec![1]));
    assert_eq!(round(&few, 0), Err(MIB));
    assert_eq!(round(&[], 0), Ok(vec![]));
    let many: Vec<Candidate> = (0..5000).map(|number| candidate(number, 0)).collect();
    assert_eq!(round(&many, 100).expect("there is room").len(), ROUND_SEGMENTS);
    let large: Vec<Candidate> = (0..10).map(|number| candidate(number, 10)).collect();
    assert_eq!(round(&large, 100), Ok(vec![0, 1, 2]), "{ROUND_BYTES}");
    assert_eq!(round(&[candidate(1, 40)], 100), Ok(vec![1]));
}

#[test]
fn by_itself_only_what_is_worth_it() {
    let with_full = |full_count: u128, thin: Living| -> Vec<Living> {
        (10..10 + full_count).map(|number| living(number, 32, 32)).chain([thin]).collect()
    };
    // A small volume, mostly dead.
    assert_eq!(chosen(vec![living(1, 1, 64)], Demand::Worthwhile, &[]), [0u128; 0]);
    assert_eq!(chosen(vec![living(1, 1, 65)], Demand::Worthwhile, &[]), [1]);
    // 64 of 256 MiB are a quarter, of 288 MiB less.
    assert_eq!(chosen(with_full(5, living(1, 32, 96)), Demand::Worthwhile, &[]), [1]);
    assert_eq!(chosen(with_full(6, living(1, 32, 96)), Demand::Worthwhile, &[]), [0u128; 0]);
    assert_eq!(chosen(with_full(6, living(1, 32, 96)), Demand::Any, &[]), [1]);
}

#[test]
fn many_small_segments_are_chosen_for_being_small_and_a_few_are_not() {
    let small = |number: u128| Living { live_bytes: 4096, data_bytes: 4096, ..living(number, 0, 0) };
    let foreign = |number: u128| Living { code: "replica:3".into(), ..small(number) };
    let some: Vec<Living> = (0..15).map(small).chain((20..35).map(foreign)).collect();
    for demand in [Demand::Worthwhile, Demand::Any] {
        assert_eq!(chosen(some.clone(), demand, &[]), [0u128; 0]);
        let enough: Vec<Living> = some.iter().cloned().chain([small(15), living(16, 1, 8), living(17, 8, 8)]).collect();
        let thin: &[u128] = if demand == Demand::Any { &[16] } else { &[] };
        assert_eq!(chosen(enough.clone(), demand, &[]), thin.iter().copied().chain(0..16).collect::<Vec<_>>());
        assert_eq!(chosen(enough, demand, &[3]), thin, "one of them was tried in vain");
    }
}

#[test]
fn what_is_small_is_packed_only_into_less() {
    let run = |segment: u128| Run {
        ino: Ino(1),
        extent: Extent { file_offset: 0, length: 1, segment: SegmentId(segment), segment_offset: 0 },
    };
    let small = |number: u128| Candidate { reason: Reason::Small, ..candidate(number, 0) };
    let all = [small(1), small(2), candidate(3, 1)];
    assert!(is_worth_packing(&[run(1), run(2), run(1)], 1, &all));
    assert!(!is_worth_packing(&[run(1), run(2)], 2, &all));
    assert!(!is_worth_packing(&[run(1), run(1)], 1, &all), "nothing is merged");
    assert!(is_worth_packing(&[run(3)], 1, &all), "a thin one shrinks");
    assert!(is_worth_packing(&[run(1), run(3)], 2, &all));
}

#[test]
fn new_segments_are_full_and_hold_every_byte_in_order() {
    let run = |number: u64, length: u64| Run {
        ino: Ino(number),
        extent: Extent { file_offset: number * 1000, length, segment: SegmentId(1), segment_offset: number * 100 },
    };
    let runs = [run(1, 30), run(2, 100), run(3, 250), run(4, 1)];
    let packed = pack(&runs, 100);
    let bytes = |segment: &Vec<Run>| segment.iter().map(|run| run.extent.length).sum::<u64>();
    assert_eq!(packed.iter().map(bytes).collect::<Vec<_>>(), [100, 100, 100, 81]);
    let mut rest = packed.concat().into_iter();
    for run in runs {
        let mut extent = run.extent;
        while extent.length > 0 {
            let part = rest.next().expect("a part");
            assert_eq!(part, Run { ino: run.ino, extent: Extent { length: part.extent.length, ..extent } });
            extent.length -= part.extent.length;
            extent.file_offset += part.extent.length;
            extent.segment_offset += part.extent.length;
        }
    }
    assert_eq!(rest.next(), None);
    let small: Vec<Run> = (0..=PIECES_MAX as u64).map(|number| run(number, 1)).collect();
    assert_eq!(pack(&small, 1 << 20).iter().map(Vec::len).collect::<Vec<_>>(), [PIECES_MAX, 1]);
    assert_eq!(pack(&[], 100), Vec::<Vec<Run>>::new());
}
