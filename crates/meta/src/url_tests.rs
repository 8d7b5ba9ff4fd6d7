use super::*;

fn parse(text: &str) -> Result<MetaUrl, MetaUrlError> {
    MetaUrl::parse(OsStr::new(text))
}

#[test]
fn files_are_written_with_and_without_the_engine() {
    for (text, shown) in [
        ("meta.db", "meta.db"),
        ("/a/b c", "/a/b c"),
        ("sqlite:meta.db", "meta.db"),
        ("sqlite:/a/b", "/a/b"),
        ("./a:b", "./a:b"),
        ("/x/a:b", "/x/a:b"),
        ("sqlite:a:b", "./a:b"),
        ("1:b", "1:b"),
        (":b", ":b"),
    ] {
        let url = parse(text).expect(text);
        assert_eq!(url.to_string(), shown, "{text}");
        // A path is the same file with and without a dot before it.
        assert_eq!(parse(shown).expect(shown).to_string(), shown);
    }
    assert_eq!(parse("sqlite:meta.db"), parse("meta.db"));
    assert_eq!(MetaUrl::from(Path::new("redis:x")).to_string(), "./redis:x");
}

#[test]
fn bytes_that_are_no_text_stay_as_they_are() {
    let name = OsStr::from_bytes(b"/a/\xff:b");
    assert_eq!(MetaUrl::parse(name).expect("a file").to_os_string(), name);
}

#[test]
fn other_engines_are_refused_in_one_sentence_that_says_what_there_is() {
    for (text, scheme) in [("redis://h/db", "redis"), ("rediss://h/db", "rediss"), ("a:b", "a"), ("SQLITE:x", "SQLITE")]
    {
        let error = parse(text).unwrap_err();
        assert_eq!(error, MetaUrlError::UnknownEngine { scheme: scheme.into(), text: text.into() });
        let sentence = error.to_string();
        assert!(sentence.contains("it has `sqlite`") && sentence.contains(&format!("`./{text}`")), "{sentence}");
    }
    for text in ["", "sqlite:", "sqlite://h/db", "sqlite:///a/b", "postgres:", "postgres:h/db", "etcd:", "etcd:h/name"]
    {
        assert!(matches!(parse(text), Err(MetaUrlError::Place { .. })), "{text}");
    }
}

#[test]
fn a_password_in_an_address_is_refused_and_not_shown() {
    for text in [
        "postgres://u:s3cret@h/d",
        "postgres://u:s3:cret@h:1/d?schema=x&password=s3cret",
        "postgres://h/d?password=s3cret",
    ] {
        let sentence = parse(text).unwrap_err().to_string();
        assert!(
            !sentence.contains("cret") && sentence.contains("***") && sentence.contains("PGPASSWORD"),
            "{sentence}"
        );
    }
    assert_eq!(parse("postgres://u@h/d?schema=x").unwrap().to_string(), "postgres://u@h/d?schema=x");
}

#[test]
fn an_absolute_address_is_one_for_all_names_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("meta.db"), folder.path().join("link"));
    std::fs::write(&file, "").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert_eq!(MetaUrl::from(link).absolute(), MetaUrl::from(file.canonicalize().unwrap()));
}
