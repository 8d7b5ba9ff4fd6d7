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
        let svg = svg(&figure(logarithmic), &samples, &mut Looks::default()).unwrap();
        assert!(svg.starts_with("<svg") && svg.contains("ours &amp; others") && svg.contains("printed"), "{svg}");
        assert!(svg.contains("seconds &lt;each&gt;") && !svg.contains("not here"));
    }
}

/// A logarithm has no place for zero, and a figure without samples is an empty frame.
#[test]
fn what_has_no_place_is_left_out() {
    let none = Figure { printed: Vec::new(), ..figure(true) };
    assert!(svg(&none, &[], &mut Looks::default()).unwrap().contains("bytes"));
    let samples = [Sample::exact("f", "zero", 0.0, 0.0), Sample::exact("f", "zero", 1.0, f64::NAN)];
    assert!(svg(&figure(true), &samples, &mut Looks::default()).unwrap().contains("zero"));
}

/// An error as large as its value reaches the floor of a logarithmic figure, and no farther.
#[test]
fn errors_that_reach_zero_stay_in_the_figure() {
    let samples = [Sample::estimated("f", "wide", 1.0, 1.0, 1.0), Sample::exact("f", "wide", 10.0, 100.0)];
    assert!(!svg(&figure(true), &samples, &mut Looks::default()).unwrap().contains("NaN"));
}

#[test]
fn a_series_looks_the_same_in_all_figures_of_a_page() {
    let mut looks = Looks::default();
    assert_eq!(looks.of(&["one", "two"]), [0, 1]);
    // Another one has a colour that this figure has not, and a look that the page has not.
    assert_eq!(looks.of(&["two", "three"]), [1, 2]);
    assert_eq!(looks.of(&["three", "one"]), [2, 0]);
    let many: Vec<String> = (0..LOOKS).map(|number| format!("series {number}")).collect();
    let given = looks.of(&many.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(given.iter().collect::<BTreeSet<_>>().len(), LOOKS);
    let colours: BTreeSet<usize> = given[..COLOURS.len()].iter().map(|look| look % COLOURS.len()).collect();
    assert_eq!(colours.len(), COLOURS.len());
}

/// Amounts are compared from zero; what differs by less than half is shown closer.
#[test]
fn a_linear_range_begins_at_zero_unless_values_are_close() {
    assert_eq!(from_zero(1.0..10.0), 0.0..10.0);
    assert_eq!(from_zero(9.0..10.0), 9.0..10.0);
    assert_eq!(from_zero(-3.0..10.0), -3.0..10.0);
}
