//! What is checked of each code.

use super::{Claims, Lost};
use crate::effort::is_long;
use crate::plans::is_sound;
use crate::random::Random;
use crate::stripe::{Stripe, run, run_on};
use std::ops::Range;
use std::sync::Arc;
use weft_codes::analysis::{self, EFFORT};
use weft_codes::{
    Compiled, Content, Erasures, Executor, Matrix, Offer, Offers, Plan, PlanError, Price, Program, RunError, Wanted,
    linear, reference,
};

/// Odd, so that every vector kernel has something left over.
const SYMBOL_BYTES: usize = 67;
const SEED: u64 = 20_260_101;
/// Patterns of a code of many symbols, each of which takes some milliseconds: four lost of `crs:10+4` are 1,471. In a short run, and in a
/// long one.
const MOST_PATTERNS: [usize; 2] = [200, 1500];
/// What proving a tolerance may take, a second or two: all patterns of `clay:8+4`.
const PROOF_EFFORT: u64 = 16 * EFFORT;
/// Patterns, questions and ranges where not all are tried, in a short run and in a long one.
const SAMPLES: [usize; 2] = [12, 60];
/// Brute force tries every set of so many symbols at most; a few times where a dozen are exceeded.
const MOST_SYMBOLS_OF_BRUTE_FORCE: usize = 16;
const QUESTIONS_OF_MANY_SYMBOLS: usize = 4;
/// Brute force tries every set of nodes that combine, of codes of so few stored symbols and shards.
const MOST_SYMBOLS_COMBINED: usize = 64;
const MOST_SHARDS_COMBINED: usize = 8;

/// A code with one encoded stripe.
pub struct Code {
    code: Arc<dyn weft_codes::Code>,
    generator: Matrix,
    erasures: Erasures,
    stripe: Stripe,
    numbers: Vec<usize>,
}

/// Holds all codes of the family to its claims and to the contract.
pub fn conforms(claims: &Claims) {
    for spec in (claims.small)() {
        let code = Code::of(&spec);
        let n = code.shape().n;
        assert!(n <= 14, "{spec} is too wide for all its patterns");
        for pattern in 0..1u32 << n {
            code.answers_as_the_rank_says(&(0..n).filter(|shard| pattern >> shard & 1 == 1).collect::<Vec<_>>());
        }
        code.conforms(claims);
    }
    for spec in claims.wide {
        let code = Code::of(spec);
        for lost in code.patterns_with_enough_left() {
            code.answers_as_the_rank_says(&lost);
        }
        let mut random = Random(SEED);
        for _ in 0..SAMPLES[usize::from(is_long())] {
            let lost_count = 1 + random.below(code.erasures.most_lost() + 1);
            code.answers_as_the_rank_says(&random.distinct(code.shape().n, lost_count));
        }
        code.conforms(claims);
    }
}

impl Code {
    pub fn of(spec: &str) -> Code {
        let code = weft_codes::parse(spec).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(code.spec(), spec, "specs in the table are canonical");
        let generator = linear::generator(&*code).expect(spec);
        let erasures = Erasures::new(&*code).expect(spec);
        let symbol_bytes = SYMBOL_BYTES.next_multiple_of(code.shape().symbol_alignment_bytes);
        let stripe = Stripe::made_up(&*code, symbol_bytes);
        let numbers = spec.split(|character: char| !character.is_ascii_digit());
        let numbers = numbers.filter_map(|number| number.parse().ok()).collect();
        Code { code, generator, erasures, stripe, numbers }
    }

    pub fn shape(&self) -> &weft_codes::Shape {
        self.code.shape()
    }

    /// All patterns that leave as much as was stored, of a code of at most 14 shards; none where they are many.
    fn patterns_with_enough_left(&self) -> Vec<Vec<usize>> {
        let n = self.shape().n;
        let shards = |pattern: u32| (0..n).filter(|shard| pattern >> shard & 1 == 1).collect::<Vec<_>>();
        let is_enough = |pattern: &u32| pattern.count_ones() as usize <= self.erasures.most_lost();
        let all = if n <= 14 { 1u32 << n } else { 0 };
        let patterns: Vec<Vec<usize>> = (0..all).filter(is_enough).map(shards).collect();
        if patterns.len() <= MOST_PATTERNS[usize::from(is_long())] { patterns } else { Vec::new() }
    }

    fn spec(&self) -> &str {
        self.code.spec()
    }

    fn conforms(&self, claims: &Claims) {
        self.has_a_consistent_shape();
        self.keeps_its_tolerance();
        self.repairs_as_cheaply_as_claimed(claims);
        self.reads_as_cheaply_as_claimed(claims);
        self.respects_prices();
        self.refuses_bad_questions();
        self.has_good_programs();
    }

