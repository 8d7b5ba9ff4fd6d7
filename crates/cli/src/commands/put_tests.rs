use super::*;

#[test]
fn finding_32_what_there_is_to_copy_is_known_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    std::fs::create_dir_all(at("dir/below")).expect("made");
    std::fs::write(at("dir/one"), [1; 1000]).expect("written");
    std::fs::write(at("dir/below/two"), [2; 500]).expect("written");
    std::os::unix::fs::symlink(at("dir"), at("dir/below/up")).expect("linked");
    std::os::unix::fs::symlink(at("dir/one"), at("link")).expect("linked");
    assert_eq!(total_bytes(&[at("dir")]), Some(1500), "links within are copied as links");
    assert_eq!(total_bytes(&[at("dir/one"), at("link")]), Some(2000), "one that is named itself is followed");
    assert_eq!(total_bytes(&[at("dir"), PathBuf::from("-")]), None);
    assert_eq!(total_bytes(&[at("none")]), None);
    assert_eq!(progress_bar(Some(1500)).length(), Some(1500));
    assert_eq!(progress_bar(None).length(), None);
}
