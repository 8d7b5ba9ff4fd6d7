//! In steady state running a program allocates nothing: not for encoding, not for decoding, not for temporaries. Plans of codes with
//! many symbols take memory in proportion to what they say. A test binary of its own, because it counts what the whole process allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use weft_codes::{Compiled, Executor, Offer, Offers, Op, Program, Wanted};

thread_local! {
    static ALLOCATION_COUNT: Cell<usize> = const { Cell::new(0) };
    /// What this thread has taken and not given back, and the most that was of late.
    static HELD_BYTES: Cell<usize> = const { Cell::new(0) };
    static MOST_BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.set(ALLOCATION_COUNT.get() + 1);
        HELD_BYTES.set(HELD_BYTES.get().wrapping_add(layout.size()));
        MOST_BYTES.set(MOST_BYTES.get().max(HELD_BYTES.get()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        HELD_BYTES.set(HELD_BYTES.get().wrapping_sub(layout.size()));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations of this thread while the program runs, after it ran once.
fn allocations_of(program: Program, symbol_bytes: usize) -> Vec<(&'static str, usize)> {
    let inputs = vec![vec![7u8; symbol_bytes]; program.input_count];
    let mut outputs = vec![vec![0u8; symbol_bytes]; program.output_count];
    let compiled = Compiled::new(program).expect("a valid program");
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    let executors = Executor::all();
    let mut counts = Vec::with_capacity(executors.len());
    for executor in executors {
        executor.run(&compiled, &inputs, &mut outputs).expect("symbols are equally long");
        let before = ALLOCATION_COUNT.get();
        for _ in 0..3 {
            executor.run(&compiled, &inputs, &mut outputs).expect("symbols are equally long");
        }
        counts.push((executor.name(), ALLOCATION_COUNT.get() - before));
    }
    counts
}

fn assert_none(what: &str, program: Program) {
    for symbol_bytes in [1000, 65_536] {
        for (executor, count) in allocations_of(program.clone(), symbol_bytes) {
            assert_eq!(count, 0, "{what}, symbols of {symbol_bytes} bytes, {executor}");
        }
    }
}

#[test]
fn encoding_and_decoding_allocate_nothing() {
    for spec in ["rs:4+2", "rs:10+4", "rs:50+50"] {
        let code = weft_codes::parse(spec).expect(spec);
        assert_none(&format!("{spec}, encode"), code.encode().clone());
        let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
        let have = Offers((0..code.shape().n).map(|shard| (shard >= 2).then_some(offer)).collect());
        let plan = code.plan(&Wanted::Natives(vec![0, 1]), &have).expect("two losses are decodable");
        assert_none(&format!("{spec}, decode"), plan.program);
    }
}

#[test]
fn temporaries_and_runs_allocate_nothing() {
    // 40 inputs, one output, temporaries that are a run and then a chain.
    let pair = |at: usize| Op::Xor { from: vec![at, 20 + at], to: 41 + at };
    let last = Op::Xor { from: (41..61).collect(), to: 40 };
    let ops = (0..20).map(pair).chain([last]).collect();
    assert_none("pairs", Program { input_count: 40, output_count: 1, temporary_count: 20, ops });
}

/// The most bytes that this thread holds at one time for `task`.
fn most_bytes_of<T>(task: impl FnOnce() -> T) -> usize {
    let before = HELD_BYTES.get();
    MOST_BYTES.set(before);
    let made = task();
    let most = MOST_BYTES.get() - before;
    drop(made);
    most
}

/// The code of the Clay paper's widest comparison, and the widest that there is: decoding the first took 1.7 GB, the second 3.8 GB,
/// while what is coupled was one matrix.
#[test]
fn plans_of_wide_clay_codes_are_small() {
    for (spec, lost_counts) in [("clay:16+4", [1, 4]), ("clay:10+8", [1, 8]), ("clay:32+32", [1, 2])] {
        let code = weft_codes::parse(spec).expect(spec);
        let (n, alpha) = (code.shape().n, code.shape().alpha);
        for lost_count in lost_counts {
            let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
            let have = Offers((0..n).map(|shard| (shard >= lost_count).then_some(offer)).collect());
            let wanted = Wanted::Natives((0..lost_count * alpha).collect());
            let most = most_bytes_of(|| {
                let plan = code.plan(&wanted, &have).expect("no more than it tolerates");
                Compiled::new(plan.program).expect("a valid program")
            });
            assert!(most < 64 << 20, "{spec} without {lost_count}: {most} bytes");
        }
    }
}
