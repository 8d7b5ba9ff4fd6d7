//! Bytes that must never change: our own format, and those of ISA-L, klauspost/reedsolomon, Linux RAID-6 and Jerasure.

use crate::stripe::Stripe;
use serde_json::Value;
use weft_codes::{Code, Matrix, Offer, Offers, Wanted, gf, linear};

fn golden() -> Value {
    serde_json::from_str(include_str!("../golden/rs.json")).expect("golden/rs.json is JSON")
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

pub fn number(value: &Value) -> usize {
    value.as_u64().expect("a number") as usize
}

pub fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("a string");
    (0..hex.len() / 2).map(|i| u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).expect("hexadecimal")).collect()
}

pub fn symbols(value: &Value) -> Vec<Vec<u8>> {
    list(value).iter().map(bytes).collect()
}

pub fn matrix(value: &Value) -> Matrix {
    let rows: Vec<Vec<u8>> =
        list(value).iter().map(|row| list(row).iter().map(|element| number(element) as u8).collect()).collect();
    Matrix::from_rows(rows[0].len(), &rows).expect("rows of equal length")
}

fn parity(spec: &str, data: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let code = weft_codes::parse(spec).expect(spec);
    Stripe::encode(&*code, data.to_vec()).stored.split_off(data.len())
}

/// The coefficients of a systematic code's parities: a row per parity, a column per data shard.
fn coding(spec: &str) -> Matrix {
    let code = weft_codes::parse(spec).expect(spec);
    let parities: Vec<usize> = (code.shape().k..code.shape().n).collect();
    linear::generator(&*code).expect(spec).select_rows(&parities)
}

#[test]
fn rs_is_a_persistent_format() {
    for case in list(&golden()["weft_rs"]) {
        let (k, m) = (number(&case["k"]), number(&case["m"]));
        assert_eq!(coding(&format!("rs:{k}+{m}")), matrix(&case["coding_rows"]), "rs:{k}+{m}");
        assert_eq!(parity(&format!("rs:{k}+{m}"), &symbols(&case["data"])), symbols(&case["parity"]), "rs:{k}+{m}");
    }
}

#[test]
fn isal_bytes() {
    let cauchy = |case: &&Value| case["matrix"] == "gf_gen_cauchy1_matrix";
    for case in list(&golden()["isal"]).iter().filter(cauchy) {
        let (k, m, data) = (number(&case["k"]), number(&case["m"]), symbols(&case["data"]));
        assert_eq!(parity(&format!("rs-cauchy:{k}+{m}"), &data), symbols(&case["parity"]), "{k}+{m}");
    }
    let case = &golden()["isal"][4];
    assert_eq!(case["matrix"], "gf_gen_rs_matrix");
    assert_eq!(parity("rs-vandermonde:6+3", &symbols(&case["data"])), symbols(&case["parity"]));
}

/// Parities of MinIO, SeaweedFS and all others that stand on the library, and with its Cauchy matrix those of ISA-L.
#[test]
fn klauspost_bytes() {
    let golden: Value =
        serde_json::from_str(include_str!("../golden/klauspost.json")).expect("golden/klauspost.json is JSON");
    let mut counts = [0; 2];
    for case in list(&golden["cases"]) {
        let family = match case["matrix"].as_str() {
            Some("default") => "rs-klauspost",
            Some("WithCauchyMatrix") => "rs-cauchy",
            other => panic!("{other:?}"),
        };
        counts[usize::from(family == "rs-cauchy")] += 1;
        let spec = format!("{family}:{}+{}", number(&case["k"]), number(&case["m"]));
        assert_eq!(parity(&spec, &symbols(&case["data"])), symbols(&case["parity"]), "{spec}");
    }
    assert_eq!(counts, [11, 11]);
}

#[test]
fn raid6_p_and_q() {
    for case in list(&golden()["raid6_pq"]) {
        let data = symbols(&case["data"]);
        let p_and_q = vec![bytes(&case["P"]), bytes(&case["Q"])];
        if data.len() >= 2 {
            assert_eq!(parity(&format!("raid6:{}", data.len() + 2), &data), p_and_q);
        }
    }
}

/// D_x = A (P + P_xy) + B (Q + Q_xy): A and B are the coefficients of P and Q in the plan.
#[test]
fn raid6_repairs_two_data_shards_by_the_known_coefficients() {
    for case in list(&golden()["raid6_two_data_failures"]["cases"]) {
        let (k, x, y) = (number(&case["k"]), number(&case["x"]), number(&case["y"]));
        let code = weft_codes::parse(&format!("raid6:{}", k + 2)).expect("a RAID-6");
        let repair = repair_matrix(&*code, &[x, y]);
        assert_eq!(usize::from(repair.at(0, k - 2)), number(&case["A"]));
        assert_eq!(usize::from(repair.at(0, k - 1)), number(&case["B"]));
    }
}

#[test]
fn isal_decode_example() {
    let case = &golden()["decode_example"];
    let (k, m) = (number(&case["k"]), number(&case["m"]));
    let lost: Vec<usize> = list(&case["lost"]).iter().map(number).collect();
    let code = weft_codes::parse(&format!("rs-cauchy:{k}+{m}")).expect("a code");
    assert_eq!(repair_matrix(&*code, &lost), matrix(&case["rows_for_lost"]));
}

#[test]
fn field() {
    let checks = &golden()["gf_table_checks"];
    assert_eq!(usize::from(gf::power_of_two(8)), number(&checks["exp_2_8"]));
    assert_eq!(usize::from(gf::power_of_two(254)), number(&checks["exp_2_254"]));
    assert_eq!(gf::inverse(2).map(usize::from), Some(number(&checks["inv_2"])));
    assert_eq!(usize::from(gf::mul(0x53, 0xca)), number(&checks["mul_0x53_0xca"]));
    assert_eq!(usize::from(gf::mul(0x80, 0x02)), number(&checks["mul_0x80_0x02"]));
}

/// Repair of the lost shards from the first k others.
fn repair_matrix(code: &dyn Code, lost: &[usize]) -> Matrix {
    let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
    let have = Offers((0..code.shape().n).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect());
    let plan = code.plan(&Wanted::Shards(lost.to_vec()), &have).expect("few are lost");
    plan.program.to_matrix().expect("plans have valid programs")
}
