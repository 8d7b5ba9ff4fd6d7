use super::*;

#[test]
fn every_combination_comes_once() {
    let mut seen = Vec::new();
    combinations(5, 3, &mut |chosen| {
        seen.push(chosen.to_vec());
        Ok(())
    })
    .expect("visiting does not fail");
    assert_eq!(seen.len() as u64, analysis::binomial(5, 3));
    assert_eq!((seen.first(), seen.last()), (Some(&vec![0, 1, 2]), Some(&vec![2, 3, 4])));
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn a_code_is_checked_within_and_beyond_its_promise() {
    let code = weft_codes::parse("rs:4+2").expect("a code");
    let checked = check(&code, false).expect("it decodes rightly");
    assert!(checked.keeps_its_promise);
    let counts: Vec<_> = checked.losses.iter().map(|l| (l.lost, l.patterns, l.tried, l.decodable)).collect();
    assert_eq!(counts, [(1, 6, 6, 6), (2, 15, 15, 15), (3, 20, 20, 0)]);
}

/// The paper's code is not MDS: every pattern of up to four of eight says by how much.
#[test]
fn patterns_beyond_the_promise_are_tried_as_long_as_enough_is_left() {
    let code = weft_codes::parse("msbasic:4").expect("a code");
    let checked = check(&code, false).expect("it decodes rightly");
    let counts: Vec<_> = checked.losses.iter().map(|l| (l.lost, l.tried, l.decodable)).collect();
    assert_eq!((checked.tolerance, counts), (2, vec![(1, 8, 8), (2, 28, 28), (3, 56, 52), (4, 70, 46)]));
}

/// Nodes that compute send sums and products: of bytes, and of strips.
#[test]
fn nodes_that_compute_are_checked_too() {
    for spec in ["msr:4+4,d=7", "basic:4+4,d=6"] {
        let code = weft_codes::parse(spec).expect("a code");
        let bench = Bench::new(&code).expect("it encodes");
        let last = code.shape().n - 1;
        let offer = |shard| (shard != last).then_some(Offer { combines: true, ..OFFER });
        let have = Offers((0..code.shape().n).map(offer).collect());
        let plan = code.plan(&Wanted::Shards(vec![last]), &have).expect("one is lost");
        assert!(plan.reads.iter().any(|read| read.terms.len() > 1), "{spec}");
        assert!(bench.survives(&[last]).expect("it is rebuilt rightly"), "{spec}");
    }
}

#[test]
fn patterns_are_all_tried_or_sampled() {
    assert_eq!(patterns_tried(20_000, 20_000), 20_000);
    assert_eq!(patterns_tried(20_001, 20_000), SAMPLE_MAX);
    assert_eq!(patterns_tried(u64::MAX, 100), 100);
    assert_eq!((patterns_tried(10, 0), patterns_tried(1, 0)), (SAMPLE_MIN, 1));
}

#[test]
fn of_many_numbers_of_losses_some_are_tried() {
    assert_eq!(spread(5, 2), [1, 2, 3, 4, 5]);
    assert_eq!(spread(101, 100), [1, 9, 17, 26, 34, 43, 51, 59, 68, 76, 85, 93, 100, 101]);
    assert_eq!(spread(30, 3), [1, 3, 4, 5, 8, 10, 13, 15, 18, 20, 23, 25, 28, 30]);
    assert_eq!(spread(1, 1), [1]);
}

/// The same sample every time; what is promised is tried whole where somebody asks for it.
#[test]
fn many_patterns_are_sampled_unless_all_are_asked_for() {
    let code = weft_codes::parse("rs:20+3").expect("a code");
    let bench = Bench::new(&code).expect("it encodes");
    let tried = |effort| bench.tried(&[1, 2, 3], effort).expect("it decodes rightly");
    assert_eq!(tried(1), [(1, SAMPLE_MIN), (2, SAMPLE_MIN), (3, SAMPLE_MIN)]);
    // What few patterns leave of the effort is for more of the others.
    let some = tried(EFFORT / 16);
    assert_eq!(some[..2], [(1, 23), (2, 253)]);
    assert!((SAMPLE_MIN..1771).contains(&some[2].1), "{some:?}");
    assert_eq!(some, tried(EFFORT / 16));
    let sampled = bench.losses(3, 10, &ProgressBar::hidden()).expect("it decodes rightly");
    assert_eq!((sampled.patterns, sampled.tried, sampled.decodable, sampled.exact), (1771, 10, 10, false));
    let all = check(&code, true).expect("it decodes rightly");
    assert!(all.losses.iter().all(|losses| losses.exact && losses.tried == analysis::binomial(23, losses.lost)));
}

/// A pattern of a code of thousands of symbols takes a tenth of a second, and the code's matrices are not made.
#[test]
fn wide_codes_are_checked_by_a_few_patterns() {
    let code = weft_codes::parse("clay:10+8").expect("a code");
    let bench = Bench::new(&code).expect("it encodes");
    assert!(bench.erasures.is_none());
    assert_eq!(bench.tried(&[8], 1).expect("it decodes rightly"), [(8, SAMPLE_MIN)]);
    assert_eq!(bench.losses(8, SAMPLE_MIN, &ProgressBar::hidden()).expect("it decodes rightly").decodable, SAMPLE_MIN);
}
