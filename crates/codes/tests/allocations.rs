//! In steady state running a program allocates nothing: not for encoding, not for decoding, not for temporaries.
//! A test binary of its own, because it counts what the whole process allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use weft_codes::{Compiled, Executor, Offer, Offers, Op, Program, Wanted};

thread_local! {
    static ALLOCATION_COUNT: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.set(ALLOCATION_COUNT.get() + 1);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
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
