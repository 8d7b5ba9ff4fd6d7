use super::*;

fn page(names: &[(&str, u64)], more: bool) -> Listed {
    let name = |(name, stamp): &(&str, u64)| ListedName { name: (*name).into(), stamp: *stamp, bytes: Some(1) };
    Listed { names: names.iter().map(name).collect(), more }
}

#[test]
fn pages_are_merged_as_far_as_all_of_them_reach() {
    let pages =
        vec![page(&[("a", 1), ("c", 5)], true), page(&[("a", 2), ("b", 1), ("d", 1)], true), page(&[("e", 1)], false)];
    let (names, next) = merged(pages.into_iter(), "", "");
    let names: Vec<(&str, u64)> = names.iter().map(|name| (name.name.as_str(), name.stamp)).collect();
    // Of `d` the first member may have a newer version, which its page does not reach.
    assert_eq!(names, [("a", 2), ("b", 1), ("c", 5)]);
    assert_eq!(next.as_deref(), Some("c"));
    let (names, next) = merged(vec![page(&[("x", 1)], false)].into_iter(), "", "c");
    assert_eq!((names.len(), next), (1, None));
}

#[test]
fn a_member_that_lists_what_was_not_asked_for_makes_no_list_endless() {
    let (names, next) = merged(vec![page(&[("a", 1), ("p/1", 1)], true)].into_iter(), "p/", "p/1");
    assert!(names.is_empty() && next.is_none());
}
