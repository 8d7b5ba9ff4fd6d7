use super::*;
use crate::Trust;
use weft_env::Env;
use weft_nodes::Kinds;

fn parse(text: &str) -> Result<NodeUrl, UrlError> {
    Kinds::new(vec![Arc::new(Daemons::new(&Env::system()))]).parse(text)
}

#[test]
fn daemons_by_url() {
    let daemon = |address: &str| Ok(format!("weft://{address}"));
    assert_eq!(parse("weft://nas:7601").map(|url| url.to_string()), daemon("nas:7601"));
    assert_eq!(parse("weft://nas/").map(|url| url.to_string()), daemon("nas:7600"));
    assert_eq!(parse("weft://[::1]:80").map(|url| url.to_string()), daemon("[::1]:80"));
    let url = parse("weft://10.0.0.7").unwrap();
    assert_eq!((url.to_string(), url.path()), ("weft://10.0.0.7:7600".to_owned(), None));
    for none in [
        "weft://",
        "weft:///x",
        "weft://host:",
        "weft://host:99999",
        "weft://user@host",
        "weft://host/path",
        "weft://a b",
        "weft://a[",
        "weft://[",
        "weft://[]",
        "weft://nas/sha256:00",
        "weft+tls://",
        "weft+tls://nas/sha256:00",
        "weft+tls://nas/ca:relative",
        "weft+tls://nas/ca:/broken%2",
        "weft+tls://nas/path",
    ] {
        assert!(matches!(parse(none), Err(UrlError::Unfit(_))), "{none}");
    }
}

#[test]
fn a_daemons_address_says_what_is_trusted() {
    let fingerprint = "0123456789abcdef".repeat(4);
    for text in [
        "weft+tls://nas:7600".to_owned(),
        format!("weft+tls://nas:7600/sha256:{fingerprint}"),
        "weft+tls://nas:7600/ca:/etc/ssl/my%20ca.pem".to_owned(),
    ] {
        let url = parse(&text).unwrap();
        assert_eq!(url.to_string(), text);
        let daemon: DaemonUrl = text.parse().unwrap();
        assert!(daemon.tls.is_some() && !matches!(daemon.tls, Some(Trust::Authority(ref path)) if path.is_relative()));
        let former = parse(&url.former("x")).unwrap();
        assert_eq!(former, url, "a mark leads to the same place");
    }
}

#[test]
fn a_rumour_names_no_file_of_this_machine() {
    for text in ["weft://nas:7600", "weft+tls://nas:7600"] {
        assert_eq!(DaemonUrl::of_rumour(text).expect("an address").to_string(), text);
    }
    for text in ["weft+tls://nas:7600/ca:/dev/zero", "nas", ""] {
        assert!(DaemonUrl::of_rumour(text).is_none(), "{text}");
    }
}
