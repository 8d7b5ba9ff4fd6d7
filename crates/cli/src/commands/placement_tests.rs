use super::*;

fn answer(unit_count: usize, segment_count: u64) -> Answer {
    Answer {
        unit_depth: 0,
        locality_depth: 0,
        set_count: 0,
        unit_count,
        locality_count: 0,
        segment_count,
        risks: Vec::new(),
        annual_losses: Vec::new(),
    }
}

fn risks(spec: &str, answer: &Answer) -> Vec<Risk> {
    risks_of(spec, &*compose::code(spec).expect(spec), answer, EFFORT).expect(spec)
}

#[test]
fn finding_26_the_share_of_fatal_losses_is_that_of_the_code() {
    // One set of all 14 units, so that what is lost is what is fatal.
    let cube = risks("ldpc:cube-8-6", &answer(14, 1));
    assert_eq!(cube[0].failed, 4);
    assert!((cube[0].any_loss - 34.0 / 1001.0).abs() < 1e-12, "{}", cube[0].any_loss);
    assert_eq!(cube[0].fatal_share_error, 0.0, "1,001 ways are all tried");
    assert!(risk_line(&cube[0], 1).contains("with a probability of 3.4 %, in the mean 3.4 % of 1 segment;"));
    assert!(cube.windows(2).all(|pair| pair[0].any_loss < pair[1].any_loss), "more losses are more dangerous");
    for spec in ["lrc:6+2+2", "msbasic:4+2,3", "mojette:4+2"] {
        let Ok(code) = compose::code(spec) else { continue };
        let exact = analysis::survival(&Erasures::new(&*code).expect(spec), code.shape().tolerance + 1, EFFORT, SEED);
        let risk = &risks(spec, &answer(code.shape().n, 1))[0];
        assert!((risk.any_loss - (1.0 - exact.share())).abs() < 1e-12, "{spec}");
    }
    let copies = risks("replica:3", &answer(3, 1));
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
fn finding_26_shares_are_percentages_that_people_read() {
    let said = [0.0, 1e-9, 34.0 / 1001.0, 0.0078, 0.228, 0.9999, 1.0, 1.0 - 1e-15, 2e-7].map(percent);
    let wanted =
        ["0 %", "less than 0.000001 %", "3.4 %", "0.78 %", "23 %", "more than 99 %", "100 %", "100 %", "0.000020 %"];
    assert_eq!(said, wanted);
}

#[test]
fn finding_26_an_empty_volume_has_no_shares_that_are_no_numbers() {
    let mut empty = answer(6, 0);
    empty.risks = risks("rs:4+2", &empty);
    let text = lines(&empty).join("\n");
    assert!(text.contains("nothing is stored yet") && !text.contains("NaN") && !text.contains("e0"), "{text}");
    assert_eq!(empty.risks[0].any_loss, 0.0);
    let mut full = answer(6, 2);
    full.risks = risks("rs:4+2", &full);
    let text = lines(&full).join("\n");
    assert!(text.ends_with("something is lost with a probability of 100 %, in the mean 100 % of 2 segments"), "{text}");
}

/// Of these all is lost beyond the promise, so that neither their generators nor their parity checks are made, of gigabytes.
#[test]
fn wide_codes_are_judged_without_their_matrices() {
    for spec in ["clay:16+4", "clay:32+32"] {
        let code = compose::code(spec).expect(spec);
        let n = code.shape().n;
        let (risks, operations) =
            weft_codes::measure::planned(|| risks_of(spec, &*code, &answer(n, 1), EFFORT).expect(spec));
        assert_eq!((operations, risks.len()), (0, 1), "{spec}");
        assert_eq!((risks[0].fatal_share, risks[0].fatal_share_error), (1.0, 0.0), "{spec}");
    }
}

/// Exact patterns, not the promise alone: an LRC survives most losses of one more than it promises.
#[test]
fn a_year_is_judged_by_the_patterns_that_are_fatal() {
    let day = Pace::default();
    let loss = |spec: &str, answer: &Answer, pace: Pace| {
        let code = compose::code(spec).expect(spec);
        year::annual_loss(code.shape(), &risks_of(spec, &*code, answer, EFFORT).expect(spec), answer, pace)
    };
    let one = answer(10, 1);
    assert!(loss("lrc:6+2+2", &one, day) < loss("rs:7+3", &one, day) / 3.0);
    assert!(
        loss("rs:7+3", &answer(40, 1000), day) > 10.0 * loss("rs:7+3", &answer(40, 1), day),
        "more sets, more losses"
    );
    let quick = Pace { repair_ms: day.repair_ms / 10, ..day };
    assert!(loss("rs:7+3", &one, quick) < loss("rs:7+3", &one, day) / 500.0, "three repairs are missed");
    let mut said = answer(10, 1);
    said.annual_losses = vec![AnnualLoss { policy: "rs:7+3".to_owned(), annual_loss: 1e-9, pace: day }];
    let text = lines(&said).join("\n");
    assert!(
        text.ends_with("a probability of 1.0e-9, if 2.0 % of units fail and each is rebuilt within 24 h"),
        "{text}"
    );
}
