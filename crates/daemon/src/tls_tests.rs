use super::*;

#[test]
fn fingerprints_are_read_as_they_are_written_and_nothing_else_is() {
    let fingerprint = Fingerprint(std::array::from_fn(|at| (at * 9) as u8));
    let text = fingerprint.to_string();
    assert_eq!(text.parse(), Ok(fingerprint));
    for broken in ["", &text[1..], &text.to_uppercase(), &text.replace('0', "g"), &format!("{text}00")] {
        assert_eq!(broken.parse::<Fingerprint>(), Err(()), "{broken}");
    }
}

#[test]
fn a_certificate_is_opened_as_it_was_made_and_its_key_is_not_shown() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("made");
    let pem = Certificate::generate().unwrap();
    std::fs::write(&file, &pem).unwrap();
    let (once, again) = (Certificate::open(&file, &file).unwrap(), Certificate::open(&file, &file).unwrap());
    assert_eq!(once.fingerprint(), again.fingerprint());
    assert_ne!(once.fingerprint(), Fingerprint([0; 32]));
    assert_eq!(format!("{once:?}"), format!("Certificate({})", once.fingerprint()));
    once.server().unwrap();
    std::fs::write(&file, "nothing").unwrap();
    assert!(Certificate::open(&file, &file).unwrap_err().to_string().contains("made"));
}
