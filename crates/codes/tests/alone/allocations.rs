//! In steady state running a program allocates nothing: not for encoding, not for decoding, not for temporaries. Plans of codes with
//! many symbols take memory in proportion to what they say, and a spec takes little to be read. A test binary of its own, because it counts what the whole process allocates.

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

/// The largest of each family, and what is beyond. A spec comes with a policy that any owner of a file may set, and with shard files of
/// others: `basic-mbr:1+2038,d=1` took 8.5 GB to be read.
const HOSTILE: &[&str] = &[
    "replica:256",
    "raid5:256",
    "raid6:256",
    "rs:128+128",
    "rs:1+255",
    "rs:255+1",
    "rs-klauspost:128+128",
    "rs-cauchy:128+128",
    "rs-vandermonde:10+246",
    "rs-vandermonde:21+4",
    "crs:128+128",
    "lrc:200+200+55",
    "lrc:65535+65535+0",
    "lrc-uniform:200+200+20",
    "lrc-uniform:65535+65535+65535",
    "embr:n=23,k=11",
    "embr:n=23,k=22",
    "msbasic:16",
    "basic:2+1019,d=2",
    "basic:2+252,d=5",
    "basic:2+20,d=21",
    "basic:2+19,d=18",
    "basic:2+254,d=255",
    "basic:14+242,d=26",
    "basic:16+16,d=30",
    "basic-mbr:1+2038,d=1",
    "basic-mbr:1+255,d=8",
    "basic-mbr:1+255,d=1",
    "basic-mbr:3+22,d=24",
    "basic-mbr:6+14,d=18",
    "clay:32+32",
    "clay:18+2",
    "clay:12+4",
    "msr:2+62,d=63",
    "msr:16+16,d=31",
    "mbr:2+254,d=255",
    "mbr:1+255,d=255",
    "mbr:8+248,d=67",
    "mbr:31+225,d=31",
    "mojette:1+16383",
    "mojette:16383+1",
    "mojette:64+64",
    "mojette:127+127,l=1",
    "mojette:2+2,l=4095",
    "mojette:20+20,nonsystematic",
    "ldpc:plank-100",
];

#[test]
fn any_spec_takes_little_memory_to_be_read() {
    for family in weft_codes::families() {
        assert!(HOSTILE.iter().any(|spec| spec.split(':').next() == Some(family.name)), "{}", family.name);
    }
    for spec in HOSTILE {
        let mut size = None;
        let most = most_bytes_of(|| {
            let code = weft_codes::parse(spec).ok()?;
            let shape = code.shape();
            size = Some((shape.n, shape.n * shape.alpha * shape.native_count));
            Some(code)
        });
        assert!(most < 192 << 20, "{spec}: {most} bytes");
        // Of these the generator matrix is always made.
        if let (Some((n, elements)), true) = (size, spec.starts_with("basic")) {
            assert!(n <= 256 && elements <= 1 << 24, "{spec}: {n} shards, {elements} elements");
        }
    }
}