    fn has_a_consistent_shape(&self) {
        let shape = self.shape();
        assert_eq!(shape.contents.len(), shape.n * shape.alpha, "{}", self.spec());
        assert!(shape.tolerance < shape.n && shape.native_count <= shape.n * shape.alpha, "{}", self.spec());
        assert!(shape.symbol_alignment_bytes >= 1, "{}", self.spec());
        let coded = shape.contents.iter().filter(|content| **content == Content::Coded).count();
        let encode = self.code.encode();
        assert_eq!((encode.input_count, encode.output_count), (shape.native_count, coded), "{}", self.spec());
        for group in &shape.groups {
            // Each loss within the group that it claims to repair alone, of the first so many shards.
            let outside: Vec<usize> = (0..shape.n).filter(|shard| !group.shards.contains(shard)).collect();
            for start in 0..group.shards.len() {
                let lost: Vec<usize> = group.shards.iter().copied().cycle().skip(start).take(group.repairs).collect();
                let plan =
                    self.code.plan(&Wanted::Shards(lost.clone()), &self.without(&[&outside[..], &lost].concat()));
                assert!(plan.is_ok(), "{}: {:?} does not repair {lost:?}", self.spec(), group.shards);
            }
        }
    }

    /// Proved where all patterns can be tried, else a sample.
    fn keeps_its_tolerance(&self) {
        let survival = analysis::survival(&self.erasures, self.shape().tolerance, PROOF_EFFORT, SEED);
        assert_eq!(survival.decodable, survival.tried, "{} without {:?}", self.spec(), survival.fatal);
    }

    /// Everything, and the lost shards, from what is left: planned exactly when the rank says so, to the right bytes.
    fn answers_as_the_rank_says(&self, lost: &[usize]) {
        let (shape, spec) = (self.shape(), self.spec());
        let have = self.without(lost);
        let decodes = self.erasures.decodes(lost);
        assert!(decodes || lost.len() > shape.tolerance, "{spec} without {lost:?}");

        match self.code.plan(&Wanted::Natives((0..shape.native_count).collect()), &have) {
            Ok(plan) => assert_eq!(self.result(&plan), self.stripe.natives, "{spec} without {lost:?}"),
            Err(PlanError::Unrecoverable { .. }) => assert!(!decodes, "{spec} without {lost:?}"),
            Err(error) => panic!("{spec} without {lost:?}: {error}"),
        }
        match self.code.plan(&Wanted::Shards(lost.to_vec()), &have) {
            Ok(plan) => {
                let right: Vec<Vec<u8>> = self.symbols(lost).map(|symbol| self.stripe.stored[symbol].clone()).collect();
                assert_eq!(self.result(&plan), right, "{spec} without {lost:?}");
            }
            Err(PlanError::Unrecoverable { .. }) => {
                let left: Vec<usize> = (0..shape.n).filter(|shard| !lost.contains(shard)).collect();
                let left = self.generator.select_rows(&self.symbols(&left).collect::<Vec<_>>());
                let all = left.clone().stack(&self.generator.select_rows(&self.symbols(lost).collect::<Vec<_>>()));
                assert!(left.rank() < all.rank(), "{spec} without {lost:?}");
            }
            Err(error) => panic!("{spec} without {lost:?}: {error}"),
        }
    }

    fn repairs_as_cheaply_as_claimed(&self, claims: &Claims) {
        for shard in self.some(self.shape().n) {
            for combines in [false, true] {
                let Ok(repair) = analysis::repair(&*self.code, &[shard], combines) else {
                    assert_eq!(self.shape().tolerance, 0, "{} repairs {shard}", self.spec());
                    continue;
                };
                let claimed = (claims.repair)(&self.lost(shard, combines));
                let received = repair.symbols_received;
                assert!(received <= claimed, "{} repairs {shard} by {received}, not {claimed}", self.spec());
                assert!(combines || repair.computing_helpers == 0, "{} asks too much", self.spec());
            }
        }
    }

