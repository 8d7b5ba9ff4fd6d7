use super::*;
use crate::code::Offer;
use crate::reference;
use serde_json::Value;

fn golden(list: &str) -> Vec<Value> {
    let text = include_str!("../../tests/golden/basic.json");
    let golden: Value = serde_json::from_str(text).expect("golden/basic.json is JSON");
    golden[list].as_array().expect("a list").clone()
}

fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

/// The stored strips of words, a byte each.
fn strips(words: &[Value]) -> Vec<Vec<u8>> {
    let bytes = words.iter().flat_map(|word| {
        let hex = word.as_str().expect("a string");
        (0..hex.len() / 2 - 1).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal"))
    });
    bytes.map(|byte| vec![byte]).collect()
}

/// What the reads bring, combined by the helpers.
fn fetch(plan: &Plan, shards: &[Vec<Vec<u8>>]) -> Vec<Vec<u8>> {
    let sum = |read: &Read| {
        assert!(read.terms.iter().all(|&(_, coefficient)| coefficient == 1));
        vec![read.terms.iter().fold(0, |sum, &(sub, _)| sum ^ shards[read.shard][sub][0])]
    };
    plan.reads.iter().map(sum).collect()
}

#[test]
fn golden_vectors() {
    for case in [golden("product_matrix_msr"), golden("product_matrix_msr_d_n_minus_1")].concat() {
        let (n, k, d) = (number(&case["n"]), number(&case["k"]), number(&case["d"]));
        let spec = format!("basic:{k}+{},d={d}", n - k);
        let code = crate::parse(&spec).expect(&spec);
        let shards: Vec<Vec<Vec<u8>>> = list(&case["nodes"]).iter().map(|node| strips(list(node))).collect();
        let parities = reference::run(code.encode(), &shards[..k].concat());
        assert_eq!(parities, shards[k..].concat(), "{spec}");

        // The golden helpers send the golden words, which rebuild the golden node.
        let lost = number(&case["repair"]["failed"]);
        let helpers = list(&case["repair"]["helpers"]);
        let offered = |indices: &[usize], combines: bool| {
            let offer = Offer { combines, request_price: 1, symbol_price: 1 };
            Offers((0..n).map(|shard| indices.contains(&shard).then_some(offer)).collect())
        };
        let indices: Vec<usize> = helpers.iter().map(|helper| number(&helper[0])).collect();
        let plan = code.plan(&Wanted::Shards(vec![lost]), &offered(&indices, true)).expect(&spec);
        let words: Vec<Value> = helpers.iter().map(|helper| helper[1].clone()).collect();
        assert_eq!(fetch(&plan, &shards), strips(&words), "{spec}");
        assert_eq!(reference::run(&plan.program, &strips(&words)), shards[lost], "{spec}");

        if let Some(left) = case.get("reconstruct_from") {
            let left: Vec<usize> = list(left).iter().map(number).collect();
            let plan = code.plan(&Wanted::Shards((0..n).collect()), &offered(&left, false)).expect(&spec);
            assert_eq!(reference::run(&plan.program, &fetch(&plan, &shards)), shards.concat(), "{spec}");
        }
    }
}
