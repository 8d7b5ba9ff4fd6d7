//! Every erasure pattern of every code of up to 14 shards: decodable exactly when the rank says so, and to the right
//! bytes.

use crate::stripe::{Stripe, offers_without, run};
use weft_codes::{Matrix, PlanError, Wanted, linear};

const SYMBOL_BYTES: usize = 67;

fn survives_what_it_promises(spec: &str) {
    let code = weft_codes::parse(spec).expect(spec);
    let shape = code.shape();
    let stripe = Stripe::made_up(&*code, SYMBOL_BYTES);
    let generator = linear::generator(&*code).expect(spec);
    let all: Vec<usize> = (0..shape.native_count).collect();
    let stored_of = |shards: &[usize]| -> Vec<usize> {
        shards.iter().flat_map(|shard| shard * shape.alpha..(shard + 1) * shape.alpha).collect()
    };
    for pattern in 0..1u32 << shape.n {
        let (lost, left): (Vec<usize>, Vec<usize>) = (0..shape.n).partition(|shard| pattern >> shard & 1 == 1);
        let have = offers_without(shape.n, pattern);
        let left = generator.select_rows(&stored_of(&left));
        let determined = |rows: &Matrix| left.clone().stack(rows).rank() == left.rank();
        if lost.len() <= shape.tolerance {
            assert_eq!(left.rank(), shape.native_count, "{spec} without {lost:?}");
        }

        match code.plan(&Wanted::Natives(all.clone()), &have) {
            Ok(plan) => assert_eq!(
                run(&plan.program, &stripe.fetch(shape.alpha, &plan)),
                stripe.natives,
                "{spec} without {lost:?}"
            ),
            Err(PlanError::Unrecoverable { .. }) => {
                assert!(left.rank() < shape.native_count, "{spec} without {lost:?}")
            }
            Err(error) => panic!("{spec} without {lost:?}: {error}"),
        }
        let lost_symbols = stored_of(&lost);
        match code.plan(&Wanted::Shards(lost.clone()), &have) {
            Ok(plan) => {
                let repaired = run(&plan.program, &stripe.fetch(shape.alpha, &plan));
                let right: Vec<Vec<u8>> = lost_symbols.iter().map(|&symbol| stripe.stored[symbol].clone()).collect();
                assert_eq!(repaired, right, "{spec} without {lost:?}");
            }
            Err(PlanError::Unrecoverable { .. }) => {
                assert!(!determined(&generator.select_rows(&lost_symbols)), "{spec} without {lost:?}");
            }
            Err(error) => panic!("{spec} without {lost:?}: {error}"),
        }
    }
}

#[test]
fn replica() {
    (1..=14).for_each(|copies| survives_what_it_promises(&format!("replica:{copies}")));
}

#[test]
fn raid5() {
    (3..=14).for_each(|n| survives_what_it_promises(&format!("raid5:{n}")));
}

#[test]
fn raid6() {
    (4..=14).for_each(|n| survives_what_it_promises(&format!("raid6:{n}")));
}

fn rs_of(n: usize) {
    (1..n).for_each(|k| survives_what_it_promises(&format!("rs:{k}+{}", n - k)));
}

#[test]
fn rs_up_to_12_shards() {
    (2..=12).for_each(rs_of);
}

#[test]
fn rs_of_13_shards() {
    rs_of(13);
}

#[test]
fn rs_of_14_shards() {
    rs_of(14);
}

#[test]
fn rs_vandermonde_within_its_limits() {
    for m in 1..=8 {
        let most = if m >= 6 {
            4
        } else if m == 5 {
            5
        } else {
            8
        };
        (1..=most).for_each(|k| survives_what_it_promises(&format!("rs-vandermonde:{k}+{m}")));
    }
    survives_what_it_promises("rs-vandermonde:11+3");
    survives_what_it_promises("rs-vandermonde:10+4");
}

#[test]
fn embr() {
    for n in 2..=7 {
        (1..n).for_each(|k| survives_what_it_promises(&format!("embr:n={n},k={k}")));
    }
    (4..8).for_each(|k| survives_what_it_promises(&format!("embr:n=8,k={k}")));
}

#[test]
fn basic() {
    let specs = ["basic:2+2,d=2", "basic:2+3,d=4", "basic:3+3,d=4", "basic:3+3,d=5", "basic:4+4,d=6", "basic:4+4,d=7"];
    specs.iter().for_each(|spec| survives_what_it_promises(spec));
}

#[test]
fn msbasic() {
    [2, 4, 6].iter().for_each(|k| survives_what_it_promises(&format!("msbasic:{k}")));
}

#[test]
fn clay() {
    for (k, m) in
        [(1, 2), (2, 2), (3, 2), (4, 2), (5, 2), (1, 3), (2, 3), (3, 3), (4, 3), (5, 3), (6, 3), (2, 4), (4, 4)]
    {
        survives_what_it_promises(&format!("clay:{k}+{m}"));
    }
}

#[test]
fn ldpc() {
    for graph in
        ["plank-5", "cube-8-6", "8+6:eb,3f,5d,9a,ec,f0", "5+5:1e,d,15,1b,7", "3+3:3,5,6", "6+3:f,33,3c", "1+1:1"]
    {
        survives_what_it_promises(&format!("ldpc:{graph}"));
    }
}
