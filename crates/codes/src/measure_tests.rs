use super::*;
use std::cell::Cell;

/// A clock that moves on by a microsecond whenever it is read, and so never lets a round end early or for ever.
fn ticking() -> impl Fn() -> Duration {
    let ticks = Cell::new(0);
    move || {
        ticks.set(ticks.get() + 1);
        Duration::from_micros(ticks.get())
    }
}

const SHORT: Effort = Effort { rounds: 3, round: Duration::from_micros(1) };

#[test]
fn cells_are_irregularly_spaced() {
    let mut memory = Memory::new();
    let stripes = memory.stripes(&Stripe::of_cells(3, 2, 1000), 12_000, Spacing::Lines);
    assert_eq!(stripes.len(), 3);
    let mut starts = Vec::new();
    for (inputs, outputs) in &stripes {
        assert_eq!((inputs.len(), outputs.len()), (3, 2));
        assert!(inputs.iter().all(|input| input.len() == 1000) && outputs.iter().all(|output| output.len() == 1000));
        starts.extend(inputs.iter().map(|input| input.as_ptr().addr()));
        starts.extend(outputs.iter().map(|output| output.as_ptr().addr()));
    }
    assert!(starts.iter().all(|start| start.is_multiple_of(LINE_BYTES)));
    let mut distances: Vec<usize> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    distances.dedup();
    assert!(distances.len() > 10, "{distances:?}");
}

/// Begins of the cells of a few stripes, from the first one on.
fn begins(cell_bytes: usize, spacing: Spacing) -> Vec<usize> {
    let mut memory = Memory::new();
    let stripes = memory.stripes(&Stripe::of_cells(3, 2, cell_bytes), 40 * cell_bytes, spacing);
    let all = stripes.iter().flat_map(|(inputs, outputs)| {
        inputs.iter().map(|cell| cell.as_ptr().addr()).chain(outputs.iter().map(|cell| cell.as_ptr().addr()))
    });
    all.collect()
}

#[test]
fn cells_lie_back_to_back_or_pages_apart_where_they_are_to() {
    let distances = |begins: &[usize]| begins.windows(2).map(|two| two[1] - two[0]).collect::<Vec<_>>();
    assert_eq!(distances(&begins(4096, Spacing::BackToBack)), [4096; 39]);
    for cell_bytes in [4096, 1000, 16_384] {
        let begins = begins(cell_bytes, Spacing::Pages);
        assert!(begins.iter().all(|begin| begin.is_multiple_of(PAGE_BYTES)));
        let distances = distances(&begins);
        assert!(distances.iter().all(|&distance| distance >= cell_bytes + PAGE_BYTES), "{distances:?}");
        assert!(distances.iter().collect::<std::collections::BTreeSet<_>>().len() > 10, "{distances:?}");
    }
}

#[test]
fn symbols_of_a_cell_lie_side_by_side_in_the_order_of_its_slots() {
    let slots = |slots: &[(usize, usize)]| slots.iter().map(|&(cell, sub)| Slot { cell, sub }).collect();
    let inputs = slots(&[(7, 2), (1, 0), (7, 0)]);
    let stripe = Stripe { symbol_bytes: 10, inputs, outputs: slots(&[(7, 1), (7, 5)]) };
    let mut memory = Memory::new();
    for (inputs, outputs) in memory.stripes(&stripe, 150, Spacing::Lines) {
        let start = |symbol: &[u8]| symbol.as_ptr().addr();
        let cell = start(inputs[2]);
        assert_eq!([start(inputs[0]), start(outputs[0]), start(outputs[1])], [cell + 20, cell + 10, cell + 50]);
        assert!(start(inputs[1]) < cell && cell.is_multiple_of(LINE_BYTES));
    }
}

