use super::*;
use crate::commands::codes::stripe::Stripe;

fn names(spec: &str) -> Vec<String> {
    let code = weft_codes::parse(spec).expect(spec);
    symbols(code.shape(), &Stripe::encoded(&code).expect(spec).stored).iter().map(Symbol::name).collect()
}

#[test]
fn data_parity_and_duplicates_have_names() {
    assert_eq!(names("rs:3+2"), ["M0", "M1", "M2", "C0", "C1"]);
    assert_eq!(names("replica:3"), ["M0", "M0'", "M0'"]);
}

/// Fig. 1 of the NCFS paper, n = 4, k = 2, node by node.
#[test]
fn the_published_layout() {
    let nodes = [["M0", "M1", "M2"], ["M0'", "M3", "M4"], ["M1'", "M3'", "C0"], ["M2'", "M4'", "C0'"]];
    assert_eq!(names("embr:n=4,k=2"), nodes.concat());
}

#[test]
fn sums_are_shortened() {
    assert_eq!(sum(&[1, 0, 7]), "M0 + 7*M2");
    assert_eq!(sum(&[0, 0]), "0");
    assert!(sum(&[1; 40]).ends_with("+ M11 + ... (28 more)"));
}
