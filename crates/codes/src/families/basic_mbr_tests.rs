use super::*;
use crate::code::Offer;
use crate::reference;
use serde_json::Value;

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

/// The stored strips of words, a byte each.
fn strips(words: &Value) -> Vec<Vec<u8>> {
    let bytes = words.as_array().expect("a list").iter().flat_map(|word| {
        let hex = word.as_str().expect("a string");
        (0..hex.len() / 2 - 1).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal"))
    });
    bytes.map(|byte| vec![byte]).collect()
}

#[test]
fn golden_vectors() {
    let golden: Value =
        serde_json::from_str(include_str!("../../tests/golden/basic.json")).expect("golden/basic.json is JSON");
    for case in golden["product_matrix_mbr"].as_array().expect("a list") {
        let (n, k, d) = (number(&case["n"]), number(&case["k"]), number(&case["d"]));
        let spec = format!("basic-mbr:{k}+{},d={d}", n - k);
        let code = crate::parse(&spec).expect(&spec);
        let shards: Vec<Vec<Vec<u8>>> = case["nodes"].as_array().expect("a list").iter().map(strips).collect();
        assert_eq!(reference::run(code.encode(), &strips(&case["message"])), shards.concat(), "{spec}");

        let lost = number(&case["repair"]["failed"]);
        let helpers = case["repair"]["helpers"].as_array().expect("a list");
        let is_helper = |shard| helpers.iter().any(|helper| number(&helper[0]) == shard);
        let offer = Offer { combines: true, request_price: 1, symbol_price: 1 };
        let have = Offers((0..n).map(|shard| is_helper(shard).then_some(offer)).collect());
        let plan = code.plan(&Wanted::Shards(vec![lost]), &have).expect(&spec);
        let sum = |read: &Read| vec![read.terms.iter().fold(0, |sum, &(sub, _)| sum ^ shards[read.shard][sub][0])];
        let sent: Vec<Vec<u8>> = plan.reads.iter().map(sum).collect();
        let words = Value::Array(helpers.iter().map(|helper| helper[1].clone()).collect());
        assert_eq!(sent, strips(&words), "{spec}");
        assert_eq!(reference::run(&plan.program, &sent), shards[lost], "{spec}");
    }
}
