//! `docs/how-to/add-a-code.md` names files that exist, and every place that names families.

use std::path::Path;
use weft_codes::families;

#[test]
fn the_page_that_says_how_to_add_a_code_is_true() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/how-to/add-a-code.md")).expect("the page");
    let quoted = page.split('`').skip(1).step_by(2);
    let paths: Vec<&str> = quoted.filter(|text| text.contains('/') && !text.contains([' ', 'X', ':'])).collect();
    assert!(paths.len() >= 8, "{paths:?}");
    for path in paths {
        assert!(root.join(path).exists(), "{path} does not exist");
    }
    // Each family is in each file that the page has one added to.
    let registers = page.split("## Registers").nth(1).expect("a section").split("\n## ").next().unwrap_or_default();
    let registers: Vec<&str> = registers.split('`').skip(1).step_by(2).filter(|text| text.contains('/')).collect();
    assert!(registers.len() >= 5, "{registers:?}");
    for register in registers {
        let text = std::fs::read_to_string(root.join(register)).expect(register);
        for family in families() {
            let name = family.name;
            let forms = [format!("{name}:"), format!("\"{name}\""), format!("`{name}`"), name.replace('-', "_") + "::"];
            let is_named = forms.iter().any(|form| text.contains(form));
            assert!(is_named, "{register} does not name {name}");
        }
    }
}
