use super::*;

fn parsed(spec: &str) -> std::sync::Arc<dyn Code> {
    crate::parse(spec).expect(spec)
}

fn survival_of(spec: &str, lost_count: usize, effort: u64) -> Survival {
    survival(&Erasures::new(&*parsed(spec)).expect(spec), lost_count, effort, 7)
}

#[test]
fn few_patterns_are_all_tried() {
    for lost_count in 0..=6 {
        let survival = survival_of("rs:4+2", lost_count, EFFORT);
        assert!(survival.is_exact());
        assert_eq!(survival.patterns, binomial(6, lost_count));
        assert_eq!(survival.decodable, if lost_count <= 2 { survival.patterns } else { 0 });
        assert_eq!(survival.fatal.is_some(), lost_count > 2);
    }
    let beyond_all = survival_of("rs:4+2", 7, EFFORT);
    assert_eq!((beyond_all.tried, beyond_all.decodable, beyond_all.share()), (0, 0, 1.0));
}

#[test]
fn many_patterns_are_sampled_by_the_seed() {
    let sampled = survival_of("lrc:12+2+2", 4, 1);
    assert!(!sampled.is_exact());
    assert_eq!((sampled.patterns, sampled.tried), (1_820, LEAST_SAMPLES));
    assert_eq!(sampled, survival_of("lrc:12+2+2", 4, 1));
    // 1,568 of 1,820 are 0.862; of 100 drawn, the share is off by more than 0.15 once in 10,000 seeds.
    assert!((sampled.share() - 0.862).abs() < 0.15, "{sampled:?}");
    assert!(sampled.fatal.is_some_and(|lost| lost.len() == 4));
    let wide = survival_of("rs:100+100", 100, 1);
    assert_eq!((wide.patterns, wide.decodable), (u64::MAX, LEAST_SAMPLES));
}

#[test]
fn a_sample_that_takes_too_long_is_not_affordable() {
    let is_affordable =
        |spec: &str, lost_count| super::is_affordable(&Erasures::new(&*parsed(spec)).expect(spec), lost_count, EFFORT);
    assert!(is_affordable("rs:100+100", 100) && is_affordable("clay:8+4", 4));
    assert!(is_affordable("mbr:16+16,d=31", 1) && !is_affordable("mbr:16+16,d=31", 16));
    // More losses than any code bears need no trying.
    assert!(is_affordable("mbr:16+16,d=31", 32));
}

#[test]
fn repairs_are_counted() {
    let of = |spec: &str, shard| repair(&*parsed(spec), &[shard], false).expect(spec);
    assert_eq!((of("rs:4+2", 0).symbols_received, of("rs:4+2", 0).requests), (4, 4));
    assert_eq!((of("lrc:6+2+2", 0).requests, of("lrc:6+2+2", 9).requests), (3, 6));
    assert_eq!((of("replica:3", 2).requests, of("replica:3", 2).computing_helpers), (1, 0));
    assert_eq!(of("raid5:5", 4).size, Size { ops: 1, additions: 3, multiplications: 0, temporaries: 0 });
    assert_eq!(locality(&*parsed("lrc-uniform:24+2+2"), 27), Ok(13));
    assert!(repair(&*parsed("replica:1"), &[0], true).is_err());
    assert!(repair(&*parsed("replica:2"), &[2], true).is_err());
}

#[test]
fn shapes_are_weighed() {
    assert_eq!(storage_factor(parsed("rs:4+2").shape()), 1.5);
    assert!(is_systematic(parsed("lrc:6+2+2").shape()));
}

#[test]
fn programs_are_measured() {
    let encode = size(parsed("rs:4+2").encode());
    // The first parity is an XOR; a 1 stands in the second, too, where its row and the first are equal.
    assert_eq!(encode.additions, 6);
    assert!(encode.multiplications <= 4);
    assert_eq!(size(parsed("replica:3").encode()), Size::default());
}

#[test]
fn choices_are_counted() {
    assert_eq!([binomial(5, 0), binomial(5, 2), binomial(5, 5), binomial(5, 6)], [1, 10, 1, 0]);
    assert_eq!(binomial(64, 32), 1_832_624_140_942_590_534);
    assert_eq!(binomial(256, 128), u64::MAX);
}

#[test]
fn draws_are_distinct_and_reach_everything() {
    let mut random = Random::new(1);
    let mut seen = [0; 9];
    for _ in 0..900 {
        let choice = random.choice(9, 4);
        assert!(choice.windows(2).all(|pair| pair[0] < pair[1]) && choice.len() == 4);
        choice.iter().for_each(|&shard| seen[shard] += 1);
    }
    // 400 each, standard deviation 15.
    assert!(seen.iter().all(|count| (325..475).contains(count)), "{seen:?}");
}

/// By the printed formulas: a single loss (Dimakis et al.) and several.
#[test]
fn the_cut_set_bound() {
    let of = |spec: &str, lost_count| least_received(parsed(spec).shape(), lost_count);
    // d alpha / (d - k + 1) and h d alpha / (d - k + h), d = n - h
    assert_eq!(of("rs:10+4", 1), Some(10));
    assert_eq!([1, 2, 3, 4].map(|h| of("clay:10+4", h)), [13 * 64, 24 * 64, 33 * 64, 40 * 64].map(Some));
    assert_eq!([1, 2, 3].map(|h| of("msr:4+4,d=7", h)), [7, 12, 15].map(Some));
    // A lost shard of a minimum-bandwidth code is worth what it receives; two take 2 (n - 2) + k - 1.
    assert_eq!([of("embr:n=6,k=4", 1), of("embr:n=6,k=4", 2)], [Some(5), Some(8 + 3)]);
    assert_eq!([of("mbr:4+4,d=7", 1), of("mbr:4+4,d=7", 2)], [Some(7), Some(12 + 3)]);
    // As many lost as are needed: all.
    assert_eq!(of("embr:n=6,k=3", 3), Some(12));
    assert_eq!([of("lrc:6+2+2", 1), of("mojette:4+2", 1), of("rs:4+2", 3), of("rs:4+2", 0)], [None; 4]);
}
