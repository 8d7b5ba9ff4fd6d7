//! Each target for a moment: its corpus, and mutations of it that are the same in every run.

use weft_fuzz::{Mutator, TARGETS, find};

/// Of all mutations. `WEFT_SEED` gives others.
const SEED: u64 = 20_261_124;

fn try_for_a_moment(name: &str) {
    let target = find(name).expect("a target");
    let corpus = target.corpus().unwrap_or_else(|error| panic!("the corpus of {name}: {error}"));
    let seeds = (target.seeds)();
    assert!(seeds.iter().all(|seed| corpus.contains(seed)), "`cargo run -p weft-fuzz -- seeds` writes what is new");
    corpus.iter().for_each(|input| target.check(input));
    let seed = std::env::var("WEFT_SEED").map_or(SEED, |seed| seed.parse().expect("WEFT_SEED is a number"));
    let mut mutator = Mutator::new(corpus, seed);
    for number in 0..target.test_runs {
        let input = mutator.input();
        let run = std::panic::catch_unwind(|| target.check(&input));
        assert!(run.is_ok(), "{name}: input {number} of seed {seed} fails: {}", input.escape_ascii());
    }
}

macro_rules! tests {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            try_for_a_moment(stringify!($name));
        })*

        #[test]
        fn every_target_has_a_test() {
            let named: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(named, [$(stringify!($name)),*]);
        }
    };
}

tests! {
    shard_header shard_object shard_file shard_streams records names node_urls key_files code_specs policies gossip object_messages meta_keys
    meta_values meta_rows meta_intents meta_witness meta_addresses meta_holder block daemon_requests daemon_answers combinations proofs address_books
    meta_engines notes disk_cache block_locations grants object_records member_requests
}

/// Or the target would be one of refusals.
#[test]
fn the_daemon_does_what_the_requests_of_the_corpus_ask() {
    for request in weft_daemon::fuzzing::request_seeds() {
        let answer = weft_daemon::fuzzing::answers_to(&request);
        // Files are handed over by a socket, of a daemon that serves.
        let is_refused = request.starts_with(b"POST /short-circuit ");
        let (request, answer) = (request.escape_ascii(), answer.escape_ascii());
        assert_eq!(answer.to_string().starts_with("HTTP/1.1 2"), !is_refused, "{request}: {answer}");
    }
}

#[test]
fn a_member_does_what_the_signed_requests_of_the_corpus_ask() {
    let target = find("member_requests").expect("a target");
    for request in (target.seeds)() {
        let answer = weft_daemon::fuzzing::member_answers_to(&request, weft_fuzz::MEMBER).escape_ascii().to_string();
        let is_signed = request.first() != Some(&0);
        assert_eq!(answer.starts_with("HTTP/1.1 2"), is_signed, "{}: {answer}", request.escape_ascii());
    }
}

#[test]
fn the_user_of_a_daemon_believes_the_answers_of_the_corpus() {
    let answers = weft_daemon::fuzzing::answer_seeds();
    let refused: Vec<_> = answers.iter().filter(|answer| !weft_daemon::fuzzing::is_answer(answer)).collect();
    assert_eq!(refused, answers.iter().skip(answers.len() - 2).collect::<Vec<_>>());
}
