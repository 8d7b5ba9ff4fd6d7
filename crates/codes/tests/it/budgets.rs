//! What planning costs, counted: no more than a few times what the program that is found does.
//!
//! A program is used for every stripe that lies alike, and runs over kilobytes a symbol; a plan goes once over names. So a plan
//! whose operations are as many as the symbols that its program touches costs less than the program's first run. Times cannot
//! be asserted, these counts can: they are the same on every machine.

use crate::plans::is_sound;
use weft_codes::{Code, Compiled, Offer, Offers, Op, Program, Wanted, measure};

/// Operations of planning and of making the program ready, for each symbol that it adds or multiplies. A symbol is named by
/// the choice of what to read, when what is needed is marked, when sums are written down, when they are numbered, in three passes
/// over the program, and in as many when it is lowered: about ten. Twice that leaves room for more than one choice.
const PER_SYMBOL: u64 = 24;

/// Operations that nobody notices, some tens of microseconds: codes of a few dozen symbols may try every way there is.
const FREE: u64 = 1 << 17;

/// What the generic engine may take, some ten milliseconds: it eliminates, and searches for what is cheaper as long as that is
/// bounded. For codes of so few symbols that this is enough.
const ENGINE: u64 = 1 << 24;

/// Symbols added or multiplied.
fn touched(program: &Program) -> u64 {
    let of_op = |op: &Op| match op {
        Op::Copy { .. } | Op::Xor { .. } => op.sources().len() + op.targets().len(),
        Op::Dot { from, to, .. } => from.len() * to.len() + to.len(),
    };
    program.ops.iter().map(|op| of_op(op) as u64).sum()
}

/// Offers without these shards; uneven ones as of nodes at different distances, most of them slow.
fn offers(n: usize, lost: &[usize], is_uneven: bool) -> Offers {
    let offer = |shard: usize| {
        let (request_price, symbol_price) =
            if is_uneven { (1 + shard as u64 * 7919 % 13 * 500, 1 + shard as u64 * 31 % 17) } else { (1, 1) };
        (!lost.contains(&shard)).then_some(Offer { combines: false, request_price, symbol_price })
    };
    Offers((0..n).map(offer).collect())
}

/// What is asked of codes in operation, with what is lost: reads of everything and of parts of cells, healthy and degraded,
/// repairs of one and of all that may be lost, and the same again when one more is late.
fn questions(code: &dyn Code) -> Vec<(&'static str, Wanted, Offers)> {
    let shape = code.shape();
    let (n, m) = (shape.n, shape.tolerance);
    let all = || Wanted::Natives((0..shape.native_count).collect());
    let middle = shape.native_count / 2;
    let first: Vec<usize> = (0..m).collect();
    let spread: Vec<usize> = (0..m).map(|index| index * n / m.max(1)).collect();
    // One of the lost is back, another is late.
    let late: Vec<usize> = (1..m).chain([n - 1]).collect();
    let home = shape.contents.iter().position(|content| *content == weft_codes::Content::Native(middle));
    let of_middle = vec![home.map_or(0, |symbol| symbol / shape.alpha)];
    let mut questions = vec![
        ("read", all(), offers(n, &[], false)),
        ("read at uneven prices", all(), offers(n, &[], true)),
        ("read without one", all(), offers(n, &[0], false)),
        ("read without one at uneven prices", all(), offers(n, &[0], true)),
        ("read without m", all(), offers(n, &first, false)),
        ("read of a symbol", Wanted::Natives(vec![middle]), offers(n, &of_middle, false)),
        (
            "read of a few symbols",
            Wanted::Natives((middle..shape.native_count.min(middle + 4)).collect()),
            offers(n, &of_middle, false),
        ),
        ("repair of the first", Wanted::Shards(vec![0]), offers(n, &[0], false)),
        ("repair of the first at uneven prices", Wanted::Shards(vec![0]), offers(n, &[0], true)),
        ("repair of the last", Wanted::Shards(vec![n - 1]), offers(n, &[n - 1], false)),
        ("repair of m", Wanted::Shards(first.clone()), offers(n, &first, false)),
        ("repair of m apart", Wanted::Shards(spread.clone()), offers(n, &spread, false)),
    ];
    if m > 1 {
        let two = vec![0, n / 2];
        questions.push(("repair of two apart", Wanted::Shards(two.clone()), offers(n, &two, false)));
        questions.push(("repair of m - 1, one late", Wanted::Shards((1..m).collect()), offers(n, &late, false)));
        questions.push(("repair of m - 1, one late, uneven", Wanted::Shards((1..m).collect()), offers(n, &late, true)));
    }
    questions
}

