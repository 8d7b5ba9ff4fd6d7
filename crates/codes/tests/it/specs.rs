//! Any spec string is a code or a refusal in one sentence. The runner of the tests ends what takes for ever.

use proptest::prelude::*;
use weft_codes::{families, parse};

/// What any spec may do.
fn is_answered(spec: &str) {
    match parse(spec) {
        Ok(code) => {
            let shape = code.shape();
            assert_eq!(shape.contents.len(), shape.n * shape.alpha, "{spec:?}");
            assert_eq!(code.encode().verify(), Ok(()), "{spec:?}");
            assert_eq!(parse(code.spec()).map(|again| again.spec().to_owned()), Ok(code.spec().to_owned()), "{spec:?}");
        }
        Err(error) => {
            let sentence = error.to_string();
            assert!(!sentence.contains('\n') && sentence.len() < 1_000, "{sentence}");
        }
    }
}

/// Small numbers, often; else any, with zeros in front and overflows.
fn number() -> impl Strategy<Value = String> {
    prop_oneof![6 => "[0-9]", 3 => "[0-9]{2}", 1 => "[0-9]{1,25}"]
}

/// The spec with other numbers in it.
fn renumbered<'a>(spec: &str, mut numbers: impl Iterator<Item = &'a str>) -> String {
    let mut renumbered = String::new();
    for part in spec.split_inclusive(|character: char| !character.is_ascii_digit()) {
        let separator = part.trim_start_matches(|character: char| character.is_ascii_digit());
        if separator.len() < part.len() {
            renumbered += numbers.next().unwrap_or("1");
        }
        renumbered += separator;
    }
    renumbered
}

proptest! {
    #[test]
    fn any_string(spec in ".{0,40}") {
        is_answered(&spec);
    }

    #[test]
    fn any_parameters(
        name in prop::sample::select(families().iter().map(|family| family.name).collect::<Vec<_>>()),
        parameters in "([0-9]{0,3}|[a-f+,=:dknx-]|[^ -~]){0,9}",
    ) {
        is_answered(&format!("{name}:{parameters}"));
    }

    #[test]
    fn any_numbers(
        example in prop::sample::select(families().iter().map(|family| family.example).collect::<Vec<_>>()),
        numbers in prop::collection::vec(number(), 8),
    ) {
        is_answered(&renumbered(example, numbers.iter().map(String::as_str)));
    }
}

/// The largest that families take, and what is just beyond.
#[test]
fn equal_numbers() {
    for family in families() {
        for number in
            ["0", "1", "16", "64", "127", "128", "255", "256", "257", "65536", "65537", "18446744073709551616"]
        {
            is_answered(&renumbered(family.example, std::iter::repeat(number)));
        }
    }
}

/// The page that says which code to choose knows them all.
#[test]
fn the_guide_names_every_family() {
    let guide = include_str!("../../src/families.rs").split("use crate").next().unwrap_or_default();
    for family in families() {
        let link = format!("[`{}`]", family.name.replace('-', "_"));
        assert!(guide.contains(&link), "the guide in families.rs does not name {}", family.name);
    }
}
