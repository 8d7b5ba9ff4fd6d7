//! Gateways ask before they act, and the page that says how to add one is true.

use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("readable").path());
    entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

/// A volume's own operations are for callers whom a kernel has checked. So whatever has a volume, but for FUSE, has it to make a
/// checked view.
#[test]
fn every_gateway_but_fuse_asks_what_the_caller_may() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    for path in sources(&folder) {
        let relative = path.strip_prefix(&folder).expect("within it");
        if relative.starts_with("fuse") || relative == Path::new("fuse.rs") {
            continue;
        }
        assert!(!is_unchecked(&read(&path)), "{} uses a Volume unchecked", path.display());
    }
}

/// Does the code have a volume, and makes no checked view of it?
fn is_unchecked(text: &str) -> bool {
    let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    code.iter().any(|line| line.contains("Volume")) && !code.iter().any(|line| line.contains(".as_caller("))
}

/// Today no gateway but FUSE exists.
#[test]
fn a_gateway_that_does_not_ask_is_found() {
    let gateway = "use weft_vfs::Volume;\nfn read(volume: &Volume) {\n    volume.read(handle, 0, 1)\n}\n";
    assert!(is_unchecked(gateway));
    assert!(is_unchecked(&gateway.replace("    volume", "    // volume.as_caller(&caller)\n    volume")));
    assert!(!is_unchecked(&gateway.replace("volume.read", "volume.as_caller(&caller).read")));
    assert!(!is_unchecked("//! Calls a Volume.\n"));
}

#[test]
fn the_page_on_gateways_names_files_and_calls_that_exist() {
    let page = read(&root().join("docs/how-to/add-a-gateway.md"));
    let words = page.split('`').skip(1).step_by(2);
    let paths = words.filter(|word| (word.contains('/') || word.ends_with(".md")) && !word.contains("NAME"));
    let missing: Vec<_> = paths.filter(|path| !root().join(path).exists()).collect();
    assert!(missing.is_empty(), "the page names {missing:?}, which do not exist");

    let checked = read(&root().join("crates/vfs/src/checked.rs"));
    let functions = checked.split("    pub fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
    let functions: Vec<&str> = functions.collect();
    let steps = page.split("\n4. ").nth(1).and_then(|rest| rest.split("\n7. ").next()).expect("steps 4 to 6");
    let named: Vec<&str> = steps.split('`').skip(1).step_by(2).collect();
    let unknown: Vec<_> = named.iter().filter(|call| !functions.contains(call)).collect();
    assert!(unknown.is_empty(), "the page names {unknown:?}, which the checked view does not have");
    let unnamed: Vec<_> = functions.iter().filter(|call| **call != "as_caller" && !named.contains(call)).collect();
    assert!(unnamed.is_empty(), "the page does not name {unnamed:?} of the checked view");
}
