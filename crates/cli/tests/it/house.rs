//! ARCHITECTURE.md is true: the imports are the manifests', and the two walks name files and functions that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn architecture() -> String {
    std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md is there")
}

/// Text between the heading `title` and the next of its kind.
fn section(title: &str) -> String {
    let text = architecture();
    let start = text.find(&format!("## {title}")).unwrap_or_else(|| panic!("no section `{title}`"));
    let body = &text[start + 3..];
    body[..body.find("\n## ").unwrap_or(body.len())].to_string()
}

fn manifest_imports(name: &str) -> BTreeSet<String> {
    let path = root().join("crates").join(name).join("Cargo.toml");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let dependencies = text.split("[dev-dependencies]").next().unwrap_or_default();
    let ours = dependencies.lines().filter_map(|line| line.strip_prefix("weft-"));
    ours.filter_map(|line| line.split(['.', ' ', '=']).next()).map(str::to_owned).collect()
}

#[test]
fn an_import_that_is_not_drawn_does_not_exist() {
    let table = section("Who imports whom");
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        (line.starts_with('|') && cells.len() == 2 && !cells[0].starts_with('-')).then(|| (cells[0], cells[1]))
    });
    let drawn: BTreeMap<&str, &str> = rows.filter(|(name, _)| *name != "crate").collect();
    let folders = std::fs::read_dir(root().join("crates")).expect("crates are there");
    let crates: BTreeSet<String> =
        folders.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(crates, drawn.keys().map(|name| name.to_string()).collect(), "every crate has a row");
    for (name, imports) in drawn {
        if imports.starts_with("everything") {
            continue;
        }
        let drawn: BTreeSet<String> =
            imports.split(',').map(str::trim).filter(|import| !import.is_empty()).map(str::to_owned).collect();
        assert_eq!(manifest_imports(name), drawn, "imports of {name}");
    }
}

/// Every `fn name` of a step is defined in a file (or a file of a folder) that the step names before or after it.
fn check_walk(title: &str) {
    let text = section(title);
    let mut checked = 0;
    for step in text.split("\n\n").flat_map(|paragraph| paragraph.split("\n1. ").flat_map(split_items)) {
        let code: Vec<&str> = step.split('`').skip(1).step_by(2).collect();
        let paths: Vec<PathBuf> =
            code.iter().filter(|text| text.starts_with("crates/")).map(|path| root().join(path)).collect();
        let mut sources = String::new();
        for path in &paths {
            assert!(path.exists(), "{title}: {} does not exist", path.display());
            let files = if path.is_dir() { files_of(path) } else { vec![path.clone()] };
            for file in files {
                sources += &std::fs::read_to_string(&file).expect("it can be read");
            }
        }
        for function in code.iter().filter(|text| text.starts_with("fn ")) {
            let defined = [format!("{function}("), format!("{function}<")].iter().any(|form| sources.contains(form));
            assert!(defined, "{title}: `{function}` is in none of {paths:?}");
            checked += 1;
        }
    }
    assert!(checked >= 5, "{title}: only {checked} functions are named");
}

/// The numbered items of a list, each whole.
fn split_items(text: &str) -> Vec<String> {
    let mut items = vec![String::new()];
    for line in text.lines() {
        let begins = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
        if begins {
            items.push(String::new());
        }
        if let Some(item) = items.last_mut() {
            item.push_str(line);
            item.push('\n');
        }
    }
    items
}

fn files_of(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder can be read");
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect()
}

#[test]
fn the_walk_of_a_write_is_true() {
    check_walk("Follow one write");
}

#[test]
fn the_walk_of_a_read_is_true() {
    check_walk("Follow one read");
}

#[test]
fn every_kind_of_node_has_its_page_and_every_page_its_kind() {
    let folder = root().join("docs/nodes");
    let pages: BTreeSet<String> =
        files_of(&folder).iter().filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect();
    assert_eq!(pages, weft_engine::kinds().about().map(|kind| kind.name.to_owned()).collect());
    for kind in weft_engine::kinds().about() {
        let page = std::fs::read_to_string(folder.join(kind.name).with_extension("md")).expect("a page");
        let can = kind.capability;
        let prices = format!(
            "- Prices (units of 10 µs): a request {}, a KiB out {}, a KiB in {}: {}.\n",
            can.request_price, can.kib_out_price, can.kib_in_price, kind.prices_because
        );
        let tested = match kind.tested_against {
            Some(server) => format!("- Tested against: {server}.\n"),
            None => "- Not tested against a server".to_owned(),
        };
        let forms = kind.url.split(" or ").map(|form| format!("`{form}`"));
        let facts = forms.chain([prices, format!("- Once a put is answered: {}.\n", kind.durable), tested]);
        for fact in facts.chain(["weft node add meta.db".to_owned()]) {
            assert!(page.contains(&fact), "docs/nodes/{}.md lacks: {fact}", kind.name);
        }
    }
}

/// The pages of `docs/how-to` name files that exist, and functions that are in them.
#[test]
fn the_how_to_pages_are_true() {
    let pages = files_of(&root().join("docs/how-to"));
    assert!(!pages.is_empty());
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        for item in split_items(&text) {
            let code: Vec<&str> = item.split('`').skip(1).step_by(2).collect();
            let is_path = |text: &&&str| text.starts_with("crates/") || text.starts_with("docs/");
            let paths: Vec<PathBuf> = code.iter().filter(is_path).map(|path| root().join(path)).collect();
            let missing = paths.iter().find(|path| !path.exists());
            assert_eq!(missing, None, "{}", page.display());
            let sources: String = paths
                .iter()
                .filter(|path| path.is_file())
                .filter_map(|path| std::fs::read_to_string(path).ok())
                .collect();
            for function in code.iter().filter(|text| text.starts_with("fn ")) {
                assert!(sources.contains(&format!("{function}(")), "{}: `{function}` is not there", page.display());
            }
        }
    }
}
