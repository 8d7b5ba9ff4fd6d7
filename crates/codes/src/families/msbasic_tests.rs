use super::*;
use crate::matrix::Matrix;
use crate::reference;
use crate::row::{Bits, Row, reduced};
use serde_json::Value;

fn golden() -> Vec<Value> {
    let text = include_str!("../../tests/golden/basic.json");
    let golden: Value = serde_json::from_str(text).expect("golden/basic.json is JSON");
    golden["ms_basic_as_printed"].as_array().expect("a list").clone()
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

/// The stored strips of a word, a byte each.
fn strips(word: &Value, alpha: usize) -> Vec<Vec<u8>> {
    let hex = word.as_str().expect("a string");
    (0..alpha).map(|i| vec![u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal")]).collect()
}

fn words(value: &Value, alpha: usize) -> Vec<Vec<u8>> {
    value.as_array().expect("a list").iter().flat_map(|word| strips(word, alpha)).collect()
}

#[test]
fn golden_parities() {
    for case in golden() {
        let (k, strip_count) = (number(&case["k"]), number(&case["p"]));
        let example = &case["example_convB"];
        let data = words(&example["D"], strip_count - 1);
        let parities = words(&example["P"], strip_count - 1);
        assert_eq!(reference::run(&encode(k, strip_count), &data), parities, "k = {k}, p = {strip_count}");
    }
}

/// How many patterns of each number of losses can be decoded, all tried.
#[test]
fn golden_counts() {
    for case in golden() {
        let (k, strip_count) = (number(&case["k"]), number(&case["p"]));
        let alpha = strip_count - 1;
        let coding = encode(k, strip_count).to_matrix().expect("a valid program");
        let generator = Matrix::identity(k * alpha).stack(&coding);
        let rows: Vec<Bits> = (0..generator.rows()).map(|row| Bits::pack(generator.row(row))).collect();
        let mut decodable_counts = vec![0; k + 1];
        for lost in (0u32..1 << (2 * k)).filter(|lost| lost.count_ones() as usize <= k) {
            let left = rows.chunks(alpha).enumerate().filter(|(shard, _)| lost >> shard & 1 == 0);
            let (_, pivots) = reduced(left.flat_map(|(_, rows)| rows.to_vec()).collect(), k * alpha);
            decodable_counts[lost.count_ones() as usize] += usize::from(pivots.len() == k * alpha);
        }
        let golden: Vec<usize> =
            case["decodable_conventionB_parity_strip"].as_array().expect("a list").iter().map(number).collect();
        assert_eq!(decodable_counts, golden, "k = {k}, p = {strip_count}");
    }
}

#[test]
fn primes() {
    assert_eq!([1, 2, 3, 4, 5, 6, 7, 8].map(smallest_prime_above), [2, 3, 5, 5, 7, 7, 11, 11]);
}
