use super::super::fixture::*;
use super::*;
use weft_format::records::{Kind, Later};

#[test]
fn equal_policies_have_one_id() {
    let (store, _) = volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    let other = PolicyRecord::of("rs:2+1", Some(1));
    let id = store.set_policy(directory, &other, at(5)).unwrap();
    assert_ne!(id, store.volume().default_policy);
    assert_eq!(store.set_policy(directory, &other, at(5)).unwrap(), id);
    assert_eq!(store.policy(id).unwrap(), other);
    assert_eq!(store.policies().unwrap(), [(PolicyId(0), default_policy()), (id, other.clone())]);
    let attributes = store.attributes(directory).unwrap();
    assert_eq!((attributes.policy, attributes.ctime), (id, at(5)));
    let child = store.create(directory, b"child", &new_inode(Kind::File), at(6)).unwrap();
    assert_eq!(child.policy, id);
    assert_eq!(store.set_policy(directory, &default_policy(), at(7)).unwrap(), PolicyId(0));
    assert_eq!(store.attributes(child.ino).unwrap().policy, id);
    let fifo = make(&store, Ino::ROOT, "fifo", Kind::Fifo);
    assert_eq!(kind_of(&store.set_policy(fifo, &other, at(8)).unwrap_err()), "NotDirectory");
    assert_eq!(store.set_policy(file, &other, at(8)).unwrap(), id);
    assert_eq!(store.attributes(file).unwrap().policy, id);
    assert_eq!(kind_of(&store.policy(PolicyId(77)).unwrap_err()), "Damaged");
    assert_clean(&store);
}

#[test]
fn what_the_files_of_a_segment_want_of_it() {
    let (store, _) = volume();
    let files: Vec<Ino> = ["a", "b"].iter().map(|name| make(&store, Ino::ROOT, name, Kind::File)).collect();
    // One segment of both, and one of the first alone.
    let pack = segment_id(1);
    let commits: Vec<_> = (0..2)
        .map(|number| {
            let attributes = store.attributes(files[number]).unwrap();
            file_commit(&attributes, vec![extent(0, 500, pack, 500 * number as u64)])
        })
        .collect();
    store.commit_files(&[(pack, segment_record(1000))], &commits, at(3)).unwrap();
    write(&store, files[0], 1000, 100, 2);
    let wanted = |number, now| {
        let wanted = store.wanted_code(segment_id(number), at(now)).unwrap();
        let all = [1, 2, 77].map(segment_id);
        let is_divided = store.divided(&all, at(now)).unwrap().contains(&segment_id(number));
        assert_eq!(is_divided, wanted == Wanted::Divided, "both ways to ask say the same");
        wanted
    };
    assert_eq!([wanted(1, 9), wanted(2, 9), wanted(77, 9)], [Wanted::AsIs, Wanted::AsIs, Wanted::AsIs]);
    assert!(!store.has_age_rules().unwrap());
    let other = PolicyRecord::of("rs:2+1", Some(1));
    store.set_policy(files[0], &other, at(4)).unwrap();
    assert_eq!([wanted(1, 9), wanted(2, 9)], [Wanted::Divided, Wanted::Code("rs:2+1".into())]);
    store.set_policy(files[1], &other, at(4)).unwrap();
    assert_eq!(wanted(1, 9), Wanted::Code("rs:2+1".into()));
    // An age rule: the files changed at 3 s.
    let later = Some(Later { code: "rs:8+3".into(), after_ms: 60_000 });
    let aging = PolicyRecord { later, ..default_policy() };
    for file in &files {
        store.set_policy(*file, &aging, at(5)).unwrap();
    }
    assert!(store.has_age_rules().unwrap());
    assert_eq!([wanted(1, 62), wanted(1, 63)], [Wanted::AsIs, Wanted::Code("rs:8+3".into())]);
    assert_eq!(wanted(1, 1), Wanted::AsIs, "a clock that went back makes nothing old");
    // One that has left the segment has no say, though the index may still name it.
    store.set_policy(files[1], &other, at(6)).unwrap();
    assert_eq!(wanted(1, 9), Wanted::Divided);
    write(&store, files[1], 0, 500, 3);
    assert_eq!(wanted(1, 9), Wanted::AsIs);
    assert_clean(&store);
}

#[test]
fn finding_15_users_cannot_fill_the_table_of_policies_and_unused_ones_go() {
    let (store, _) = volume();
    let directory = make(&store, Ino::ROOT, "directory", Kind::Directory);
    let aging =
        |after_ms| PolicyRecord { later: Some(Later { code: "rs:2+1".to_owned(), after_ms }), ..default_policy() };
    // One after the other on one directory: all but the last are unused, and make way.
    for number in 1..=USER_POLICIES_MAX as u64 + 500 {
        store.set_policy_as(PolicyMaker::User, directory, &aging(number), at(5)).unwrap();
    }
    assert!(store.policies().unwrap().len() <= USER_POLICIES_MAX);
    assert_clean(&store);
    // Each in use: users come to an end, root does not, and what there is can be chosen by all.
    let mut number = 1_000_000;
    let refused = loop {
        let own = make(&store, Ino::ROOT, &number.to_string(), Kind::File);
        match store.set_policy_as(PolicyMaker::User, own, &aging(number), at(6)) {
            Ok(_) => number += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(kind_of(&refused), "TooManyPolicies");
    assert_eq!(store.policies().unwrap().len(), USER_POLICIES_MAX);
    let chosen = store.set_policy_as(PolicyMaker::User, directory, &aging(1_000_000), at(7)).unwrap();
    assert_eq!(store.attributes(directory).unwrap().policy, chosen);
    store.set_policy(directory, &aging(7), at(8)).unwrap();
    assert_clean(&store);
}
