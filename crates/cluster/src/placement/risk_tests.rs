use super::*;

/// Three copies on 5,000 nodes, of which 1 % fail at once: Cidon et al., section 1 and figure 1.
#[test]
fn the_papers_figures() {
    for (sets, percent, digits) in
        [(275_000.0, 22.8, 0.05), (8_300.0, 0.78, 0.005), (1e7, 99.99, 0.005), (1_666.0, 0.157, 0.0005)]
    {
        let risk = loss_risk(5_000, 50, 3, 2, sets);
        assert!((risk.any_loss * 100.0 - percent).abs() < digits, "{sets} sets: {risk:?} for {percent} %");
    }
}

#[test]
fn small_cases_counted_by_hand() {
    // Two of four nodes fail; each of the six pairs is equally likely the one that holds both copies.
    let risk = loss_risk(4, 2, 2, 1, 1.0);
    assert!((risk.any_loss - 1.0 / 6.0).abs() < 1e-12 && (risk.lost_share - 1.0 / 6.0).abs() < 1e-12);
    // As many failures as may be lost cost nothing, and all nodes cost everything.
    assert_eq!(loss_risk(30, 2, 6, 2, 1e9).any_loss, 0.0);
    assert!((loss_risk(6, 6, 6, 2, 1.0).any_loss - 1.0).abs() < 1e-12);
}

#[test]
fn sets_are_bounded_by_what_there_is() {
    assert_eq!(set_count(6, 6, 1_000, 0).round(), 1.0);
    assert_eq!(set_count(30, 6, 1_000, 0).round(), 1_000.0);
    assert_eq!(set_count(30, 6, u64::MAX, 0).round(), 593_775.0);
    assert_eq!(set_count(5_000, 3, 10_000_000, 8_300), 8_300.0);
}