/// Asks everything of the code; says what exceeds the budget of its program and so much.
fn exceeding(spec: &str, free: u64) -> Vec<String> {
    let code = weft_codes::parse(spec).expect(spec);
    // What follows from the code alone is computed once.
    let _ = code.plan(&Wanted::Natives(vec![0]), &offers(code.shape().n, &[0], false));
    let mut exceeding = Vec::new();
    for (name, wanted, have) in questions(&*code) {
        let (plan, planning) = measure::planned(|| code.plan(&wanted, &have));
        let plan = plan.unwrap_or_else(|error| panic!("{spec}, {name}: {error}"));
        let program = plan.program.clone();
        let (compiled, compiling) = measure::planned(|| Compiled::new(program));
        assert!(compiled.is_ok(), "{spec}, {name}");
        assert!(planning > 0 && compiling > 0, "{spec}, {name}: what is read is named");
        let touched = touched(&plan.program);
        println!("{spec:40} {name:36} {planning:>10} and {compiling:>10} operations, {touched:>8} symbols");
        if planning + compiling > free + PER_SYMBOL * touched {
            exceeding.push(format!("{spec}, {name}: {planning} and {compiling} operations for {touched} symbols"));
        }
        if code.shape().contents.len() <= 600 {
            is_sound(&*code, &wanted, &have, &plan);
        }
    }
    exceeding
}

fn are_within_budget(free: u64, specs: &[&str]) {
    let exceeding: Vec<String> = specs.iter().flat_map(|spec| exceeding(spec, free)).collect();
    assert!(exceeding.is_empty(), "{}", exceeding.join("\n"));
}

#[test]
fn mojette_is_planned_by_its_geometry() {
    are_within_budget(
        FREE,
        &[
            "mojette:layout-0",
            "mojette:layout-1",
            "mojette:layout-2",
            "mojette:layout-0,nonsystematic",
            "mojette:layout-1,nonsystematic",
            "mojette:layout-2,nonsystematic",
            "mojette:16+8",
            "mojette:20+4,l=100",
        ],
    );
}

#[test]
fn reed_solomon_is_planned_in_closed_form() {
    are_within_budget(FREE, &["rs:4+2", "rs:10+4", "rs:20+10", "rs:64+64", "rs:100+100", "rs:200+55"]);
}

#[test]
fn codes_of_few_symbols_are_planned_by_elimination() {
    are_within_budget(
        ENGINE,
        &["lrc:12+2+2", "lrc:24+2+2", "lrc:96+4+4", "lrc-uniform:96+5+4", "msbasic:8", "msbasic:16", "mbr:4+4,d=5"],
    );
}

/// What regenerates in closed form is still compared with what the engine finds, since that may be cheaper.
#[test]
fn regenerating_codes_are_planned_within_the_bounds_of_the_engine() {
    are_within_budget(
        ENGINE,
        &[
            "clay:10+4",
            "msr:4+4,d=7",
            "msr:6+6,d=11",
            "msr:8+8,d=15",
            "mbr:8+4,d=10",
            "basic:4+4,d=6",
            "basic:6+6,d=10",
            "basic:8+8,d=14",
            "basic-mbr:4+4,d=5",
            "embr:n=8,k=6",
            "embr:n=8,k=4",
            "embr:n=16,k=12",
        ],
    );
}

/// What helpers that combine should send for two lost shards is found by elimination, in every family.
#[test]
fn the_repair_of_two_by_helpers_that_combine_is_planned_within_the_bounds_of_the_engine() {
    for spec in OF_FAMILIES.iter().flat_map(|(_, specs, _)| specs.iter()) {
        let code = weft_codes::parse(spec).expect(spec);
        let n = code.shape().n;
        let _ = code.plan(&Wanted::Natives(vec![0]), &offers(n, &[0], false));
        for two in [[0, 1], [0, n / 2], [1, n - 1]] {
            let mut have = offers(n, &two, false);
            have.0.iter_mut().flatten().for_each(|offer| offer.combines = true);
            let wanted = Wanted::Shards(two.to_vec());
            let (plan, planning) = measure::planned(|| code.plan(&wanted, &have));
            let Ok(plan) = plan else { continue };
            println!("{spec:40} without {two:?}: {planning:>10} operations, {:>8} touched", touched(&plan.program));
            assert!(planning <= ENGINE, "{spec} without {two:?}: {planning} operations");
        }
    }
}

