use super::*;

#[test]
fn the_tail_is_that_of_the_normal_distribution() {
    for (x, tail) in [(0.0, 0.5), (1.0, 0.158_655), (1.96, 0.025), (3.0, 0.001_35)] {
        let found = 10f64.powf(-minus_log10_tail(x));
        assert!((found - tail).abs() < 0.0002, "{x}: {found} for {tail}");
    }
    assert!(minus_log10_tail(-5.0) < 1e-3 && minus_log10_tail(40.0) > 100.0);
}

#[test]
fn silence_accrues_and_news_end_it() {
    let mut arrivals = Arrivals::new(0);
    for i in 1..=20 {
        arrivals.heard(i * 2_000 + i % 3 * 100, false);
    }
    assert!(arrivals.phi(41_500, 2_000) < 1.0);
    let phis: Vec<f64> = (0..12).map(|i| arrivals.phi(42_000 + i * 1_000, 2_000)).collect();
    assert!(phis.is_sorted());
    // Suspect after about four heartbeats of silence.
    assert!(arrivals.phi(46_000, 2_000) < PHI_SUSPECT && arrivals.phi(50_000, 2_000) > PHI_SUSPECT);
    arrivals.heard(50_000, false);
    assert!(arrivals.phi(50_500, 2_000) < 1.0);
}

#[test]
fn whoever_is_irregular_is_waited_for_longer() {
    let (mut regular, mut irregular) = (Arrivals::new(0), Arrivals::new(0));
    for i in 1..=20 {
        regular.heard(i * 2_000, false);
        irregular.heard(i * 2_000 + [0, 3_000][i as usize % 2], false);
    }
    assert!(irregular.phi(48_000, 2_000) < regular.phi(48_000, 2_000));
    // What was before a new start does not count.
    irregular.heard(48_000, true);
    assert_eq!(irregular.intervals_ms.len(), 0);
}
