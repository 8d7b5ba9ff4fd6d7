use super::*;

#[test]
fn kinds_are_told_apart_and_what_is_unknown_is_not_absent() {
    let kind = |kind: ErrorKind| meaning(&Error::new(kind, "words")).0;
    assert_eq!(kind(ErrorKind::NotFound), NodeErrorKind::NotFound);
    assert_eq!(kind(ErrorKind::PermissionDenied), NodeErrorKind::Denied);
    assert_eq!(kind(ErrorKind::ConditionNotMatch), NodeErrorKind::Exists);
    assert_eq!(kind(ErrorKind::ConfigInvalid), NodeErrorKind::Unavailable);
    assert_eq!(kind(ErrorKind::RateLimited), NodeErrorKind::Busy);
    for other in [ErrorKind::Unexpected, ErrorKind::Unsupported, ErrorKind::NotADirectory, ErrorKind::Conflict] {
        assert_eq!(kind(other), NodeErrorKind::Io, "{other:?}");
    }
    let refusal = Refusal { kind: NodeErrorKind::Full, detail: "no room".into() };
    assert_eq!(meaning(&refusal.into()), (NodeErrorKind::Full, "no room".into()));
}

#[test]
fn a_page_becomes_a_short_line_and_addresses_are_left_out() {
    let page = format!("<html>\n\x1b[31m<h1>{}</h1>", "very ".repeat(1000));
    let error = Error::new(ErrorKind::Unexpected, page).with_context("url", "http://h/?delegation=hunter2");
    let (_, words) = meaning(&error);
    assert!(words.starts_with("<html> [31m<h1>very very") && words.len() <= WORDS_MAX, "{words}");
    assert!(!words.contains("hunter2"));
}
