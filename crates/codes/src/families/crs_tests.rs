use super::*;
use crate::program::Program;
use crate::reference;
use serde_json::Value;

fn golden() -> Vec<Value> {
    let golden: Value =
        serde_json::from_str(include_str!("../../tests/golden/rs.json")).expect("golden/rs.json is JSON");
    golden["jerasure"].as_array().expect("a list").clone()
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

#[test]
fn jerasure_matrices_and_counts() {
    for case in golden() {
        let (k, m) = (number(&case["k"]), number(&case["m"]));
        for bits in [4, 8] {
            let field = Field::new(bits);
            let good = field.good_cauchy(k, m);
            let rows: Vec<Vec<u8>> =
                serde_json::from_value(case[format!("cauchy_good_w{bits}")].clone()).expect("rows of numbers");
            assert_eq!(Some(good.clone()), Matrix::from_rows(k, &rows), "{k}+{m}, w = {bits}");

            let matrix = field.bit_matrix(&good);
            let counts = &case[format!("xor_w{bits}")];
            let ones: usize = (0..matrix.rows()).flat_map(|row| matrix.row(row)).map(|&bit| usize::from(bit)).sum();
            assert_eq!(ones, number(&counts["good_ones"]), "{k}+{m}, w = {bits}");
            let direct = number(&counts["good_xors_dumb"]);
            assert_eq!(ones - matrix.rows(), direct, "{k}+{m}, w = {bits}");
            let program = Program::from_matrix(&matrix);
            let smart = number(&counts["good_xors_smart"]);
            println!("{k}+{m}, w = {bits}: {direct} direct, {smart} smart, {} shared", program.xor_count());
            assert!(program.xor_count() <= smart, "{k}+{m}, w = {bits}: {} > {smart}", program.xor_count());
        }
    }
}

#[test]
fn the_field_is_the_field() {
    let field = Field::new(8);
    for (a, b) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
        assert_eq!(field.multiply(a, b), reference::multiply(a, b));
    }
    let field = Field::new(4);
    assert!((1..16).all(|a| field.multiply(a, field.divide(1, a)) == 1));
    assert_eq!((field.multiply(8, 2), field.multiply(9, 2)), (3, 1));
}
