//! ARCHITECTURE.md is true: the imports are the manifests' and the code's, modules inside a crate import each other one way, and the two
//! walks name files and functions that exist.

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

/// The rows of the table, by crate.
fn drawn_imports() -> BTreeMap<String, String> {
    let table = section("Who imports whom");
    let rows = table.lines().filter_map(|line| {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        (line.starts_with('|') && cells.len() == 2 && !cells[0].starts_with('-')).then(|| (cells[0], cells[1]))
    });
    rows.filter(|(name, _)| *name != "crate").map(|(name, imports)| (name.to_owned(), imports.to_owned())).collect()
}

const FEATURES_ONLY: &str = " (features)";

#[test]
fn an_import_that_is_not_drawn_does_not_exist() {
    let drawn = drawn_imports();
    let folders = std::fs::read_dir(root().join("crates")).expect("crates are there");
    let crates: BTreeSet<String> =
        folders.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(crates, drawn.keys().cloned().collect(), "every crate has a row");
    let picture = std::fs::read_to_string(root().join("docs/crates.svg")).expect("the picture is there");
    let is_missing = |name: &&String| !picture.contains(&format!(">{name}</text>"));
    assert_eq!(
        crates.iter().filter(is_missing).collect::<Vec<_>>(),
        [""; 0],
        "every crate has a box in docs/crates.svg"
    );
    for (name, imports) in drawn {
        if imports.starts_with("everything") {
            continue;
        }
        let drawn: BTreeSet<String> =
            imports.split(',').map(str::trim).filter(|import| !import.is_empty()).map(str::to_owned).collect();
        // Features of a crate are chosen through its manifest, and none of its code is used.
        let in_manifest = drawn.iter().map(|import| import.trim_end_matches(FEATURES_ONLY).to_owned()).collect();
        assert_eq!(manifest_imports(&name), in_manifest, "imports of {name}");
        let in_code = drawn.into_iter().filter(|import| !import.ends_with(FEATURES_ONLY)).collect();
        assert_eq!(used_crates(&name), in_code, "crates that the code of {name} uses");
    }
}

/// Ours that a crate's code names, but for its tests.
fn used_crates(name: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for code in modules_of(name).values() {
        for (start, _) in code.match_indices("weft_") {
            let is_start = !code[..start].ends_with(|before: char| before.is_alphanumeric() || before == '_');
            let rest = &code[start + "weft_".len()..];
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            if is_start && rest[end..].starts_with("::") && rest[..end] != *name {
                used.insert(rest[..end].to_owned());
            }
        }
    }
    used
}

/// The code of a crate's modules by their paths below the crate, without tests and comments.
fn modules_of(name: &str) -> BTreeMap<Vec<String>, String> {
    let source = root().join("crates").join(name).join("src");
    let (mut folders, mut modules) = (vec![source.clone()], BTreeMap::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("the folder can be read").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let file_name = entry.file_name().to_string_lossy().into_owned();
            let Some(stem) = file_name.strip_suffix(".rs").filter(|stem| !stem.ends_with("tests")) else { continue };
            let above = folder.strip_prefix(&source).expect("it is below");
            let mut module: Vec<String> =
                above.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
            if !matches!(stem, "lib" | "main" | "mod") {
                module.push(stem.to_owned());
            }
            let text = std::fs::read_to_string(&path).expect("it can be read");
            let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
            modules.insert(module, code.join("\n"));
        }
    }
    modules
}

/// The paths that begin at `text` after `base`, groups in braces taken apart.
fn spread(base: &[String], text: &str, paths: &mut Vec<Vec<String>>) {
    let mut path = base.to_vec();
    let mut rest = text;
    while let Some(after) = rest.strip_prefix("::") {
        if let Some(group) = after.strip_prefix('{') {
            let (mut depth, mut start) = (0, 0);
            for (index, c) in group.char_indices() {
                match c {
                    '{' => depth += 1,
                    '}' if depth > 0 => depth -= 1,
                    ',' | '}' if depth == 0 => {
                        spread(&path, &format!("::{}", group[start..index].trim()), paths);
                        start = index + 1;
                        if c == '}' {
                            return;
                        }
                    }
                    _ => {}
                }
            }
            return;
        }
        let end = after.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(after.len());
        path.push(after[..end].to_owned());
        rest = &after[end..];
    }
    paths.push(path);
}

/// The modules of the same crate that a module names, without those that it lies in: a module and the modules in it may use each other.
fn neighbours(module: &[String], modules: &BTreeMap<Vec<String>, String>) -> BTreeSet<Vec<String>> {
    let code = &modules[module];
    let mut paths = Vec::new();
    for word in ["crate", "super", "self"] {
        for (start, _) in code.match_indices(&format!("{word}::")) {
            if code[..start].ends_with(|before: char| before.is_alphanumeric() || before == '_' || before == ':') {
                continue;
            }
            let mut base = match word {
                "crate" => Vec::new(),
                "super" => module[..module.len().saturating_sub(1)].to_vec(),
                _ => module.to_vec(),
            };
            let mut rest = &code[start + word.len()..];
            while let Some(after) = rest.strip_prefix("::super") {
                base.pop();
                rest = after;
            }
            spread(&base, rest, &mut paths);
        }
    }
    let module_of = |mut path: Vec<String>| {
        while !path.is_empty() && !modules.contains_key(&path) {
            path.pop();
        }
        path
    };
    paths.into_iter().map(module_of).filter(|found| !module.starts_with(found)).collect()
}

