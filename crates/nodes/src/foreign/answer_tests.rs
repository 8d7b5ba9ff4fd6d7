use super::*;

fn asked(range: Option<&str>, uri: &str) -> Asked {
    let mut request = Request::get(uri);
    if let Some(range) = range {
        request = request.header(RANGE, range);
    }
    Asked::of(&request.body(()).expect("a request"))
}

fn kind(asked: Asked, status: u16, headers: &[(&str, &str)]) -> Option<NodeErrorKind> {
    let mut response = Response::builder().status(status);
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    asked.refusal(&response.body(()).expect("an answer")).map(|refusal| refusal.kind)
}

#[test]
fn a_range_bounds_its_answer() {
    assert_eq!(asked(Some("bytes=100-1000099"), "http://h/").answer_bytes_max, 1_000_000);
    assert_eq!(asked(None, "http://h/?op=OPEN&offset=5&length=1000000").answer_bytes_max, 1_000_000);
    assert_eq!(asked(Some("bytes=0-"), "http://h/").answer_bytes_max, SHARD_BYTES_MAX);
    assert_eq!(asked(Some("bytes=0-0"), "http://h/").answer_bytes_max, 64 << 10, "an error fits");
    assert_eq!(asked(None, "http://h/").answer_bytes_max, LIST_BYTES_MAX);
}

#[test]
fn answers_that_are_none() {
    let whole = asked(None, "http://h/");
    let range = asked(Some("bytes=100-199"), "http://h/");
    let first = asked(Some("bytes=0-99999"), "http://h/");
    assert_eq!(kind(whole, 200, &[]), None);
    assert_eq!(kind(range, 206, &[]), None);
    assert_eq!(kind(range, 404, &[]), None, "what that means, the service's own code knows");
    assert_eq!(kind(range, 200, &[]), Some(NodeErrorKind::Corrupt), "no range");
    assert_eq!(kind(first, 200, &[("content-length", "5000")]), None, "all of it is no more than was asked for");
    assert_eq!(kind(first, 200, &[("content-length", "100001")]), Some(NodeErrorKind::Corrupt));
    assert_eq!(kind(whole, 307, &[("location", "http://h/x")]), Some(NodeErrorKind::Unavailable));
    assert_eq!(kind(Asked { is_propfind: true, ..whole }, 200, &[]), Some(NodeErrorKind::Corrupt));
    assert_eq!(kind(Asked { is_propfind: true, ..whole }, 207, &[]), None);
    assert_eq!(kind(whole, 304, &[]), None);
    for (status, means) in [
        (429, NodeErrorKind::Busy),
        (503, NodeErrorKind::Busy),
        (502, NodeErrorKind::Unavailable),
        (504, NodeErrorKind::Unavailable),
    ] {
        assert_eq!(kind(whole, status, &[]), Some(means));
    }
    assert_eq!(kind(whole, 507, &[]), Some(NodeErrorKind::Full));
    assert_eq!(kind(whole, 401, &[]), Some(NodeErrorKind::Denied));
}

#[test]
fn finding_27_hdfs_keeps_one_copy_of_what_is_made() {
    let made = |method: Method, uri: &str| with_one_copy(&method, &uri.parse().unwrap()).map(|uri| uri.to_string());
    let create =
        "http://namenode:9870/webhdfs/v1/weft/ab/x%20y?op=CREATE&overwrite=true&noredirect=true&user.name=weft";
    assert_eq!(made(Method::PUT, create), Some(format!("{create}&replication=1")));
    // Where the name node sends it, too, unless it has passed that on.
    let data = "http://datanode:9864/webhdfs/v1/weft/x?op=CREATE&namenoderpcaddress=namenode:8020&overwrite=true";
    assert_eq!(made(Method::PUT, data), Some(format!("{data}&replication=1")));
    assert_eq!(made(Method::PUT, &format!("{data}&replication=1")), None);
    for other in [
        "http://namenode:9870/webhdfs/v1/weft?op=MKDIRS",
        "http://namenode:9870/webhdfs/v1/weft?op=RENAME&destination=/op=CREATE",
        "http://server/dav/op=CREATE",
        "http://server/webhdfs/v1/x",
        "http://server/bucket/x?op=CREATE",
    ] {
        assert_eq!(made(Method::PUT, other), None, "{other}");
    }
    assert_eq!(made(Method::GET, create), None);
}
