use super::*;
use proptest::prelude::*;

/// The obvious reference: one optional byte per offset, with where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    byte: u8,
    home: Option<(SegmentId, u64)>,
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Discard(u64, u64),
    Stage(u64),
    Complete(usize),
    Unstage(usize),
    Journal,
}

const SPAN: u64 = 20_000;

fn step() -> impl Strategy<Value = Step> {
    let length = prop_oneof![1u64..64, 1u64..9000];
    prop_oneof![
        4 => (0..SPAN, prop::collection::vec(any::<u8>(), 1..300)).prop_map(|(at, data)| Step::Write(at, data)),
        1 => (0..SPAN, any::<u8>(), length.clone())
            .prop_map(|(at, byte, length)| Step::Write(at, vec![byte; length as usize])),
        1 => (0..SPAN, length.clone()).prop_map(|(at, length)| Step::Discard(at, at + length)),
        1 => length.prop_map(Step::Stage),
        1 => (0usize..4).prop_map(Step::Complete),
        1 => (0usize..4).prop_map(Step::Unstage),
        1 => Just(Step::Journal),
    ]
}

proptest! {
    #[test]
    fn behaves_like_an_array_of_bytes(steps in prop::collection::vec(step(), 1..60)) {
        let mut buffer = Buffer::new(2 * SPAN);
        let mut model: Vec<Option<Cell>> = vec![None; 2 * SPAN as usize];
        let mut in_flight: Vec<SegmentId> = Vec::new();
        let mut next = 0u128;
        for step in steps {
            match step {
                Step::Write(at, data) => {
                    buffer.write(at, &data);
                    for (i, byte) in data.iter().enumerate() {
                        model[at as usize + i] = Some(Cell { byte: *byte, home: None });
                    }
                }
                Step::Discard(from, to) => {
                    buffer.discard(from..to);
                    model[from as usize..to as usize].fill(None);
                }
                Step::Stage(max) => {
                    next += 1;
                    let segment = SegmentId(next);
                    let sent: Vec<u8> = buffer.stage(segment, 7, max, usize::MAX).concat();
                    let mut expected = Vec::new();
                    for cell in model.iter_mut().flatten().filter(|cell| cell.home.is_none()).take(max as usize) {
                        cell.home = Some((segment, 7 + expected.len() as u64));
                        expected.push(cell.byte);
                    }
                    prop_assert_eq!(sent, expected);
                    in_flight.push(segment);
                }
                Step::Complete(which) if which < in_flight.len() => {
                    let segment = in_flight.remove(which);
                    let completion = buffer.completion(segment);
                    prop_assert_eq!(completion.size, 2 * SPAN);
                    let mut held_bytes = 0;
                    for extent in &completion.extents {
                        for i in 0..extent.length {
                            let cell = &mut model[(extent.file_offset + i) as usize];
                            if cell.and_then(|cell| cell.home) == Some((segment, extent.segment_offset + i)) {
                                held_bytes += 1;
                                *cell = None;
                            }
                        }
                    }
                    let here = |cell: &Cell| cell.home.is_some_and(|home| home.0 == segment);
                    prop_assert!(!model.iter().flatten().any(here), "what is newest is committed");
                    let held_before = buffer.held_bytes;
                    prop_assert!(!buffer.complete(segment, &completion), "nothing has to wait");
                    prop_assert_eq!(held_before - buffer.held_bytes, held_bytes);
                }
                Step::Unstage(which) if which < in_flight.len() => {
                    let segment = in_flight.remove(which);
                    buffer.unstage(segment);
                    for cell in model.iter_mut().flatten().filter(|c| c.home.is_some_and(|home| home.0 == segment)) {
                        cell.home = None;
                    }
                }
                Step::Journal if in_flight.is_empty() => buffer.note_journaled(),
                Step::Complete(_) | Step::Unstage(_) | Step::Journal => {}
            }
            let is_unjournaled = |piece: &Piece| piece.home.is_none() && !piece.journaled;
            let looked_for = buffer.pieces.iter().filter(|(_, piece)| is_unjournaled(piece)).map(|(start, _)| *start);
            prop_assert_eq!(buffer.dirty_piece_count, buffer.pieces.values().filter(|piece| piece.home.is_none()).count());
            let first_dirty = buffer.pieces.iter().find(|(_, piece)| piece.home.is_none());
            prop_assert!(first_dirty.is_none_or(|(start, _)| *start >= buffer.clean_below));
            prop_assert_eq!(buffer.unjournaled.iter().copied().collect::<Vec<_>>(), looked_for.collect::<Vec<_>>());
            let mut seen: Vec<Option<u8>> = vec![None; model.len()];
            for (at, bytes) in buffer.overlapping(0..model.len() as u64) {
                for (i, byte) in bytes.iter().enumerate() {
                    seen[at as usize + i] = Some(*byte);
                }
            }
            let expected: Vec<Option<u8>> = model.iter().map(|cell| cell.map(|c| c.byte)).collect();
            prop_assert!(seen == expected);
            let dirty = model.iter().flatten().filter(|cell| cell.home.is_none()).count() as u64;
            prop_assert_eq!(buffer.dirty_bytes(), dirty);
            prop_assert_eq!(buffer.held_bytes, model.iter().flatten().count() as u64);
            prop_assert!(buffer.unjournaled_bytes() <= dirty);
            let pages = buffer.journaled.blocks_in(0..u64::MAX, JOURNAL_PAGE_BYTES).count() as u64;
            prop_assert_eq!(buffer.journal_page_count(), pages);
        }
    }
}