#[test]
fn modules_import_each_other_one_way() {
    for name in drawn_imports().keys() {
        let modules = modules_of(name);
        let imports: BTreeMap<_, _> = modules.keys().map(|module| (module, neighbours(module, &modules))).collect();
        let is_in_circle = |from: &&Vec<String>| {
            let (mut reached, mut next) = (BTreeSet::new(), vec![*from]);
            while let Some(module) = next.pop() {
                next.extend(imports[module].iter().filter(|found| reached.insert(*found)));
            }
            reached.contains(*from)
        };
        let circles: Vec<String> = modules.keys().filter(is_in_circle).map(|module| module.join("::")).collect();
        assert!(
            circles.is_empty(),
            "crates/{name}/src: these modules import each other in a circle: {circles:?}; move what both need below both"
        );
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

/// The pages of `docs/how-to` name files that exist, and functions that are in them; `NAME` and `X` stand for what is added.
#[test]
fn the_how_to_pages_are_true() {
    let pages = files_of(&root().join("docs/how-to"));
    assert!(!pages.is_empty());
    for page in pages {
        let text = std::fs::read_to_string(&page).expect("a page");
        for item in split_items(&text) {
            let code: Vec<&str> = item.split('`').skip(1).step_by(2).collect();
            let is_path = |text: &&&str| {
                (text.starts_with("crates/") || text.starts_with("docs/"))
                    && !text.contains("NAME")
                    && !text.contains("/X")
            };
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

/// All files of a folder that are no tests, with what is in them.
fn sources_below(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).expect("the folder can be read").flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            if name != "tests" && name != "target" {
                sources_below(&path, found);
            }
        } else if name.ends_with(".rs") && !name.ends_with("_tests.rs") && name != "fixture.rs" {
            let shown = path.strip_prefix(root().join("crates")).expect("a crate").to_string_lossy().into_owned();
            found.push((shown, std::fs::read_to_string(&path).expect("it can be read")));
        }
    }
}

/// What removes a shard, a segment's record, an inode or a kept file, and the only files that may say so. Those that decide to ask
/// `weft_format::removal` first; what its types do not say already is here.
const REMOVALS: &[(&str, &[&str])] = &[
    // Of openings a node keeps the newest. A member of an object store notes what its node removes.
    (
        "node.remove(",
        &["objects/src/host.rs", "transfer/src/bounded.rs", "transfer/src/remove.rs", "transfer/src/openings.rs"],
    ),
    (
        ".remove_shard(",
        &["care/src/collect/orphans.rs", "care/src/mend.rs", "objects/src/keeper.rs", "transfer/src/remove.rs"],
    ),
    ("transfer.remove(", &["care/src/collect/reaper.rs"]),
    (".drop_segment(", &["care/src/collect/reaper.rs", "engine/src/catalogue.rs"]),
    (".drop_generation(", &["care/src/collect/reaper.rs", "engine/src/catalogue.rs"]),
    (".mark_going(", &["care/src/collect/reaper.rs", "engine/src/catalogue.rs"]),
    ("store.reclaim(", &["vfs/src/volume.rs"]),
    ("store.let_go(", &["vfs/src/deleted.rs"]),
    ("remove(Key::Segment(", &["meta/src/store/segments.rs"]),
    ("remove(Key::Inode(", &["meta/src/store/reclaim.rs"]),
    ("Removable(", &["format/src/removal.rs"]),
    ("Expired(", &["format/src/removal.rs"]),
];

#[test]
fn nothing_is_removed_but_by_the_rules_of_one_page() {
    let mut sources = Vec::new();
    sources_below(&root().join("crates"), &mut sources);
    // What nodes do within, and what runs over them.
    sources.retain(|(path, _)| !path.starts_with("nodes/") && !path.starts_with("daemon/"));
    for (call, allowed) in REMOVALS {
        let callers: BTreeSet<&str> =
            sources.iter().filter(|(_, text)| text.contains(call)).map(|(path, _)| path.as_str()).collect();
        assert_eq!(callers, allowed.iter().copied().collect(), "who calls `{call}`");
    }
    // The page names all that decide.
    let asks = |(_, text): &&(String, String)| text.contains("weft_format::removal::") && text.contains("may_remove(");
    let deciders: BTreeSet<&str> = sources.iter().filter(asks).map(|(path, _)| path.as_str()).collect();
    let page = section("What never happens");
    let named = page.split("These ask it:").nth(1).and_then(|rest| rest.split("Only a node's").next()).expect("named");
    assert_eq!(named.split('`').filter_map(|word| word.strip_prefix("crates/")).collect::<BTreeSet<_>>(), deciders);
}
