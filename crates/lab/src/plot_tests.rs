use super::*;

fn figure(logarithmic: bool) -> Figure {
    let axis = |label| Axis { label, logarithmic };
    Figure {
        name: "f",
        title: "A figure",
        x: axis("bytes"),
        y: axis("seconds <each>"),
        printed: vec![Sample::exact("f", "printed", 1.0, 2.0)],
    }
}

#[test]
fn numbers_have_four_digits() {
    for (value, text) in [
        (0.0, "0"),
        (1.0, "1"),
        (12.5, "12.5"),
        (1.23456, "1.235"),
        (12345.6, "12346"),
        (0.05, "0.05"),
        (1.96e-6, "1.960e-6"),
        (2.0e9, "2.000e9"),
        (-3.0, "-3"),
    ] {
        assert_eq!(number(value), text);
    }
}

#[test]
fn every_series_is_drawn_and_named() {
    let samples = [
        Sample::exact("f", "ours & others", 1.0, 3.0),
        Sample::estimated("f", "ours & others", 10.0, 5.0, 1.0),
        Sample::exact("another figure", "not here", 1.0, 1.0),
    ];
    for logarithmic in [false, true] {
        let svg = svg(&figure(logarithmic), &samples).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("ours &amp; others") && svg.contains("printed"), "{svg}");
        assert!(svg.contains("seconds &lt;each&gt;") && !svg.contains("not here"));
    }
}

/// A logarithm has no place for zero, and a figure without samples is an empty frame.
#[test]
fn what_has_no_place_is_left_out() {
    let none = Figure { printed: Vec::new(), ..figure(true) };
    assert!(svg(&none, &[]).unwrap().contains("bytes"));
    let samples = [Sample::exact("f", "zero", 0.0, 0.0), Sample::exact("f", "zero", 1.0, f64::NAN)];
    assert!(svg(&figure(true), &samples).unwrap().contains("zero"));
}

/// An error as large as its value reaches the floor of a logarithmic figure, and no farther.
#[test]
fn errors_that_reach_zero_stay_in_the_figure() {
    let samples = [Sample::estimated("f", "wide", 1.0, 1.0, 1.0), Sample::exact("f", "wide", 10.0, 100.0)];
    assert!(!svg(&figure(true), &samples).unwrap().contains("NaN"));
}
