use super::*;

#[test]
fn the_self_test_finds_kernels_that_err() {
    assert!(!Executor { isa: arch::ERRING }.is_right());
    assert!(Executor::all().iter().all(Executor::is_right));
}
