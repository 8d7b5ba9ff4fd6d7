//! Plans against brute force: never dearer than the cheapest set of reads, for any prices.

use crate::stripe::{Stripe, run};
use proptest::prelude::*;
use weft_codes::{Code, LinearCode, Matrix, Offer, Offers, Plan, PlanError, Price, Wanted, linear, reference};

pub fn offers(n: usize) -> impl Strategy<Value = Offers> {
    let offer = (0u64..4, 0u64..6).prop_map(|(request_price, symbol_price)| Offer {
        combines: false,
        request_price,
        symbol_price,
    });
    prop::collection::vec(prop::option::weighted(0.8, offer), n).prop_map(Offers)
}

fn wanted(n: usize, native_count: usize) -> impl Strategy<Value = Wanted> {
    prop_oneof![
        prop::collection::vec(0..native_count, 0..=native_count).prop_map(Wanted::Natives),
        prop::collection::vec(0..n, 0..3).prop_map(Wanted::Shards),
    ]
}

pub fn question(specs: &'static [&'static str]) -> impl Strategy<Value = (&'static str, Wanted, Offers)> {
    prop::sample::select(specs).prop_flat_map(|spec| {
        let code = weft_codes::parse(spec).expect(spec);
        let (n, native_count) = (code.shape().n, code.shape().native_count);
        (Just(spec), wanted(n, native_count), offers(n))
    })
}

/// What the reads cost, counted again from the plan; panics where a read asks for what was not offered.
fn price_of(plan: &Plan, have: &Offers) -> Price {
    let mut asked = vec![false; have.0.len()];
    let mut price: Price = 0;
    for read in &plan.reads {
        let offer = have.0[read.shard].expect("plans read only what is offered");
        assert!(offer.combines || matches!(read.terms[..], [(_, 1)]), "only nodes that combine are asked to");
        if !std::mem::replace(&mut asked[read.shard], true) {
            price = price.saturating_add(offer.request_price);
        }
        price = price.saturating_add(offer.symbol_price);
    }
    price
}

/// Right bytes, honest price, nothing read in vain.
pub fn is_sound(code: &dyn Code, wanted: &Wanted, have: &Offers, plan: &Plan) {
    let shape = code.shape();
    let stripe = Stripe::made_up(code, 5);
    let right: Vec<Vec<u8>> = match wanted {
        Wanted::Natives(natives) => natives.iter().map(|&native| stripe.natives[native].clone()).collect(),
        Wanted::Shards(shards) => {
            let symbols = shards.iter().flat_map(|shard| shard * shape.alpha..(shard + 1) * shape.alpha);
            symbols.map(|symbol| stripe.stored[symbol].clone()).collect()
        }
    };
    let fetched = stripe.fetch(shape.alpha, plan);
    if !fetched.is_empty() {
        assert_eq!(run(&plan.program, &fetched), right);
        assert_eq!(reference::run(&plan.program, &fetched), right);
    }
    assert_eq!(plan.price, price_of(plan, have));
    let used: Vec<usize> = plan.program.ops.iter().flat_map(|op| op.sources().to_vec()).collect();
    assert!((0..plan.reads.len()).all(|read| used.contains(&read)), "every read is used");
}

