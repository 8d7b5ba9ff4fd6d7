use super::*;

#[test]
fn every_combination_comes_once() {
    let mut seen = Vec::new();
    combinations(5, 3, &mut |chosen| {
        seen.push(chosen.to_vec());
        Ok(())
    })
    .expect("visiting does not fail");
    assert_eq!(seen.len() as u64, patterns(5, 3));
    assert_eq!((seen.first(), seen.last()), (Some(&vec![0, 1, 2]), Some(&vec![2, 3, 4])));
    assert!(seen.windows(2).all(|pair| pair[0] < pair[1]));
}

#[test]
fn many_patterns_saturate() {
    assert_eq!(patterns(200, 100), patterns(200, 100));
    assert!(patterns(200, 100) > PATTERNS_MAX);
    assert_eq!(patterns(6, 2), 15);
}

#[test]
fn a_code_is_checked_within_and_beyond_its_promise() {
    let code = weft_codes::parse("rs:4+2").expect("a code");
    let check = Check::new(&*code).expect("it encodes");
    for losses in check.promised() {
        let outcome = check.run(&losses).expect("it decodes rightly");
        assert_eq!(outcome.tried as u64, patterns(6, losses.count()));
        assert_eq!(outcome.decoded, outcome.tried);
    }
    let beyond = check.run(&check.beyond().expect("three of six may be lost")).expect("nothing is wrong");
    assert_eq!(beyond.decoded, 0);
    assert_eq!(repair_reads_shards(&*code).expect("one can be lost"), 4.0);
}
