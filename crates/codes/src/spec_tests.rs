use super::*;
use proptest::prelude::*;

fn refusal(spec: &str) -> String {
    match parse(spec) {
        Ok(code) => panic!("{spec:?} is {}", code.spec()),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_family_has_an_example_that_is_canonical() {
    for family in families() {
        assert_eq!(parse(family.example).map(|code| code.spec().to_owned()), Ok(family.example.to_owned()));
        assert!(family.example.starts_with(&format!("{}:", family.name)));
        assert!(family.syntax.starts_with(&format!("{}:", family.name)));
    }
}

#[test]
fn shapes() {
    for (spec, n, k, tolerance) in [
        ("replica:3", 3, 1, 2),
        ("raid5:5", 5, 4, 1),
        ("raid6:6", 6, 4, 2),
        ("rs:4+2", 6, 4, 2),
        ("rs:255+1", 256, 255, 1),
        ("rs:1+255", 256, 1, 255),
        ("rs-klauspost:12+4", 16, 12, 4),
        ("rs-klauspost:1+255", 256, 1, 255),
        ("rs-cauchy:255+1", 256, 255, 1),
        ("rs-vandermonde:21+4", 25, 21, 4),
    ] {
        let code = parse(spec).expect(spec);
        let shape = code.shape();
        assert_eq!((shape.n, shape.k, shape.tolerance), (n, k, tolerance), "{spec}");
        assert_eq!((shape.alpha, shape.native_count), (1, k), "{spec}");
    }
}

#[test]
fn zeros_in_front_are_not_canonical() {
    assert_eq!(parse("rs:04+002").map(|code| code.spec().to_owned()), Ok("rs:4+2".to_owned()));
}

#[test]
fn the_impossible_is_refused_with_its_mend() {
    for (spec, sentence) in [
        ("lrc:6+7+2", r#""lrc:6+7+2" is impossible: 6 data shards cannot be in 7 groups; choose e.g. lrc:6+2+2"#),
        ("rs:0+0", r#""rs:0+0" is impossible: at least 1 data shard is needed; choose e.g. rs:4+2"#),
        ("rs:4+0", r#""rs:4+0" is impossible: at least 1 parity shard is needed; choose e.g. rs:4+2"#),
        ("rs:300+2", r#""rs:300+2" is impossible: GF(2^8) allows 256 shards in all, not 302; choose e.g. rs:4+2"#),
        (
            "rs-klauspost:200+57",
            r#""rs-klauspost:200+57" is impossible: GF(2^8) allows 256 shards in all, not 257; choose e.g. rs-klauspost:10+4"#,
        ),
        ("rs:4", r#""rs:4" is not written as rs:data+parity; write e.g. rs:4+2"#),
        ("rs:-4+2", r#""rs:-4+2" is not written as rs:data+parity; write e.g. rs:4+2"#),
        ("rs:4+2+1", r#""rs:4+2+1" is not written as rs:data+parity; write e.g. rs:4+2"#),
        ("raid5:2", r#""raid5:2" is impossible: RAID-5 has 3 to 256 shards, not 2; choose e.g. raid5:5"#),
        ("raid6:3", r#""raid6:3" is impossible: RAID-6 has 4 to 256 shards, not 3; choose e.g. raid6:6"#),
        ("replica:0", r#""replica:0" is impossible: there are 1 to 256 copies, not 0; choose e.g. replica:3"#),
        ("embr:n=1,k=1", r#""embr:n=1,k=1" is impossible: E-MBR has 2 to 23 shards, not 1; choose e.g. embr:n=6,k=4"#),
        (
            "embr:n=4,k=4",
            r#""embr:n=4,k=4" is impossible: of 4 shards, 1 to 3 can be enough, not 4; choose e.g. embr:n=6,k=4"#,
        ),
        ("clay:4+1", r#""clay:4+1" is impossible: with 1 parity nothing is gained over raid5:5; choose e.g. clay:4+2"#),
        (
            "clay:40+2",
            r#""clay:40+2" is impossible: 2^21 symbols per cell are needed, more than 1024; choose e.g. clay:4+2"#,
        ),
        (
            "msr:10+4,d=13",
            r#""msr:10+4,d=13" is impossible: a product matrix needs 2 * 10 - 2 helpers at least, not 13; see clay:10+4; choose e.g. msr:4+4,d=7"#,
        ),
        (
            "msr:4+4,d=8",
            r#""msr:4+4,d=8" is impossible: a lost shard has 7 helpers at most, not 8; choose e.g. msr:4+4,d=7"#,
        ),
        (
            "mbr:4+4,d=3",
            r#""mbr:4+4,d=3" is impossible: a lost shard has 4 to 7 helpers, not 3; choose e.g. mbr:4+4,d=5"#,
        ),
        ("mbr:4+4", r#""mbr:4+4" is not written as mbr:data+parity,d=helpers; write e.g. mbr:4+4,d=5"#),
        ("embr:4,3", r#""embr:4,3" is not written as embr:n=shards,k=enough; write e.g. embr:n=6,k=4"#),
        (
            "rs-vandermonde:22+4",
            r#""rs-vandermonde:22+4" is impossible: with 4 parities this matrix is MDS only up to 21 data shards, rs:22+4 always is; choose e.g. rs-vandermonde:10+3"#,
        ),
    ] {
        assert_eq!(refusal(spec), sentence);
    }
    let names = families().iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
    assert_eq!(refusal("foo:1"), format!(r#""foo" is not a family of codes; choose one of {names}"#));
    let sentence = r#""junk" is not a code; write family:parameters, e.g. rs:4+2 (families: "#;
    assert_eq!(refusal("junk"), format!("{sentence}{names})"));
    assert!(refusal("rs:99999999999999999999999999+2").contains("no code has so many shards"));
    assert!(refusal(&"x".repeat(1_000_000)).len() < 1_000);
}

proptest! {
    #[test]
    fn a_canonical_spec_is_parsed_to_itself(k in 1usize..40, m in 1usize..40) {
        let spec = format!("rs:{k}+{m}");
        prop_assert_eq!(parse(&spec).map(|code| code.spec().to_owned()), Ok(spec));
    }
}
