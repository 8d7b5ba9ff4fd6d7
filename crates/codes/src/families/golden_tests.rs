//! Matrices of other libraries, also with parameters that their families refuse here because they are not MDS.

use super::{raid6, rs, rs_vandermonde};
use crate::matrix::Matrix;
use crate::program::Program;
use crate::reference;
use alloc::vec::Vec;
use serde_json::Value;

fn golden() -> Value {
    serde_json::from_str(include_str!("../../tests/golden/rs.json")).expect("golden/rs.json is JSON")
}

fn cases<'a>(golden: &'a Value, of: &str) -> &'a [Value] {
    golden[of].as_array().expect("a list of cases")
}

fn counts(case: &Value) -> (usize, usize) {
    let count = |name: &str| case[name].as_u64().expect("a count") as usize;
    (count("k"), count("m"))
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("a string");
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect()
}

fn symbols(list: &Value) -> Vec<Vec<u8>> {
    list.as_array().expect("a list").iter().map(bytes).collect()
}

fn matrix(rows: &Value) -> Matrix {
    let rows: Vec<Vec<u8>> = serde_json::from_value(rows.clone()).expect("rows of numbers");
    Matrix::from_rows(rows[0].len(), &rows).expect("rows of one length")
}

fn parities(coding: &Matrix, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    reference::run(&Program::from_matrix(coding), data)
}

#[test]
fn isal_matrices() {
    for case in cases(&golden(), "isal") {
        let (k, m) = counts(case);
        let coding = match case["matrix"].as_str() {
            Some("gf_gen_rs_matrix") => rs_vandermonde::isal_vandermonde(k, m),
            Some("gf_gen_cauchy1_matrix") => rs::isal_cauchy(k, m),
            other => panic!("{other:?}"),
        };
        assert_eq!(coding, matrix(&case["coding_rows"]), "{k}+{m}");
        assert_eq!(parities(&coding, &symbols(&case["data"])), symbols(&case["parity"]), "{k}+{m}");
    }
}

#[test]
fn raid6_of_any_width() {
    for case in cases(&golden(), "raid6_pq") {
        let data = symbols(&case["data"]);
        assert_eq!(parities(&raid6::coding(data.len()), &data), [bytes(&case["P"]), bytes(&case["Q"])]);
    }
}
