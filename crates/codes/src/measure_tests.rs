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
fn symbols_are_as_long_as_asked_and_irregularly_spaced() {
    let mut memory = Memory::new();
    let stripes = memory.stripes(3, 2, 1000, 12_000);
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

#[test]
fn tasks_take_turns_and_the_best_round_counts() {
    let turns = std::cell::RefCell::new(Vec::new());
    let turns = &turns;
    let task = |name| Task {
        input_count: 1,
        output_count: 0,
        work: Box::new(move |_: &[&[u8]], _: &mut [&mut [u8]]| turns.borrow_mut().push(name)),
    };
    let mut tasks = [task('a'), task('b')];
    let seconds = race(&mut tasks, 10, 0, SHORT, &mut Memory::new(), &ticking());
    // The first turn of each finds out how many calls make a round.
    assert_eq!(turns.borrow().iter().collect::<String>(), "aabbabab");
    assert_eq!(seconds, [1e-6, 1e-6]);
}

#[test]
fn xor_moves_every_symbol_once() {
    let executor = crate::executor();
    let mut task = Task::xor(5, 2, executor);
    let inputs: Vec<Vec<u8>> = (0..5).map(|i| vec![1 << i; 9]).collect();
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let (mut a, mut b) = ([0; 9], [0; 9]);
    (task.work)(&inputs, &mut [&mut a, &mut b]);
    assert_eq!((a, b), ([0b00011; 9], [0b11100; 9]));
    let (mut a, mut b, mut c) = ([0; 9], [0; 9], [0; 9]);
    (Task::xor(2, 3, executor).work)(&inputs[..2], &mut [&mut a, &mut b, &mut c]);
    assert_eq!((a, b, c), ([1; 9], [2; 9], [1; 9]));
    (Task::xor(0, 1, executor).work)(&[], &mut [&mut []]);
}

#[test]
fn every_family_is_measured() {
    let mut memory = Memory::new();
    for family in crate::families() {
        let subject = crate::parse(family.example).expect(family.example);
        let place = Place { name: "tiny", cell_bytes: 256, span_bytes: 0 };
        let speeds = code(&*subject, crate::executor(), &place, SHORT, &mut memory, &ticking()).expect(family.example);
        for speed in [speeds.encode, speeds.decode, speeds.repair] {
            assert!(speed.seconds > 0.0 && speed.xor_seconds > 0.0 && speed.bytes > 0, "{}", family.example);
        }
    }
}
