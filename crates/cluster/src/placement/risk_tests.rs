use super::*;

/// Every loss beyond `tolerance` is fatal, as for copies and all MDS codes.
fn beyond(tolerance: usize) -> Vec<f64> {
    vec![0.0; tolerance + 1]
}

/// Three copies on 5,000 nodes, of which 1 % fail at once: Cidon et al., section 1 and figure 1.
#[test]
fn the_papers_figures() {
    for (sets, percent, digits) in
        [(275_000.0, 22.8, 0.05), (8_300.0, 0.78, 0.005), (1e7, 99.99, 0.005), (1_666.0, 0.157, 0.0005)]
    {
        let risk = loss_risk(5_000, 50, 3, &beyond(2), sets);
        assert!((risk.any_loss * 100.0 - percent).abs() < digits, "{sets} sets: {risk:?} for {percent} %");
    }
}

#[test]
fn small_cases_counted_by_hand() {
    // Two of four nodes fail; each of the six pairs is equally likely the one that holds both copies.
    let risk = loss_risk(4, 2, 2, &beyond(1), 1.0);
    assert!((risk.any_loss - 1.0 / 6.0).abs() < 1e-12 && (risk.lost_share - 1.0 / 6.0).abs() < 1e-12);
    // As many failures as may be lost cost nothing, and all nodes cost everything.
    assert_eq!(loss_risk(30, 2, 6, &beyond(2), 1e9).any_loss, 0.0);
    assert!((loss_risk(6, 6, 6, &beyond(2), 1.0).any_loss - 1.0).abs() < 1e-12);
}

#[test]
fn finding_26_only_fatal_patterns_count() {
    // 14 units, all of them in each segment: what is lost is the share of fatal patterns.
    let fatal = [0.0, 0.0, 0.0, 0.0, 34.0 / 1001.0];
    let risk = loss_risk(14, 4, 14, &fatal, 1.0);
    assert!((risk.any_loss - 34.0 / 1001.0).abs() < 1e-12, "{risk:?}");
    assert!((loss_risk(14, 5, 14, &fatal, 1.0).any_loss - 1.0).abs() < 1e-12, "where the shares end, all are fatal");
    // Of 28 units a segment has 14: it must be hit four times, and then be hit fatally.
    let all_four_hit = (14.0 * 13.0 * 12.0 * 11.0) / (28.0 * 27.0 * 26.0 * 25.0);
    let risk = loss_risk(28, 4, 14, &fatal, 1e3);
    assert!((risk.lost_share - all_four_hit * 34.0 / 1001.0).abs() < 1e-12, "{risk:?}");
}

#[test]
fn finding_26_an_empty_volume_loses_nothing() {
    let risk = loss_risk(6, 3, 6, &beyond(2), set_count(6, 6, 0, 0));
    assert_eq!(risk.any_loss, 0.0, "{risk:?}");
    assert!((risk.lost_share - 1.0).abs() < 1e-12);
}

#[test]
fn sets_are_bounded_by_what_there_is() {
    assert_eq!(set_count(6, 6, 1_000, 0).round(), 1.0);
    assert_eq!(set_count(30, 6, 1_000, 0).round(), 1_000.0);
    assert_eq!(set_count(30, 6, u64::MAX, 0).round(), 593_775.0);
    assert_eq!(set_count(5_000, 3, 10_000_000, 8_300), 8_300.0);
}
