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
    let checked = check(&*code).expect("it decodes rightly");
    assert!(checked.keeps_its_promise);
    let counts: Vec<_> = checked.losses.iter().map(|l| (l.lost, l.patterns, l.tried, l.decodable)).collect();
    assert_eq!(counts, [(1, 6, 6, 6), (2, 15, 15, 15), (3, 20, 20, 0)]);
}

/// The paper's code is not MDS: every pattern of up to four of eight says by how much.
#[test]
fn patterns_beyond_the_promise_are_tried_as_long_as_enough_is_left() {
    let code = weft_codes::parse("msbasic:4").expect("a code");
    let checked = check(&*code).expect("it decodes rightly");
    let counts: Vec<_> = checked.losses.iter().map(|l| (l.lost, l.tried, l.decodable)).collect();
    assert_eq!((checked.tolerance, counts), (2, vec![(1, 8, 8), (2, 28, 28), (3, 56, 52), (4, 70, 46)]));
}

/// Nodes that compute send sums and products: of bytes, and of strips.
#[test]
fn nodes_that_compute_are_checked_too() {
    for spec in ["msr:4+4,d=7", "basic:4+4,d=6"] {
        let code = weft_codes::parse(spec).expect("a code");
        let bench = Bench::new(&*code).expect("it encodes");
        let last = code.shape().n - 1;
        let offer = |shard| (shard != last).then_some(Offer { combines: true, ..OFFER });
        let have = Offers((0..code.shape().n).map(offer).collect());
        let plan = code.plan(&Wanted::Shards(vec![last]), &have).expect("one is lost");
        assert!(plan.reads.iter().any(|read| read.terms.len() > 1), "{spec}");
        assert!(bench.survives(&[last]).expect("it is rebuilt rightly"), "{spec}");
    }
}

#[test]
fn many_patterns_are_sampled() {
    let code = weft_codes::parse("rs:100+20").expect("a code");
    let bench = Bench::new(&*code).expect("it encodes");
    assert_eq!(bench.patterns_tried(2), 7_140);
    assert_eq!(bench.patterns_tried(20), SAMPLE_COUNT);
}
