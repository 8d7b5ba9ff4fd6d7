use super::*;

fn operation(kind: Kind, begun: u64, ended: Option<u64>, was: Option<Was>) -> Operation {
    Operation { name: "a", kind, begun: Duration::from_secs(begun), ended: ended.map(Duration::from_secs), was }
}

fn get(begun: u64, ended: u64) -> Operation {
    operation(Kind::Get, begun, Some(ended), None)
}

#[test]
fn a_read_may_give_the_last_answered_put_one_beside_it_or_one_of_which_nobody_knows() {
    let all = [
        operation(Kind::Put, 0, Some(1), Some(Was::Done)),
        operation(Kind::Put, 2, Some(9), None),
        operation(Kind::Put, 10, Some(12), Some(Was::Done)),
        operation(Kind::Put, 20, Some(22), Some(Was::Done)),
    ];
    let legal = |read: &Operation, number| is_legal(&all, read, &Was::Contents(number));
    assert!(!legal(&get(13, 14), 0), "it was replaced");
    assert!(legal(&get(13, 14), 2));
    assert!(legal(&get(13, 14), 1), "it may have its effect at any time");
    assert!(!legal(&get(13, 14), 3), "it had not begun");
    assert!(legal(&get(13, 21), 3) && legal(&get(21, 23), 2));
    assert!(!legal(&get(30, 31), 2));
    assert!(!is_legal(&all, &get(13, 14), &Was::Absent));
    assert!(!legal(&get(13, 14), usize::MAX), "made up");
}

#[test]
fn absent_is_what_was_never_put_or_was_removed_and_not_put_again() {
    let removed = operation(Kind::Remove, 5, Some(6), Some(Was::Done));
    let put = |begun, ended| operation(Kind::Put, begun, Some(ended), Some(Was::Done));
    let absent = |all: &[Operation]| is_legal(all, &get(20, 21), &Was::Absent);
    assert!(absent(&[]) && absent(&[operation(Kind::Put, 0, None, None)]));
    assert!(absent(&[put(0, 1), removed.clone()]));
    assert!(!absent(&[put(0, 1)]) && !absent(&[removed.clone(), put(8, 9)]));
    // At once with a put either may be the later.
    assert!(absent(&[removed, put(5, 7)]));
}

#[test]
fn one_is_made_where_there_is_none_and_refused_where_there_is_one() {
    let put = |kind, was| operation(kind, 0, Some(1), was);
    let make = |ended| operation(Kind::Make, 5, ended, Some(Was::Done));
    let legal = |before: &Operation, was| is_legal(std::slice::from_ref(before), &make(Some(6)), &was);
    for kind in [Kind::Put, Kind::Make] {
        assert!(!legal(&put(kind, Some(Was::Done)), Was::Done) && legal(&put(kind, Some(Was::Done)), Was::There));
        assert!(
            legal(&put(kind, None), Was::Done) && legal(&put(kind, None), Was::There),
            "it may have an effect or none"
        );
    }
    let removed = put(Kind::Remove, Some(Was::Done));
    assert!(legal(&removed, Was::Done) && !legal(&removed, Was::There));
    let refused = put(Kind::Make, Some(Was::There));
    assert!(legal(&refused, Was::Done) && !legal(&refused, Was::There), "it has stored nothing");
}
