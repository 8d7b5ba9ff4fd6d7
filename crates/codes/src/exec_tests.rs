use super::*;

#[test]
fn the_self_test_finds_kernels_that_err() {
    assert!(!Executor { isa: arch::ERRING }.is_right());
    assert!(Executor::all().iter().all(Executor::is_right));
}

#[test]
fn large_programs_store_past_the_caches() {
    assert_eq!(stores((1 << 20) * 6), Stores::Streaming);
    assert_eq!(stores((64 << 10) * 12), Stores::Cached);
}

#[test]
fn programs_that_add_much_are_bit_sliced() {
    let is_bit_sliced = |spec: &str| {
        let program = crate::parse(spec).expect(spec).encode().clone();
        Compiled::new(program).expect("a valid program").bit_sliced.is_some()
    };
    for spec in ["basic:3+3,d=4", "basic:4+4,d=6", "crs:10+4"] {
        assert!(is_bit_sliced(spec), "{spec}");
    }
    for spec in ["raid5:5", "rs:4+2", "crs:4+2", "msbasic:4", "mojette:4+2", "ldpc:plank-100"] {
        assert!(!is_bit_sliced(spec), "{spec}");
    }
    assert!(probes::probes().any(|probe| bit_sliced::lower(&probe).is_some()));
}
