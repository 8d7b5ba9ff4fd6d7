use super::super::tests::{NEEDS, node};
use super::super::{Node, rank};
use super::*;

/// Every family has a line that falls, whose last point is the best of the family.
#[test]
fn a_family_is_shown_by_the_codes_that_none_of_it_beats() {
    let nodes: Vec<Node> = (0..8).map(node).collect();
    let choices = rank(&nodes, &NEEDS).unwrap();
    for picture in Picture::ALL {
        let samples = samples(picture, "any", choices.iter());
        for line in samples.chunk_by(|one, other| one.series == other.series) {
            assert!(line.windows(2).all(|pair| pair[0].x < pair[1].x && pair[0].y > pair[1].y), "{line:?}");
            let of_family = choices.iter().filter(|choice| choice.code.starts_with(&format!("{}:", line[0].series)));
            let best = of_family.map(|choice| picture.value(choice)).fold(f64::INFINITY, f64::min);
            assert_eq!(line.last().unwrap().y, best);
        }
        assert!(samples.iter().any(|sample| sample.series == "rs"));
    }
}
