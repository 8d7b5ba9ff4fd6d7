use super::*;

fn report(unit_count: usize, segment_count: u64) -> PlacementReport {
    let (unit_depth, unit_shards, locality_depth, locality_count) = (0, 1, 0, 0);
    PlacementReport {
        unit_depth,
        unit_shards,
        locality_depth,
        set_count: 0,
        unit_count,
        locality_count,
        segment_count,
        risks: Vec::new(),
    }
}

fn risks(spec: &str, report: &PlacementReport) -> Vec<Risk> {
    report.risks_of(spec, &*weft_codes::parse(spec).expect(spec), EFFORT).expect(spec)
}

#[test]
fn finding_26_the_share_of_fatal_losses_is_that_of_the_code() {
    // One set of all 14 units, so that what is lost is what is fatal.
    let cube = risks("ldpc:cube-8-6", &report(14, 1));
    assert_eq!(cube[0].failed, 4);
    assert!((cube[0].any_loss - 34.0 / 1001.0).abs() < 1e-12, "{}", cube[0].any_loss);
    assert_eq!(cube[0].fatal_share_error, 0.0, "1,001 ways are all tried");
    assert!(cube.windows(2).all(|pair| pair[0].any_loss < pair[1].any_loss), "more losses are more dangerous");
    for spec in ["lrc:6+2+2", "msbasic:4+2,3", "mojette:4+2"] {
        let Ok(code) = weft_codes::parse(spec) else { continue };
        let exact = analysis::survival(&Erasures::new(&*code).expect(spec), code.shape().tolerance + 1, EFFORT, SEED);
        let risk = &risks(spec, &report(code.shape().n, 1))[0];
        assert!((risk.any_loss - (1.0 - exact.share())).abs() < 1e-12, "{spec}");
    }
    let copies = risks("replica:3", &report(3, 1));
    assert_eq!((copies.len(), copies[0].failed), (1, 3), "beyond what an MDS code survives all is lost");
    assert!((copies[0].any_loss - 1.0).abs() < 1e-12);
}

#[test]
fn finding_26_what_is_sampled_says_how_far_it_may_be_off() {
    let sampled = Survival { lost_count: 4, patterns: 1 << 40, tried: 10_000, decodable: 9_000, fatal: None };
    assert!((share_error(&sampled) - 1.96 * (0.09f64 / 10_000.0).sqrt()).abs() < 1e-12);
    let never_met = Survival { decodable: 10_000, ..sampled.clone() };
    assert!((share_error(&never_met) - 3.0 / 10_000.0).abs() < 1e-12, "what was not met is not impossible");
    assert_eq!(share_error(&Survival { patterns: 10_000, ..sampled }), 0.0);
}

#[test]
fn units_with_several_shards_lose_as_many() {
    // Two on each of three: one unit is survived, two are not.
    let shared = risks("rs:4+2", &report(3, 10));
    assert_eq!(shared.len(), 1);
    assert_eq!((shared[0].failed, shared[0].any_loss, shared[0].lost_share), (2, 1.0, 1.0));
    // Of four units two hold two shards. Two that fail lose two, three or four shards, of which three are too many.
    let uneven = risks("rs:4+2", &report(4, 1));
    assert_eq!(uneven[0].failed, 2);
    assert!((uneven[0].fatal_share - 5.0 / 6.0).abs() < 1e-12, "{:?}", uneven[0]);
    assert_eq!(of_units(6, 4, &[0.0; 3])[..2], [0.0, 0.0]);
    // Where there are enough units nothing changes.
    assert_eq!(of_units(3, 3, &[0.0, 0.0, 0.5]), [0.0, 0.0, 0.5, 1.0]);
}
