use super::*;

const NAMES: [&str; 2] = ["username", "password"];

fn parse(text: &str) -> Result<Credentials, CredentialsError> {
    Credentials::parse(text, NAMES.into_iter())
}

#[test]
fn a_file_becomes_a_record_and_back() {
    let credentials = parse("# mine\n\nusername = me\npassword= a=b c \r\n").expect("credentials");
    let again = Credentials::from_bytes(&credentials.to_bytes(), NAMES.into_iter());
    assert_eq!(again, Ok(credentials.clone()));
    assert_eq!(credentials.to_bytes(), b"password=a=b c\nusername=me\n");
    assert_eq!(format!("{credentials:?}"), "Credentials(not shown)");
    assert_eq!(Credentials::from_bytes(&[], std::iter::empty()), Ok(Credentials::default()));
}

#[test]
fn what_is_no_key_file_is_told_so_without_repeating_it() {
    for (text, words) in [
        ("hunter2", "line 1 is not"),
        ("username = me\npassword =", "line 2 is not"),
        ("username = me\nusername = you", "line 2 sets `username` again"),
        ("pass = x", "there is username, password"),
        ("hunter2hunter2hunter2hunter2= x", "(not shown)"),
        ("AKIAhunter2=", "(not shown)"),
    ] {
        let error = parse(text).expect_err(text).to_string();
        assert!(error.contains(words) && !error.contains("hunter2"), "{error}");
    }
    assert_eq!(Credentials::from_bytes(&[0xff], NAMES.into_iter()), Err(CredentialsError::NotText));
}
