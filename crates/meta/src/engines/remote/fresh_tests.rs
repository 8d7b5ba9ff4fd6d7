use super::*;

const HALF: u64 = NOTED_MAX as u64 / 2;

fn key(number: u64) -> Vec<u8> {
    [&[3][..], &number.to_be_bytes(), b"name"].concat()
}

#[test]
fn what_is_not_used_is_forgotten_and_what_is_used_is_not() {
    let mut fresh = Fresh::default();
    fresh.begin(&key(0));
    fresh.begin(&key(1));
    fresh.note(&key(0), 7);
    for number in 2..3 * HALF {
        fresh.begin(&key(number));
        if number % 1000 == 0 {
            fresh.note(&key(0), number);
        }
    }
    assert!(fresh.lacks(&key(0), 8) && !fresh.lacks(&key(0), 7) && !fresh.lacks(&key(0), 1_000_000), "it is used");
    assert!(!fresh.lacks(&key(1), 8), "it is forgotten");
    assert!(fresh.lacks(&key(3 * HALF - 1), 8));
    assert!(fresh.recent.len() + fresh.older.len() <= NOTED_MAX + 1);
}

#[test]
fn a_domain_of_too_many_keys_is_forgotten() {
    let mut fresh = Fresh::default();
    fresh.begin(&key(0));
    assert!(fresh.lacks(&key(0), 1) && !fresh.lacks(&key(1), 1) && !fresh.lacks(b"short", 1));
    (1..HALF).for_each(|hash| fresh.note(&key(0), hash));
    assert!(!fresh.lacks(&key(0), 1) && fresh.lacks(&key(0), 0));
    (0..1).chain(HALF..HALF + 2).for_each(|hash| fresh.note(&key(0), hash));
    assert!(!fresh.lacks(&key(0), u64::MAX), "nothing is known of it any more");
    assert_eq!(fresh.count, 0);
}

#[test]
fn a_domain_that_is_begun_twice_is_not_new() {
    let mut fresh = Fresh::default();
    fresh.begin(&key(0));
    fresh.note(&key(0), 7);
    fresh.begin(&key(0));
    assert!(!fresh.lacks(&key(0), 7) && !fresh.lacks(&key(0), 8));
}
