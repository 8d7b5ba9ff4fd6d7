use super::*;

#[test]
fn bars_grow_by_eighths_of_a_letter() {
    assert_eq!((bar(0.0), bar(2.0)), (String::new(), "█".repeat(BAR_WIDTH)));
    let step = 1.0 / (8 * BAR_WIDTH) as f64;
    assert_eq!((bar(step), bar(7.0 * step), bar(9.0 * step)), ("▏".to_owned(), "▉".to_owned(), "█▏".to_owned()));
}
