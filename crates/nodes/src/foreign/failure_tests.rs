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
    assert!(words.contains("(it says: <html> [31m<h1>very very") && words.len() <= WORDS_MAX + 100, "{words}");
    assert!(!words.contains("hunter2"));
}

#[test]
fn finding_32_what_failed_comes_first_in_our_words_and_ends_in_the_mend() {
    let said = |kind: ErrorKind, words: &str| meaning(&Error::new(kind, words));
    let (_, denied) = said(ErrorKind::PermissionDenied, "S3Error { code: AccessDenied }");
    assert!(denied.starts_with("it refuses access: give a key file (--key FILE)"), "{denied}");
    assert!(denied.ends_with("(it says: S3Error { code: AccessDenied })"), "{denied}");
    let (_, absent) = said(ErrorKind::NotFound, "NoSuchBucket");
    assert!(absent.starts_with("there is no such bucket or folder: make it"), "{absent}");
    let (kind, refused) = said(ErrorKind::Unexpected, "failed to connect: ssh: connect to host h port 22: refused");
    assert_eq!(kind, NodeErrorKind::Unavailable);
    assert!(refused.starts_with("no SSH connection: see whether `ssh` reaches"), "{refused}");
    let (_, other) = said(ErrorKind::Unexpected, "odd");
    assert_eq!(other, "the request failed: see whether the server is well, and try again (it says: odd)");
}

#[test]
fn hdfs_refuses_what_it_cannot_do_as_it_refuses_what_is_not_allowed() {
    let kind = |exception: &str, words: &str| {
        let said =
            format!("WebHdfsError {{ exception: \"{exception}\", message: \"{words}\", java_class_name: \"j\" }}");
        meaning(&Error::new(ErrorKind::PermissionDenied, said)).0
    };
    for exception in ["IOException", "SafeModeException", "StandbyException"] {
        assert_eq!(kind(exception, "no SecurityException"), NodeErrorKind::Unavailable, "{exception}");
    }
    for exception in ["AccessControlException", "AuthorizationException", "SecurityException", "InvalidToken"] {
        assert_eq!(kind(exception, "no"), NodeErrorKind::Denied, "{exception}");
    }
    let beyond = "Offset=20297 out of the range [0, 20296); OPEN, path=/weft/1/15/a";
    assert_ne!(kind("IOException", beyond), NodeErrorKind::Unavailable, "a reader looks how long the file is");
}
