use super::*;
use crate::catalogue::memory::MemoryCatalogue;

const GOLDEN: &str =
    r#"{"version":2,"nodes":{"0000000000000000000000000000002a":{"count":2,"last_ms":1700000001000}}}"#;

#[test]
fn faults_are_remembered_for_a_while() {
    let (catalogue, now_ms) = (MemoryCatalogue::default(), 1_700_000_000_000);
    assert_eq!(FaultyHelpers::load(&catalogue, now_ms), Ok(FaultyHelpers::default()));
    FaultyHelpers::note(&catalogue, &[], now_ms).expect("nothing");
    assert_eq!(catalogue.job(NAME), Ok(None), "most volumes have no such record");
    for at_ms in [now_ms, now_ms + 1000] {
        FaultyHelpers::note(&catalogue, &[NodeId(42)], at_ms).expect("noted");
    }
    let stored = catalogue.job(NAME).expect("read").expect("noted");
    assert_eq!(String::from_utf8_lossy(&stored), GOLDEN);
    let helpers = FaultyHelpers::load(&catalogue, now_ms).expect("read");
    assert_eq!(helpers.of(NodeId(42)), Some(&Faults { count: 2, last_ms: now_ms + 1000 }));
    assert_eq!(helpers.of(NodeId(43)), None);
    let later = FaultyHelpers::load(&catalogue, now_ms + 1000 + REMEMBERED_MS).expect("read");
    assert_eq!(later.of(NodeId(42)), None);
}