proptest! {
    #[test]
    fn mds_plans_are_the_cheapest((spec, wanted, have) in question(&[
        "replica:4", "raid5:6", "raid6:6", "rs:1+3", "rs:4+2", "rs:3+5", "rs:6+3", "rs-klauspost:4+3",
        "rs-cauchy:3+4", "rs-vandermonde:4+3",
    ])) {
        let code = weft_codes::parse(spec).expect(spec);
        let generator = linear::generator(&*code).expect(spec);
        let cheapest = reference::cheapest_price(code.shape(), &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                is_sound(&*code, &wanted, &have, &plan);
                prop_assert_eq!(Some(plan.price), cheapest);
            }
            Err(PlanError::Unrecoverable { .. }) => {
                prop_assert_eq!(cheapest, None);
            }
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    /// Any matrix at all, with one or two symbols per shard and with helpers that combine: sound, and never cheaper
    /// than possible where none combines.
    #[test]
    fn plans_of_any_linear_code_are_sound(
        elements in prop::collection::vec(prop_oneof![Just(0), Just(1), any::<u8>()], 10 * 4),
        alpha in 1usize..=2,
        combining in any::<bool>(),
        (wanted, have) in (wanted(5, 4), offers(10)),
    ) {
        let generator = Matrix::from_fn(5 * alpha, 4, |row, column| elements[row * 4 + column]);
        let code = LinearCode::new("any".to_owned(), 2, alpha, 0, Vec::new(), generator.clone());
        let combines = |offer: Option<Offer>| offer.map(|offer| Offer { combines: combining, ..offer });
        let have = Offers(have.0.into_iter().take(5).map(combines).collect());
        let cheapest = reference::cheapest_price(code.shape(), &generator, &wanted, &have);
        match code.plan(&wanted, &have) {
            Ok(plan) => {
                is_sound(&code, &wanted, &have, &plan);
                prop_assert!(combining || Some(plan.price) >= cheapest);
                prop_assert!(cheapest.is_some());
            }
            Err(_) => prop_assert_eq!(cheapest, None),
        }
    }
}

pub fn equal_offers(n: usize) -> Offers {
    Offers(vec![Some(Offer { combines: false, request_price: 1, symbol_price: 1 }); n])
}

#[test]
fn what_is_offered_plainly_is_just_read() {
    let code = weft_codes::parse("rs:10+4").expect("a code");
    let plan = code.plan(&Wanted::Natives(vec![7, 3, 7]), &equal_offers(14)).expect("nothing is lost");
    assert_eq!(plan.reads.iter().map(|read| read.shard).collect::<Vec<_>>(), [3, 7]);
    assert_eq!(plan.program.to_string(), "2 inputs, 3 outputs, 0 temporaries\no0 = i1\no1 = i0\no2 = i1\n");
}

#[test]
fn one_loss_is_repaired_by_xor() {
    let code = weft_codes::parse("rs:4+2").expect("a code");
    let mut have = equal_offers(6);
    have.0[2] = None;
    let plan = code.plan(&Wanted::Shards(vec![2]), &have).expect("one is lost");
    assert_eq!(plan.program.to_string(), "4 inputs, 1 outputs, 0 temporaries\no0 = i0 + i1 + i2 + i3\n");
}

#[test]
fn a_dear_shard_is_decoded_around() {
    let code = weft_codes::parse("rs:4+2").expect("a code");
    let mut have = equal_offers(6);
    have.0[0] = Some(Offer { combines: false, request_price: 1000, symbol_price: 1 });
    let plan = code.plan(&Wanted::Natives(vec![0]), &have).expect("nothing is lost");
    assert_eq!(plan.reads.iter().map(|read| read.shard).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

#[test]
fn what_was_read_already_is_used() {
    let code = weft_codes::parse("rs:4+2").expect("a code");
    let mut have = equal_offers(6);
    let free = Some(Offer { combines: false, request_price: 0, symbol_price: 0 });
    have.0[0] = None;
    (have.0[3], have.0[5]) = (free, free);
    let plan = code.plan(&Wanted::Natives(vec![0]), &have).expect("one is lost");
    assert_eq!(plan.reads.iter().map(|read| read.shard).collect::<Vec<_>>(), [1, 2, 3, 5]);
    assert_eq!(plan.price, 4);
}

/// Two groups of three and their XORs, and one parity of all: a loss is repaired within its group, whatever the order
/// of shards and prices says.
#[test]
fn locality_is_found() {
    let local = |group: usize| Matrix::from_fn(1, 6, |_, column| u8::from(column / 3 == group));
    let global = Matrix::from_fn(1, 6, |_, column| 1 << column);
    let generator = Matrix::identity(6).stack(&global).stack(&local(0)).stack(&local(1));
    let code = LinearCode::new("local".to_owned(), 6, 1, 2, Vec::new(), generator);
    let mut have = equal_offers(9);
    have.0[4] = None;
    let plan = code.plan(&Wanted::Shards(vec![4]), &have).expect("one is lost");
    assert_eq!(plan.reads.iter().map(|read| read.shard).collect::<Vec<_>>(), [3, 5, 8]);
    assert_eq!(plan.price, 6);
}

/// A helper that stores two symbols, of which only the sum matters, sends the sum.
#[test]
fn helpers_that_combine_send_less() {
    let rows = [[1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [1, 2, 0, 0], [0, 0, 0, 0]];
    let generator = Matrix::from_rows(4, &rows).expect("rows of four");
    let code = LinearCode::new("pairs".to_owned(), 2, 2, 0, Vec::new(), generator);
    let plan = |combines| {
        let mut have = equal_offers(3);
        have.0[0] = Some(Offer { combines, request_price: 1, symbol_price: 1 });
        have.0[2] = None;
        code.plan(&Wanted::Shards(vec![2]), &have).expect("one is lost")
    };
    assert_eq!((plan(false).reads.len(), plan(false).price), (2, 3));
    assert_eq!((plan(true).reads.len(), plan(true).price), (1, 2));
    assert_eq!(plan(true).reads[0].terms, [(0, 1), (1, 2)]);
}

#[test]
fn wrong_questions_are_refused_in_a_sentence() {
    let code = weft_codes::parse("rs:4+2").expect("a code");
    let refused = |wanted, have: &Offers| code.plan(&wanted, have).expect_err("not a question").to_string();
    assert_eq!(
        refused(Wanted::Natives(vec![0]), &equal_offers(5)),
        "rs:4+2 has 6 shards but 5 offers were given; give one entry per shard, None where it cannot be read"
    );
    assert_eq!(
        refused(Wanted::Natives(vec![4]), &equal_offers(6)),
        "rs:4+2 has native symbols 0 to 3, not 4; ask for one of those"
    );
    assert_eq!(
        refused(Wanted::Shards(vec![6]), &equal_offers(6)),
        "rs:4+2 has shards 0 to 5, not 6; ask for one of those"
    );
    let mut have = equal_offers(6);
    (have.0[0], have.0[1], have.0[5]) = (None, None, None);
    assert_eq!(
        refused(Wanted::Natives(vec![2, 1]), &have),
        "rs:4+2: native symbols [1] cannot be recovered from shards [2, 3, 4]; bring back one of shards [0, 1, 5]"
    );
    assert_eq!(
        refused(Wanted::Shards(vec![5]), &have),
        "rs:4+2: shards [5] cannot be recovered from shards [2, 3, 4]; bring back one of shards [0, 1, 5]"
    );
}

#[test]
fn prices_as_large_as_can_be_do_not_overflow() {
    let code = weft_codes::parse("rs:4+2").expect("a code");
    let dear = Offer { combines: true, request_price: u64::MAX, symbol_price: u64::MAX };
    let plan = code.plan(&Wanted::Natives(vec![0, 1, 2, 3]), &Offers(vec![Some(dear); 6])).expect("nothing is lost");
    assert_eq!((plan.reads.len(), plan.price), (4, u64::MAX));
}
