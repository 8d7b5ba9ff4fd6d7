use super::super::fixture::*;
use super::*;
use weft_format::Ino;
use weft_format::records::{Kind, Succession};

fn lease(term: u64, beat: u64) -> LeaseRecord {
    LeaseRecord { term, holder: format!("holder {term}"), beat, ttl_ms: 10_000 }
}

#[test]
fn one_of_two_who_take_a_lease_gets_it() {
    let (store, _) = volume();
    assert_eq!(store.lease("care").unwrap(), None);
    assert!(store.replace_lease("care", None, &lease(1, 0)).unwrap());
    assert!(!store.replace_lease("care", None, &lease(1, 0)).unwrap());
    assert!(store.replace_lease("care", Some(&lease(1, 0)), &lease(1, 1)).unwrap());
    assert!(!store.replace_lease("care", Some(&lease(1, 0)), &lease(2, 0)).unwrap(), "it gave a sign of life");
    assert_eq!((store.lease("care").unwrap(), store.lease("other").unwrap()), (Some(lease(1, 1)), None));
}

#[test]
fn who_has_lost_the_lease_changes_nothing() {
    let (store, _) = volume();
    let file = make(&store, Ino::ROOT, "file", Kind::File);
    write(&store, file, 0, 1000, 1);
    let (segment, old) = (segment_id(1), segment_record(1000));
    let mut new = old.clone();
    new.shards[1] = None;
    let fence = Fence { name: "care".into(), term: 1 };
    let replace = |from, to| {
        store.replace_segment(segment, from, to, &Succession::default(), Some(&fence)).map_err(|error| kind_of(&error))
    };
    assert_eq!(replace(&old, &new), Err("Fenced".into()), "it never had it");
    assert!(store.replace_lease("care", None, &lease(1, 0)).unwrap());
    assert_eq!(replace(&old, &new), Ok(()));
    assert!(store.replace_lease("care", Some(&lease(1, 0)), &lease(2, 0)).unwrap());
    assert_eq!(replace(&new, &old), Err("Fenced".into()));
    write(&store, file, 0, 1000, 2);
    assert_eq!(kind_of(&store.drop_segment(dead(segment), &new, Some(&fence)).unwrap_err()), "Fenced");
    assert_eq!(store.segment(segment).unwrap(), Some(new));
}
