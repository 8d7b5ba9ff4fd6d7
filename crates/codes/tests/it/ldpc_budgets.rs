//! Planning of sparse graphs is held to a budget that is counted: a number of operations for each symbol that the plan's program
//! touches, whatever is lost, late or dear. Without it planning a stripe of 100+100 took longer than fetching it.

use crate::random::Random;
use crate::stripe::{Stripe, run};
use weft_codes::{Code, Offer, Offers, PlanError, Price, Wanted, measure};

/// Every named graph.
const GRAPHS: [&str; 6] =
    ["ldpc:plank-5", "ldpc:plank-10", "ldpc:plank-20", "ldpc:plank-50", "ldpc:plank-100", "ldpc:cube-8-6"];

/// Operations for each symbol that a program touches and each offer that was looked at: a decision takes no longer than its
/// program does with cells of a few KiB.
const OPERATIONS_PER_SYMBOL: u64 = 128;

/// What any decision may take: some ten microseconds.
const OPERATIONS_MIN: u64 = 3 << 13;

/// Of so few offered blocks the answer is proved the cheapest, by a search that takes less than a tenth of a millisecond.
const PROVED_OFFERS: usize = 24;
const OPERATIONS_OF_PROOF: u64 = 1 << 17;

/// What a late node asks beside the others.
const LATE: Price = 1 << 48;

fn at(price: Price) -> Option<Offer> {
    Some(Offer { combines: false, request_price: price, symbol_price: 1 })
}

/// All at one price, or each at the time that its node takes.
fn offers(n: usize, lost: &[usize], late: &[usize], random: &mut Option<Random>) -> Offers {
    let price = |shard: usize, random: &mut Option<Random>| {
        let time = random.as_mut().map_or(0, |random| 1_000 + random.below(50_000) as Price);
        if late.contains(&shard) { LATE + time } else { time }
    };
    let offer = |shard| if lost.contains(&shard) { None } else { at(price(shard, random)) };
    Offers((0..n).map(offer).collect())
}

/// Plans within the budget, and soundly; was there a plan?
fn is_planned(code: &dyn Code, stripe: &Stripe, wanted: &Wanted, have: &Offers, what: &str) -> bool {
    let (plan, operations) = measure::planned(|| code.plan(wanted, have));
    let plan = match plan {
        Ok(plan) => plan,
        Err(PlanError::Unrecoverable { .. }) => return false,
        Err(error) => panic!("{error}"),
    };
    let shape = code.shape();
    let right: Vec<&Vec<u8>> = match wanted {
        Wanted::Natives(natives) => natives.iter().map(|&native| &stripe.natives[native]).collect(),
        Wanted::Shards(shards) => shards.iter().map(|&shard| &stripe.stored[shard]).collect(),
    };
    if !plan.reads.is_empty() {
        assert!(run(&plan.program, &stripe.fetch(shape.alpha, &plan)).iter().eq(right), "{what}");
    }
    let touched = plan.program.access_count() as u64;
    let is_proved = have.0.iter().flatten().count() <= PROVED_OFFERS;
    let proof = if is_proved { OPERATIONS_OF_PROOF } else { 0 };
    let most = OPERATIONS_MIN.max(OPERATIONS_PER_SYMBOL * (touched + shape.n as u64)) + proof;
    assert!(operations <= most, "{what}: {operations} for {touched} symbols and {} offers", shape.n);
    true
}

#[test]
fn decisions_keep_to_their_budget() {
    for spec in GRAPHS {
        let code = weft_codes::parse(spec).expect(spec);
        let (n, k, m) = (code.shape().n, code.shape().k, code.shape().n - code.shape().k);
        let stripe = Stripe::made_up(&*code, 3);
        let mut planned_count = 0;
        for seed in 0..4 {
            for (lost_count, late_count) in [(0, 0), (0, 1), (1, 0), (1, 1), (5, 0), (m - 1, 1), (m / 2, m / 4)] {
                let mut random = Random(seed * 1_000 + lost_count as u64);
                let gone = random.distinct(n, lost_count + late_count);
                let (lost, late) = gone.split_at(lost_count);
                for by_time in [false, true] {
                    let have = offers(n, lost, late, &mut by_time.then_some(Random(seed)));
                    let lost_data: Vec<usize> = gone.iter().copied().filter(|&shard| shard < k).collect();
                    for (name, wanted) in [
                        ("read", Wanted::Natives((0..k).collect())),
                        ("degraded read", Wanted::Natives(lost_data.clone())),
                        ("read of one", Wanted::Natives(lost_data.iter().copied().take(1).collect())),
                        ("repair", Wanted::Shards(lost.to_vec())),
                    ] {
                        let what =
                            format!("{spec} without {lost:?}, {late:?} late, by time: {by_time}, {name}, seed {seed}");
                        planned_count += usize::from(is_planned(&*code, &stripe, &wanted, &have, &what));
                    }
                }
            }
        }
        // Few of these losses are fatal.
        assert!(planned_count > 4 * 7 * 2 * 4 / 2, "{spec}: {planned_count}");
    }
}

/// A question that has no answer is refused in no more work than elimination takes.
#[test]
fn what_cannot_be_had_is_refused_within_a_budget() {
    for spec in GRAPHS {
        let code = weft_codes::parse(spec).expect(spec);
        let (n, k) = (code.shape().n, code.shape().k);
        let words = k.div_ceil(64);
        let data = Wanted::Natives((0..k).collect());
        for left in [0, 1, k / 2, k - 1] {
            let lost = Random(left as u64).distinct(n, n - left);
            let have = offers(n, &lost, &[], &mut Some(Random(7)));
            let (plan, operations) = measure::planned(|| code.plan(&data, &have));
            assert!(matches!(plan, Err(PlanError::Unrecoverable { .. })), "{spec} from {left} blocks");
            // Each block is reduced by each member of a basis, and looked at once by each.
            let most = (n * k * (words + 1)) as u64 + OPERATIONS_PER_SYMBOL * n as u64;
            assert!(operations <= most, "{spec} from {left} blocks: {operations}");
        }
    }
}
