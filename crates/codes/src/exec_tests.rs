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
