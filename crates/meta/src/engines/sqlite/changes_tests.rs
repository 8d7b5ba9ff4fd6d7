use super::*;

#[test]
fn a_list_that_ends_within_a_key_is_damaged() {
    let listed = listed([&b"key"[..], b"", b"other"]);
    let ends = [0, 5, 7, 14];
    assert_eq!(listed.len(), 14);
    for length in 0..=listed.len() {
        let found = add_keys(7, &sealed(7, &listed[..length]), &mut BTreeSet::new());
        assert_eq!(found.is_ok(), ends.contains(&length), "{length} bytes");
    }
}