    /// Any range of natives, without any one shard or with all.
    fn reads_as_cheaply_as_claimed(&self, claims: &Claims) {
        let shape = self.shape();
        for range in self.some_ranges() {
            for lost in [None].into_iter().chain(self.some(shape.n).into_iter().map(Some)) {
                let have = self.without(lost.as_slice());
                let Ok(plan) = self.code.plan(&Wanted::Natives(range.clone().collect()), &have) else {
                    assert!(lost.is_some() && shape.tolerance == 0, "{} reads {range:?}", self.spec());
                    continue;
                };
                let is_at_hand = |native: usize| {
                    let mut places =
                        (0..shape.contents.len()).filter(|&s| shape.contents[s] == Content::Native(native));
                    places.any(|symbol| Some(symbol / shape.alpha) != lost)
                };
                let at_hand = range.clone().filter(|&native| is_at_hand(native)).count();
                let claimed = match lost {
                    _ if at_hand == range.len() => at_hand,
                    Some(shard) if analysis::is_systematic(shape) => {
                        let question = self.lost(shard, false);
                        let each = (range.len() - at_hand) * (claims.read)(&question);
                        at_hand + each.min((claims.repair)(&question))
                    }
                    _ => shape.native_count,
                };
                let (read, claimed) = (plan.reads.len(), claimed.min(shape.native_count));
                let without = format!("{} reads {range:?} without {lost:?}", self.spec());
                assert!(read <= claimed, "{without} by {read}, not {claimed}");
                assert_eq!(self.result(&plan), self.stripe.natives[range.clone()], "{without}");
            }
        }
    }

    /// Unequal prices: honest, nothing read in vain, and the cheapest there is; of plain symbols, and of one symbol each of nodes
    /// that combine.
    fn respects_prices(&self) {
        let shape = self.shape();
        let mut random = Random(SEED);
        for question in 0..SAMPLES[usize::from(is_long())] {
            let mut offer = |shard: usize| Offer {
                combines: shard.is_multiple_of(2),
                request_price: random.below(4) as Price,
                symbol_price: random.below(6) as Price,
            };
            let mut have = Offers((0..shape.n).map(|shard| Some(offer(shard))).collect());
            let lost = random.below(shape.n);
            have.0[lost] = None;
            let wanted = match random.below(2) {
                0 => Wanted::Shards(vec![lost]),
                _ => Wanted::Natives(vec![random.below(shape.native_count)]),
            };
            if let Ok(plan) = self.code.plan(&wanted, &have) {
                is_sound(&*self.code, &wanted, &have, &plan);
            }
            let symbol_count = shape.contents.len() - shape.alpha;
            let is_tried = symbol_count <= 12 || question < QUESTIONS_OF_MANY_SYMBOLS;
            if symbol_count <= MOST_SYMBOLS_OF_BRUTE_FORCE && is_tried {
                have.0.iter_mut().flatten().for_each(|offer| offer.combines = false);
                let cheapest = reference::cheapest_price(shape, &self.generator, &wanted, &have);
                let price = self.code.plan(&wanted, &have).ok().map(|plan| plan.price);
                assert_eq!(price, cheapest, "{}: {wanted} from {have:?}", self.spec());
            }
            if shape.contents.len() <= MOST_SYMBOLS_COMBINED && shape.n <= MOST_SHARDS_COMBINED {
                have.0.iter_mut().flatten().for_each(|offer| offer.combines = true);
                let native = random.below(shape.native_count);
                let cheapest = reference::cheapest_sum_price(shape, &self.generator, native, &have);
                let plan = self.code.plan(&Wanted::Natives(vec![native]), &have).ok();
                if let Some(plan) = &plan {
                    is_sound(&*self.code, &Wanted::Natives(vec![native]), &have, plan);
                }
                assert_eq!(plan.map(|plan| plan.price), cheapest, "{}: {native} from {have:?}", self.spec());
            }
        }
    }

    fn refuses_bad_questions(&self) {
        let shape = self.shape();
        let all = self.without(&[]);
        let ask = |wanted, have: &Offers| self.code.plan(&wanted, have).err();
        for offers in [0, shape.n - 1, shape.n + 1] {
            let have = Offers(all.0.iter().copied().cycle().take(offers).collect());
            let refusal = ask(Wanted::Natives(vec![0]), &have);
            assert!(matches!(refusal, Some(PlanError::OfferCount { given, .. }) if given == offers), "{}", self.spec());
        }
        for native in [shape.native_count, usize::MAX] {
            let refusal = ask(Wanted::Natives(vec![0, native]), &all);
            assert!(matches!(refusal, Some(PlanError::NoSuchNative { .. })), "{}", self.spec());
        }
        for shard in [shape.n, usize::MAX] {
            let refusal = ask(Wanted::Shards(vec![0, shard]), &all);
            assert!(matches!(refusal, Some(PlanError::NoSuchShard { .. })), "{}", self.spec());
        }
        let nobody = Offers(vec![None; shape.n]);
        let refusal = ask(Wanted::Natives(vec![0]), &nobody);
        assert!(matches!(refusal, Some(PlanError::Unrecoverable { .. })), "{}", self.spec());
        for nothing in [Wanted::Natives(Vec::new()), Wanted::Shards(Vec::new())] {
            assert_eq!(self.code.plan(&nothing, &nobody).map(|plan| plan.reads.len()), Ok(0), "{}", self.spec());
        }
        // Wanted twice, and out of order.
        let wanted = Wanted::Natives(vec![shape.native_count - 1, 0, shape.native_count - 1]);
        let plan = self.code.plan(&wanted, &all).expect("nothing is lost");
        let natives = &self.stripe.natives;
        let (first, last) = (&natives[0], &natives[shape.native_count - 1]);
        assert_eq!(self.result(&plan), [last, first, last].map(Vec::clone), "{}", self.spec());
    }

