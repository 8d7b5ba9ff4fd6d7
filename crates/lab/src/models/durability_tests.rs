use super::*;
use crate::models::availability::FatalShares;

fn is_near(value: f64, printed: f64, digits: i32) -> bool {
    (value / printed - 1.0).abs() < 0.6 * 10f64.powi(1 - digits)
}

fn fatal(spec: &str) -> Vec<f64> {
    let code = weft_codes::parse(spec).unwrap();
    FatalShares::of(&*code, 1 << 30, 1).unwrap().shares().iter().map(|share| share.value).collect()
}

#[test]
fn backblaze() {
    let loss = annual_loss_by_windows(20, 3, 0.00405, 6.5);
    assert!(is_near(loss, 7.354e-12, 4), "{loss}");
}

#[test]
fn azure() {
    for (spec, years) in [("replica:3", 3.5e9), ("rs:6+3", 6.1e11), ("lrc:6+2+2", 2.6e12)] {
        let ours = AZURE.years_to_loss(&fatal(spec));
        assert!(is_near(ours, years, 2), "{spec}: {ours} years, printed {years}");
    }
}

/// 30 PB of blocks of 256 MiB, three copies each, nodes that live four years, a gigabit: days until the first block is lost.
#[test]
fn xorbas() {
    let rebuilt_per_day = 86_400.0 * (GIB / 8.0) / (GIB / 4.0);
    let chain = Chain::of_stripe(3, 1.0 / (4.0 * DAYS_PER_YEAR), &[0.0, 0.0, 0.0, 1.0], |_| rebuilt_per_day);
    let stripes = 30.0 * GIB * GIB / 1024.0 / (3.0 * GIB / 4.0);
    let days = chain.mean_time_to_loss() / stripes;
    assert!(is_near(days, 2.3079e10, 4), "{days}");
}

#[test]
fn copysets() {
    for (sets, printed) in [(275_000.0, 0.228), (8_300.0, 0.0078)] {
        let loss = burst_loss(5000, 50, 3, sets);
        assert!(is_near(loss, printed, 2), "{sets}: {loss}");
    }
}