/// Of each family a wide code, and how many operations there may be for each symbol that the plan's program touches or that the
/// stripe has, for every question.
///
/// In closed form (replica, rs, clay, mojette) symbols are only named, some ten times each, and once more for each way tried. By
/// elimination the row of each symbol read is reduced by those before it, which for k rows of k bytes comes to ten times k for
/// each symbol (raid5, raid6, the other forms of rs, basic); embr adds up what each set of shards would cost. A cheaper choice is then looked for, once for each node that
/// may be left out, where cells have several symbols or shards are dear (crs, msbasic, msr, mbr, ldpc), and for each set of nodes
/// within the bound of the engine in codes with groups (lrc), whose programs are the smallest beside that.
const OF_FAMILIES: [(&str, &[&str], u64); 19] = [
    ("replica", &["replica:16"], 16),
    ("raid5", &["raid5:33"], 96),
    ("raid6", &["raid6:34"], 256),
    ("rs", &["rs:10+4", "rs:100+100"], 48),
    ("rs-klauspost", &["rs-klauspost:10+4", "rs-klauspost:64+16"], 1024),
    ("rs-cauchy", &["rs-cauchy:10+4", "rs-cauchy:64+16"], 1024),
    ("rs-vandermonde", &["rs-vandermonde:10+3", "rs-vandermonde:64+3"], 512),
    ("crs", &["crs:10+4", "crs:20+10", "crs:100+10"], 4096),
    ("lrc", &["lrc:12+2+2", "lrc:96+4+4"], 40_000),
    ("lrc-uniform", &["lrc-uniform:24+2+2", "lrc-uniform:96+5+4"], 40_000),
    ("embr", &["embr:n=8,k=6", "embr:n=16,k=12"], 192),
    ("msbasic", &["msbasic:4", "msbasic:16"], 4096),
    ("basic", &["basic:4+4,d=6", "basic:8+8,d=14"], 2048),
    ("basic-mbr", &["basic-mbr:3+3,d=5", "basic-mbr:4+4,d=5"], 768),
    ("clay", &["clay:4+2", "clay:10+4"], 32),
    ("msr", &["msr:4+4,d=7", "msr:8+8,d=15"], 12_288),
    ("mbr", &["mbr:4+4,d=5", "mbr:8+4,d=10"], 8192),
    ("mojette", &["mojette:16+8", "mojette:layout-2,nonsystematic"], 24),
    ("ldpc", &["ldpc:plank-10", "ldpc:plank-100"], 1024),
];

#[test]
fn every_family_is_planned_by_a_multiple_of_what_its_program_does() {
    let named: Vec<&str> = weft_codes::families().iter().map(|family| family.name).collect();
    let held: Vec<&str> = OF_FAMILIES.iter().map(|(family, ..)| *family).collect();
    assert_eq!(held, named, "every family has a budget");
    for (family, specs, per_symbol) in OF_FAMILIES {
        let mut most = 0;
        for spec in specs {
            let code = weft_codes::parse(spec).expect(spec);
            let symbols = code.shape().contents.len() as u64;
            let _ = code.plan(&Wanted::Natives(vec![0]), &offers(code.shape().n, &[0], false));
            for (name, wanted, have) in questions(&*code) {
                let (plan, planning) = measure::planned(|| code.plan(&wanted, &have));
                let Ok(plan) = plan else { continue };
                let touched = touched(&plan.program);
                let (_, compiling) = measure::planned(|| Compiled::new(plan.program));
                let each = (planning + compiling).div_ceil(touched + symbols);
                println!(
                    "{spec:40} {name:36} {planning:>10} and {compiling:>10}, {touched:>8} touched, {each:>6} each"
                );
                most = most.max(each);
            }
        }
        println!("{family}: {most}");
        assert!(most <= per_symbol, "{family}: {most} operations for each symbol");
    }
}