    /// Encoding and one repair.
    fn has_good_programs(&self) {
        self.is_good(self.code.encode(), &self.stripe.natives);
        if let Ok(plan) = self.code.plan(&Wanted::Shards(vec![0]), &self.without(&[0])) {
            self.is_good(&plan.program, &self.stripe.fetch(self.shape().alpha, &plan));
        }
    }

    /// Valid, printable, equal on all executors and to the reference, for any length; wrong symbols are refused.
    fn is_good(&self, program: &Program, inputs: &[Vec<u8>]) {
        assert_eq!(program.verify(), Ok(()), "{}", self.spec());
        assert_eq!(program.to_string().lines().count(), 1 + program.ops.len(), "{}", self.spec());
        let alignment = self.shape().symbol_alignment_bytes;
        for symbol_bytes in
            [0, 1, 13, self.stripe.natives[0].len()].map(|bytes: usize| bytes.next_multiple_of(alignment))
        {
            let inputs: Vec<Vec<u8>> = inputs.iter().map(|input| input[..symbol_bytes].to_vec()).collect();
            let right = reference::run(program, &inputs);
            for executor in Executor::all() {
                assert_eq!(run_on(&executor, program, &inputs), right, "{} on {}", self.spec(), executor.name());
            }
        }
        let compiled = Compiled::new(program.clone()).expect("verified");
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let refusal = |inputs: &[&[u8]], output_count: usize, output_bytes: usize| {
            let mut outputs = vec![vec![0x5a; output_bytes]; output_count];
            let mut buffers: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
            let refusal = weft_codes::executor().run(&compiled, inputs, &mut buffers).err();
            assert!(outputs.iter().flatten().all(|&byte| byte == 0x5a), "{} wrote something", self.spec());
            refusal
        };
        let (output_count, symbol_bytes) = (program.output_count, inputs[0].len());
        let missing = refusal(&inputs[1..], output_count, symbol_bytes);
        assert!(matches!(missing, Some(RunError::InputCount { .. })), "{}", self.spec());
        let crowded = refusal(&inputs, output_count + 1, symbol_bytes);
        assert!(matches!(crowded, Some(RunError::OutputCount { .. })), "{}", self.spec());
        if let Some(last) = (1..inputs.len()).last() {
            let mut short = inputs.clone();
            short[last] = &short[last][1..];
            let short = refusal(&short, output_count, symbol_bytes);
            assert!(matches!(short, Some(RunError::InputLength { .. })), "{}", self.spec());
        }
        if output_count > 0 {
            let narrow = refusal(&inputs, output_count, symbol_bytes - 1);
            assert!(matches!(narrow, Some(RunError::OutputLength { .. })), "{}", self.spec());
        }
    }

    fn result(&self, plan: &Plan) -> Vec<Vec<u8>> {
        if plan.reads.is_empty() {
            return Vec::new();
        }
        run(&plan.program, &self.stripe.fetch(self.shape().alpha, plan))
    }

    fn symbols(&self, shards: &[usize]) -> impl Iterator<Item = usize> {
        let alpha = self.shape().alpha;
        shards.iter().copied().flat_map(move |shard| shard * alpha..(shard + 1) * alpha)
    }

    fn lost(&self, shard: usize, combines: bool) -> Lost<'_> {
        Lost { numbers: &self.numbers, shape: self.shape(), generator: &self.generator, shard, combines }
    }

    /// Equal offers of all shards but the lost ones.
    fn without(&self, lost: &[usize]) -> Offers {
        let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
        Offers((0..self.shape().n).map(|shard| (!lost.contains(&shard)).then_some(offer)).collect())
    }

    /// All below `count`, or some where that is many.
    fn some(&self, count: usize) -> Vec<usize> {
        if count <= 14 { (0..count).collect() } else { Random(SEED).distinct(count, 5) }
    }

    fn some_ranges(&self) -> Vec<Range<usize>> {
        let count = self.shape().native_count;
        if count <= 10 {
            return (0..count).flat_map(|start| (start + 1..=count).map(move |end| start..end)).collect();
        }
        let mut random = Random(SEED);
        let mut range = || {
            let start = random.below(count);
            start..start + 1 + random.below(count - start)
        };
        (0..5).map(|_| range()).chain([0..1, count - 1..count, 0..count]).collect()
    }
}