#[test]
fn consecutive_symbols_that_lie_side_by_side_are_one_piece() {
    let slots = |subs: &[usize]| subs.iter().map(|&sub| Slot { cell: 0, sub }).collect();
    let stripe = Stripe { symbol_bytes: 10, inputs: slots(&[0, 1, 2, 5]), outputs: slots(&[3, 4]) };
    let mut memory = Memory::new();
    let (inputs, outputs) = memory.stripes(&stripe, 0, Spacing::Lines).remove(0);
    assert_eq!(inputs.iter().map(|input| input.len()).collect::<Vec<_>>(), [30, 10]);
    assert_eq!(outputs.iter().map(|output| output.len()).collect::<Vec<_>>(), [20]);
}

#[test]
fn limits_move_about_as_many_bytes_in_cells() {
    let limit = |inputs: usize, outputs: usize, symbol_bytes| {
        let limit = Stripe::of_cells(inputs, outputs, symbol_bytes).of_limit(1000);
        (limit.inputs.len(), limit.outputs.len(), limit.symbol_bytes)
    };
    assert_eq!(limit(4, 2, 1000), (4, 2, 1000));
    assert_eq!(limit(40, 15, 100), (5, 2, 750));
    assert_eq!(limit(40, 3, 100), (13, 1, 300));
    assert_eq!((limit(1, 20, 100), limit(0, 1, 7), limit(0, 0, 7)), ((1, 2, 1000), (0, 1, 7), (0, 0, 1)));
}

#[test]
fn symbols_are_cut_as_in_a_volume() {
    let bytes = |spec: &str, cell_bytes| symbol_bytes(crate::parse(spec).expect(spec).shape(), cell_bytes);
    assert_eq!([bytes("rs:4+2", 65_536), bytes("mojette:4+2", 65_536), bytes("mojette:4+2", 4096)], [65_536, 960, 61]);
}

#[test]
fn tasks_take_turns_and_the_best_round_counts() {
    let turns = std::cell::RefCell::new(Vec::new());
    let turns = &turns;
    let task = |name| Task {
        stripe: Stripe::of_cells(1, 0, 10),
        work: Box::new(move |_: &[&[u8]], _: &mut [&mut [u8]]| turns.borrow_mut().push(name)),
    };
    let mut tasks = [task('a'), task('b')];
    let seconds = race(&mut tasks, &place("one", 10, 0), SHORT, &mut Memory::new(), &ticking());
    // The first turn of each finds out how many calls make a round.
    assert_eq!(turns.borrow().iter().collect::<String>(), "aabbabab");
    assert_eq!(seconds, [1e-6, 1e-6]);
}

#[test]
fn xor_moves_every_symbol_once() {
    let executor = crate::executor();
    let mut task = Task::xor(Stripe::of_cells(5, 2, 9), executor);
    let inputs: Vec<Vec<u8>> = (0..5).map(|i| vec![1 << i; 9]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let (mut a, mut b) = ([0; 9], [0; 9]);
    (task.work)(&inputs, &mut [&mut a, &mut b]);
    assert_eq!((a, b), ([0b00011; 9], [0b11100; 9]));
    let (mut a, mut b, mut c) = ([0; 9], [0; 9], [0; 9]);
    (Task::xor(Stripe::of_cells(2, 3, 9), executor).work)(&inputs[..2], &mut [&mut a, &mut b, &mut c]);
    assert_eq!((a, b, c), ([1; 9], [2; 9], [1; 9]));
    (Task::xor(Stripe::of_cells(0, 1, 0), executor).work)(&[], &mut [&mut []]);
}

#[test]
fn every_family_is_measured() {
    let mut memory = Memory::new();
    for family in crate::families() {
        let subject = crate::parse(family.example).expect(family.example);
        let place = place("tiny", 256, 0);
        let speeds = code(&*subject, crate::executor(), &place, SHORT, &mut memory, &ticking()).expect(family.example);
        // Of a mirror nothing is coded.
        assert_eq!(speeds.encode.is_none(), family.name == "replica");
        assert!(speeds.decode.is_some() && speeds.repair.is_some(), "{}", family.example);
        for speed in [speeds.encode, speeds.decode, speeds.repair].into_iter().flatten() {
            assert!(speed.seconds > 0.0 && speed.xor_seconds > 0.0 && speed.bytes > 0, "{}", family.example);
        }
    }
}