#[test]
fn journal_pages_carry_exactly_the_dirty_bytes_of_a_page() {
    let mut buffer = Buffer::default();
    buffer.write(4090, &[1; 12]);
    buffer.write(8000, &[2; 10]);
    assert_eq!(buffer.unjournaled_pages(), vec![0, 1]);
    let page = buffer.journal_page(1).unwrap();
    assert_eq!(page.ranges, vec![(0, vec![1; 6]), (8000 - 4096, vec![2; 10])]);
    buffer.note_journaled();
    assert_eq!((buffer.journal_page_count(), buffer.committed_size()), (2, 8010));
    assert_eq!(buffer.unjournaled_bytes(), 0);
    buffer.write(8001, &[3]);
    assert_eq!(buffer.unjournaled_pages(), vec![1]);
    let mut again = Buffer::new(8010);
    again.replay(&buffer.to_journal()[0]);
    assert_eq!(again.dirty_bytes(), 16);
    assert_eq!(again.unjournaled_bytes(), 0);
}

#[test]
fn many_small_appends_grow_one_piece_and_a_full_piece_starts_another() {
    let mut buffer = Buffer::default();
    for i in 0..600u64 {
        buffer.write(i * 4096, &[i as u8; 4096]);
    }
    assert_eq!(buffer.dirty_piece_count(), 3);
    assert_eq!(buffer.held_bytes, 600 * 4096);
    assert_eq!(buffer.memory_bytes(), 600 * 4096 + 3 * PIECE_OVERHEAD_BYTES);
}

/// Where a segment comes back, what is appended behind it waits for it; what lies before does not.
#[test]
fn finding_08_no_end_is_committed_before_what_lies_before_it() {
    let mut buffer = Buffer::new(0);
    buffer.write(0, b"first");
    buffer.write(10, b"second");
    for (segment, bytes) in [(1, 5), (2, 3), (3, 3)] {
        buffer.stage(SegmentId(segment), 0, bytes, usize::MAX);
    }
    let completion = buffer.completion(SegmentId(1));
    assert_eq!((completion.extents.len(), completion.size), (1, 5));
    assert!(!buffer.complete(SegmentId(1), &completion));
    assert!(buffer.unstage(SegmentId(2)));
    let completion = buffer.completion(SegmentId(3));
    assert_eq!((completion.extents.len(), completion.size), (0, 5));
    assert!(buffer.unstage(SegmentId(3)));
    // Until then the file must not grow in the store either.
    assert_eq!((buffer.size_to_store(100), buffer.size_to_store(10), buffer.size_to_store(3)), (5, 10, 3));
    buffer.stage(SegmentId(4), 0, u64::MAX, usize::MAX);
    let completion = buffer.completion(SegmentId(4));
    assert_eq!((completion.extents[0].file_offset, completion.extents[0].length, completion.size), (10, 6, 16));
    assert!(!buffer.complete(SegmentId(4), &completion));
    assert!(buffer.is_empty());
}
