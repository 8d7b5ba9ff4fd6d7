use super::*;
use std::path::Path;
use weft_meta::kv::Batch;

fn store(path: &Path, pairs: &[(&[u8], &[u8])]) -> MetaUrl {
    let url: MetaUrl = path.into();
    url.create().unwrap();
    let kv = url.open(Access::Owner, None, &Env::system()).unwrap();
    let writes = pairs.iter().map(|(key, value)| (key.to_vec(), Some(value.to_vec()))).collect();
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
    kv.close().unwrap();
    url
}

fn read(text: &str) -> Result<Vec<Slot>, String> {
    let mut input = text.as_bytes();
    let mut lines = Lines { input: &mut input, hasher: blake3::Hasher::new(), record_count: 0, is_over: false };
    let mut slots = Vec::new();
    while let Some(page) = lines.page()? {
        slots.extend(page);
    }
    Ok(slots)
}

#[test]
fn a_dump_is_read_back_as_it_was_and_not_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    let inode = [&[3][..], &7u64.to_be_bytes(), b"na me # x"].concat();
    let url = store(&folder.path().join("meta.db"), &[(b"", b"1"), (&inode, b""), (b"\x7f#", &[0xab, 0])]);
    let mut text = Vec::new();
    assert_eq!(dump(&url, &mut text).unwrap(), 3);
    let text = String::from_utf8(text).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..3],
        ["weft metadata 3", "- 31 # unknown", "0300000000000000076e61206d652023 2078 - # dirent/7/na me # x"]
            .map(|line| line.replace("2023 2078", "20232078"))
    );
    assert!(lines[4].starts_with("end 3 "), "{text}");
    let slots = read(&text).unwrap();
    assert_eq!(
        slots,
        [(b"".to_vec(), Some(b"1".to_vec())), (inode, Some(Vec::new())), (b"\x7f#".to_vec(), Some(vec![0xab, 0]))]
    );

    for (what, changed) in [
        ("no dump", text.replace("weft metadata", "metadata")),
        ("has format 2", text.replace("metadata 3", "metadata 2")),
        ("cut", text.lines().take(3).map(|line| format!("{line}\n")).collect()),
        ("cut", text.trim_end().to_owned()),
        ("damaged", text.replace("ab00", "ab01")),
        ("damaged", text.replace("ab00", "ab0")),
        ("damaged", text.replace(" - ", " + ")),
        ("damaged", text.replace("end 3", "end 2")),
        ("damaged", text.replace("- 31 # unknown\n", "")),
    ] {
        let why = read(&changed).unwrap_err();
        assert!(why.contains(what), "{what}: {why}");
    }
}
