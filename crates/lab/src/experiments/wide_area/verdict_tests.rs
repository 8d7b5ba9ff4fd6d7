//! The verdict follows the samples: every claim has a sentence for either outcome, and none where nothing was measured.

use super::*;

/// Figure 6 of the hodgepodge distribution: speeds of Reed-Solomon and LDPC by set, with decoding of 2004 and of today alike.
fn figure_6(reed_solomon: [f64; 5], ldpc: [f64; 5]) -> Vec<Sample> {
    let mut samples = Vec::new();
    for (kind, speeds) in [(Kind::ReedSolomon, reed_solomon), (Kind::Ldpc, ldpc)] {
        for processor in Processor::ALL {
            let series = line_name(kind, Line::Study(processor));
            let sets = SETS.into_iter().zip(speeds);
            samples.extend(
                sets.map(|((n, _), speed)| Sample::estimated("figure 6 hodgepodge", &series, n as f64, speed, 0.5)),
            );
        }
    }
    samples
}

#[test]
fn wide_graphs_that_win_agree_with_the_study() {
    let verdict = of(&figure_6([30.0, 32.0, 34.0, 20.0, 10.0], [25.0, 30.0, 33.0, 36.0, 40.0]));
    assert!(verdict.agrees.contains("first clearly faster than Reed-Solomon at n = 50"), "{verdict:?}");
    assert!(verdict.agrees.contains("the best set is LDPC 100+100"), "{verdict:?}");
    assert!(verdict.agrees.contains("from 34.0 Mbit/s at n = 20 to 10.0 at n = 100"), "{verdict:?}");
    assert_eq!(verdict.differs, "");
}

#[test]
fn wide_graphs_that_lose_differ_from_it() {
    let verdict = of(&figure_6([30.0, 32.0, 34.0, 35.0, 36.0], [25.0, 30.0, 33.0, 34.0, 35.0]));
    assert!(verdict.differs.contains("nowhere clearly faster"), "{verdict:?}");
    assert!(verdict.differs.contains("the best set is Reed-Solomon 100+100"), "{verdict:?}");
    assert!(verdict.differs.contains("from 34.0 Mbit/s at n = 20 to 36.0 at n = 100"), "{verdict:?}");
    assert_eq!(verdict.agrees, "");
}

#[test]
fn trends_are_those_of_the_ends() {
    let grid = |figure: &str, speed: fn(f64, f64) -> f64| -> Vec<Sample> {
        let cells = [1.0, 3.0, 5.0].into_iter().flat_map(|n| [1.0, 3.0].map(|m| (n, m)));
        cells.map(|(n, m)| Sample::estimated(figure, &format!("n = {n}"), m, speed(n, m), 0.1)).collect()
    };
    let verdict = |speed| of(&[grid("figure 3", speed), grid("figure 4", speed)].concat());
    let both = verdict(|n, m| 20.0 + 2.0 * m - n);
    assert!(both.agrees.starts_with("Hodgepodge") && both.differs.starts_with("Regional"), "{both:?}");
    let with_n = verdict(|n, _| 20.0 - n);
    assert!(with_n.agrees.starts_with("Regional") && with_n.differs.starts_with("Hodgepodge"), "{with_n:?}");
    assert!(
        with_n.agrees.contains("clearly for 0 of 3 values of n") && with_n.agrees.contains("for 2 of 2"),
        "{with_n:?}"
    );
}

#[test]
fn of_nothing_nothing_is_said() {
    assert_eq!(of(&[]), Verdict::default());
}
