use super::*;
use proptest::prelude::*;
use weft_cluster::gossip::{Facts, Liveness};

const KEY: &str = "000102030405060708090a0b0c0d0e0f.7.3";

fn parse(method: Method, target: &str, range: Option<&str>) -> Result<Call, String> {
    let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
    Call::parse(&method, path, query, range)
}

#[test]
fn each_call_is_understood() {
    let key: ShardKey = KEY.parse().unwrap();
    let shard = format!("/shards/{KEY}");
    assert_eq!(parse(Method::PUT, &shard, None), Ok(Call::Put(key)));
    assert_eq!(parse(Method::GET, &format!("{shard}?stat"), None), Ok(Call::Stat(key)));
    assert_eq!(parse(Method::POST, &format!("{shard}?combine"), None), Ok(Call::Combine(key)));
    assert_eq!(parse(Method::DELETE, &shard, None), Ok(Call::Remove(key)));
    assert_eq!(parse(Method::GET, &shard, None), Ok(Call::Get(key, 0..u64::MAX)));
    assert_eq!(parse(Method::GET, &shard, Some("bytes=5-9")), Ok(Call::Get(key, 5..10)));
    let listed = parse(Method::GET, &format!("/shards?after={KEY}&limit=7"), None);
    assert_eq!(listed, Ok(Call::List { after: Some(key), limit: 7 }));
    assert_eq!(parse(Method::GET, "/shards", None), Ok(Call::List { after: None, limit: PAGE_KEYS_MAX }));
    assert_eq!(parse(Method::PUT, "/identity", None), Ok(Call::Claim));
}

#[test]
fn what_is_no_call_is_refused() {
    for (method, target) in [
        (Method::POST, "/shards"),
        (Method::GET, "/"),
        (Method::GET, "/shards/"),
        (Method::GET, "/shards/../weft-node.json"),
        (Method::GET, "/shards/%2e%2e/weft-node.json"),
        (Method::PUT, "/shards/weft-node.json"),
        (Method::PUT, "/shards/000102030405060708090A0B0C0D0E0F.7.3"),
        (Method::PUT, "/shards/000102030405060708090a0b0c0d0e0f.07.3"),
        (Method::DELETE, "/shards"),
        (Method::GET, "/shards?limit=+1"),
        (Method::GET, "/shards?limit=1&limit=2"),
        (Method::GET, "/shards?prefix=x"),
        (Method::GET, "/space?x"),
        (Method::HEAD, "/space"),
        (Method::DELETE, "/shards/000102030405060708090a0b0c0d0e0f.7.3?stat"),
        (Method::DELETE, "/identity"),
    ] {
        assert!(parse(method.clone(), target, None).is_err(), "{method} {target}");
    }
    for range in [
        "",
        "bytes=",
        "bytes=-5",
        "bytes=5-4",
        "bytes=1-2,4-5",
        "bytes=+1-2",
        "bytes=0x1-2",
        "items=1-2",
        "bytes=0-18446744073709551615",
    ] {
        assert!(parse(Method::GET, &format!("/shards/{KEY}"), Some(range)).is_err(), "{range}");
    }
}

#[test]
fn kinds_have_names_and_statuses_of_their_own() {
    for (kind, name, status) in KINDS {
        assert_eq!((kind_name(kind), kind_of(name, status)), ((name, status), Some(kind)));
        assert!(!status.is_success());
    }
    assert_eq!(kind_of("not-found", StatusCode::OK), None);
    assert_eq!(kind_of("", StatusCode::NOT_FOUND), None, "a proxy's page says nothing of shards");
}

proptest! {
    #[test]
    fn ranges_are_read_as_they_are_written(start in 0u64..u64::MAX - 1, length in 1u64..) {
        let range = start..start.saturating_add(length);
        prop_assert_eq!(parse_range(&range_header(&range)), Ok(range));
    }

    #[test]
    fn nothing_makes_parsing_panic(path in ".{0,60}", query in proptest::option::of(".{0,60}"), range in proptest::option::of(".{0,40}")) {
        let _ = Call::parse(&Method::GET, &path, query.as_deref(), range.as_deref());
    }
}

#[test]
fn members_are_told_so() {
    let facts = Facts { address: "weft://h:1".into(), started_ms: 5, sequence: 2, ..Facts::default() };
    let members = vec![Heard { facts, liveness: Liveness::Suspect, phi: 1.5 }];
    let text = r#"{"members":[{"address":"weft://h:1","started_ms":5,"sequence":2,"volume":"","node":"","domain":"","total_bytes":0,"free_bytes":0,"load_bytes":0,"version":"","further":[],"liveness":"suspect","phi":1.5}]}"#;
    assert_eq!(serde_json::to_string(&MembersBody { members: members.clone() }).unwrap(), text);
    assert_eq!(serde_json::from_str::<MembersBody>(text).unwrap().members, members);
}
