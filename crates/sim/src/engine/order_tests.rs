use super::*;

fn key(name: &str) -> Key {
    name.as_bytes().to_vec()
}

fn set(began: u64, ended: u64, name: &str, value: u64, is_kept: bool) -> Asking {
    let writes = vec![(key(name), Some(value))];
    let operation = Asked::Commit { checks: Vec::new(), writes, adds: Vec::new(), is_kept };
    Call { began, ended, operation, answer: Some(Answered::Done) }
}

fn sees(began: u64, contents: &Contents) -> Asking {
    Call { began, ended: began + 1, operation: Asked::LookAtAll, answer: Some(Answered::All(contents.clone())) }
}

fn contents(pairs: &[(&str, u64)]) -> Contents {
    pairs.iter().map(|(name, value)| (key(name), *value)).collect()
}

fn holds(calls: &[Asking], found: &[(&str, u64)]) -> bool {
    is_explained(&Contents::new(), calls, &contents(found))
}

#[test]
fn a_crash_takes_the_last_commits_and_no_others() {
    let calls = [set(1, 2, "a", 1, false), set(3, 4, "b", 2, false)];
    assert!(holds(&calls, &[]) && holds(&calls, &[("a", 1)]) && holds(&calls, &[("a", 1), ("b", 2)]));
    assert!(!holds(&calls, &[("b", 2)]), "the earlier one is gone");
    assert!(!holds(&calls, &[("a", 7)]), "nobody wrote it");
}

#[test]
fn a_crash_takes_nothing_that_was_to_survive() {
    let calls = [set(1, 2, "a", 1, true), set(3, 4, "b", 2, false)];
    assert!(holds(&calls, &[("a", 1)]));
    assert!(!holds(&calls, &[]));
}

#[test]
fn a_view_is_of_one_moment() {
    let both = |began| [set(1, 9, "a", 1, false), set(1, 9, "b", 2, false), sees(began, &contents(&[("b", 2)]))];
    assert!(holds(&both(3), &[]));
    assert!(!holds(&both(10), &[]), "both are answered");
    let [a, b, seen] = both(3);
    assert!(!holds(&[a, b, seen, sees(5, &contents(&[("a", 1)]))], &[]), "two views disagree");
}

#[test]
fn one_key_is_seen_by_itself_where_two_batches_have_no_order() {
    let (a, b) = (contents(&[("a", 1)]), contents(&[("b", 2)]));
    let calls = [set(1, 9, "a", 1, false), set(1, 9, "b", 2, false), sees(3, &a), sees(5, &b)];
    assert!(!holds(&calls, &[]));
    let of = |name: &str| seen_at(&calls, |other| *other == key(name));
    assert!(!is_explained(&Contents::new(), &of("a"), &Contents::new()), "it was seen, and then it was not");
    let later = [set(1, 9, "a", 1, false), set(1, 9, "b", 2, false), sees(3, &b)];
    assert!(is_explained(&Contents::new(), &seen_at(&later, |other| *other == key("a")), &Contents::new()));
}

/// The check that did not hold may be of a key that is not looked at.
#[test]
fn a_conflict_is_left_out_where_not_all_of_its_checks_are_seen() {
    let checks = vec![(key("a"), Some(5)), (key("b"), None)];
    let operation = Asked::Commit { checks, writes: Vec::new(), adds: Vec::new(), is_kept: false };
    let call = Call { began: 1, ended: 2, operation, answer: Some(Answered::Conflict) };
    assert!(holds(std::slice::from_ref(&call), &[]));
    assert_eq!(seen_at(std::slice::from_ref(&call), |other| *other == key("b")).len(), 0);
    assert_eq!(seen_at(&[call], |_| true).len(), 1);
}
