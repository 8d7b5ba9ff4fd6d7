use super::*;
use weft_codes::analysis::EFFORT;

fn report(unit_count: usize, segment_count: u64) -> PlacementReport {
    let (unit_depth, unit_shards, locality_depth, locality_count, set_count) = (0, 1, 0, 0, 0);
    let risks = Vec::new();
    PlacementReport {
        unit_depth,
        unit_shards,
        locality_depth,
        set_count,
        unit_count,
        locality_count,
        segment_count,
        risks,
    }
}

fn risks(spec: &str, report: &PlacementReport) -> Vec<Risk> {
    report.risks_of(spec, &*weft_codes::parse(spec).expect(spec), EFFORT).expect(spec)
}

/// With the risks of `rs:4+2` and no year.
fn answer(unit_count: usize, segment_count: u64) -> Answer {
    let mut report = report(unit_count, segment_count);
    report.risks = risks("rs:4+2", &report);
    Answer { report, annual_losses: Vec::new() }
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
    let empty = answer(6, 0);
    let text = lines(&empty).join("\n");
    assert!(text.contains("nothing is stored yet") && !text.contains("NaN") && !text.contains("e0"), "{text}");
    assert_eq!(empty.report.risks[0].any_loss, 0.0);
    let text = lines(&answer(6, 2)).join("\n");
    assert!(text.ends_with("something is lost with a probability of 100 %, on average 100 % of 2 segments"), "{text}");
}

/// Of these all is lost beyond the promise, so that neither their generators nor their parity checks are made, of gigabytes.
#[test]
fn wide_codes_are_judged_without_their_matrices() {
    for spec in ["clay:16+4", "clay:32+32"] {
        let n = weft_codes::parse(spec).expect(spec).shape().n;
        let (risks, operations) = weft_codes::measure::planned(|| risks(spec, &report(n, 1)));
        assert_eq!(risks.len(), 1, "{spec}");
        // A matrix takes millions.
        assert!(operations < 10_000, "{spec}: {operations}");
        assert_eq!((risks[0].fatal_share, risks[0].fatal_share_error), (1.0, 0.0), "{spec}");
    }
}

/// Exact patterns, not the promise alone: an LRC survives most losses of one more than it promises.
#[test]
fn a_year_is_judged_by_the_patterns_that_are_fatal() {
    let day = Pace::default();
    let loss = |spec: &str, report: &PlacementReport, pace: Pace| {
        let code = weft_codes::parse(spec).expect(spec);
        year::annual_loss(code.shape(), &risks(spec, report), report, pace)
    };
    let one = report(10, 1);
    assert!(loss("lrc:6+2+2", &one, day) < loss("rs:7+3", &one, day) / 3.0);
    assert!(
        loss("rs:7+3", &report(40, 1000), day) > 10.0 * loss("rs:7+3", &report(40, 1), day),
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
