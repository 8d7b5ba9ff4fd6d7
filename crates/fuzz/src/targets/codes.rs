//! Specs of codes, and policies made of them.

/// A spec as headers, records and users give it.
pub(super) fn spec(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    match weft_codes::parse(text) {
        Ok(code) => {
            let (spec, shape) = (code.spec().to_owned(), code.shape().clone());
            // Two at once would take twice the memory.
            drop(code);
            let again = weft_codes::parse(&spec).expect("a code's own spec names it");
            assert_eq!((again.spec(), again.shape()), (&*spec, &shape));
        }
        Err(error) => assert!(error.to_string().len() < 2000, "an error quotes the beginning only"),
    }
}

pub(super) fn spec_seeds() -> Vec<Vec<u8>> {
    weft_codes::families().iter().map(|family| family.example.as_bytes().to_vec()).collect()
}

/// The text of a policy.
pub(super) fn policy(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    if let Ok(policy) = weft_vfs::policy_for(text) {
        let shown = weft_vfs::policy_text(&policy);
        assert_eq!(weft_vfs::policy_for(&shown).ok().as_ref(), Some(&policy), "{shown}");
        assert_eq!(weft_format::records::PolicyRecord::decode(&policy.encode()).as_ref(), Ok(&policy));
    }
}

pub(super) fn policy_seeds() -> Vec<Vec<u8>> {
    let texts = ["rs:4+2", "replica:3 then rs:8+3 after 30d margin 1", "rs:4+2 segment 64MiB cell 1MiB"];
    texts.map(|text| text.as_bytes().to_vec()).into()
}
