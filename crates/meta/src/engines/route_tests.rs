use super::*;

const SHARED: &[SharedPrefix] =
    &[SharedPrefix { prefix: b"segment/", fresh_ids: true }, SharedPrefix { prefix: b"node/", fresh_ids: false }];

fn pairs(pairs: &[(&str, Option<&str>)]) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    pairs.iter().map(|(key, value)| (key.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec()))).collect()
}

fn way(checks: &[(&str, Option<&str>)], writes: &[(&str, Option<&str>)]) -> Route {
    route(&Batch { checks: pairs(checks), writes: pairs(writes), ..Batch::default() }, SHARED)
}

#[test]
fn only_what_others_cannot_touch_goes_behind() {
    let free = Route::Behind { claims: vec![] };
    assert_eq!(way(&[("inode/1", Some("a"))], &[("inode/1", Some("b")), ("inode/2", None)]), free);
    assert_eq!(way(&[], &[("segment/1", Some("mark"))]), free, "a set without a check holds in any order");
    let claim = Route::Behind { claims: vec![b"segment/1".to_vec()] };
    assert_eq!(way(&[("segment/1", None), ("inode/1", Some("a"))], &[("segment/1", Some("new"))]), claim);
}

#[test]
fn what_depends_on_others_goes_through() {
    assert_eq!(way(&[("segment/1", Some("old"))], &[("inode/1", Some("a"))]), Route::Through);
    assert_eq!(way(&[("segment/1", None), ("node/1", Some("active"))], &[("segment/1", Some("new"))]), Route::Through);
    assert_eq!(way(&[], &[("segment/1", None)]), Route::Through, "a removal is not the making of something");
    assert_eq!(
        way(&[("node/1", None)], &[("node/1", Some("new"))]),
        Route::Through,
        "names of nodes are not fresh ids"
    );
    assert_eq!(way(&[], &[("node/1", Some("new"))]), Route::Through);
}
