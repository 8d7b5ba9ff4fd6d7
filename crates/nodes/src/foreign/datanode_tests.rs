use super::*;

fn datanode(rest: &str) -> Option<DataNode> {
    let (scheme, rest) = rest.split_once("://").expect("a scheme");
    DataNode::of(&ForeignUrl::parse(scheme, rest).expect("a scheme of ours").expect("an address"))
}

fn named(host: &str) -> DataNode {
    datanode(&format!("webhdfs://nn/weft?datanode={host}")).expect("one")
}

#[test]
fn an_address_may_name_a_datanode() {
    assert_eq!(datanode("webhdfs://nn:9870/weft?user=me"), None);
    for (url, host, authority) in [
        ("webhdfs://nn/weft?datanode=dn3", "dn3", "dn3:9864"),
        ("swebhdfs://nn/weft?datanode=dn3.example", "dn3.example", "dn3.example:9865"),
        ("webhdfs://nn/weft?datanode=10.0.0.3:19864", "10.0.0.3", "10.0.0.3:19864"),
        ("webhdfs://nn/weft?datanode=[fd00::3]:9864", "fd00::3", "[fd00::3]:9864"),
    ] {
        assert_eq!(datanode(url), Some(DataNode { host: host.into(), authority: authority.into() }), "{url}");
    }
}

#[test]
fn what_a_namenode_sends_on_goes_to_this_datanode_and_nothing_else() {
    let this = named("dn3");
    let instead =
        |method: Method, uri: &str| this.instead(&method, &uri.parse().expect("an address")).map(|uri| uri.to_string());
    let rest = "/webhdfs/v1/weft/a?op=CREATE&user.name=me&namenoderpcaddress=nn:8020&createflag=&replication=1";
    let sent_on = format!("http://dn7:9864{rest}");
    assert_eq!(instead(Method::PUT, &sent_on), Some(format!("http://dn3:9864{rest}")));
    assert_eq!(instead(Method::PUT, &format!("https://dn7:9865{rest}")), Some(format!("https://dn3:9864{rest}")));
    assert_eq!(instead(Method::GET, &sent_on), None);
    for other in [
        "http://nn:9870/webhdfs/v1/weft/a?op=CREATE&overwrite=true&noredirect=true",
        "http://nn:9870/webhdfs/v1/weft/a?op=MKDIRS&namenoderpcaddress=nn",
        "http://nn:9870/webhdfs/v1/weft/a",
    ] {
        assert_eq!(instead(Method::PUT, other), None, "{other}");
    }
}

/// An answer of Hadoop 3.4, with these DataNodes for its blocks.
fn answer(blocks: &[(&str, &str)]) -> String {
    let block = |(host, name): &(&str, &str)| {
        format!(
            r#"{{"topologyPaths":["/default-rack/{name}"],"cachedHosts":[],"hosts":["{host}"],"names":["{name}"],"offset":0,"length":4360,
               "corrupt":false,"storageTypes":["DISK"]}}"#
        )
    };
    let blocks: Vec<String> = blocks.iter().map(block).collect();
    format!(r#"{{"BlockLocations":{{"BlockLocation":[{}]}}}}"#, blocks.join(","))
}

#[test]
fn blocks_are_here_if_all_are_by_host_or_address() {
    let place =
        |datanode: &DataNode, blocks: &[(&str, &str)]| datanode.place(answer(blocks).as_bytes()).expect("known");
    let elsewhere = |names: &[&str]| Place::Elsewhere(names.iter().map(ToString::to_string).collect());
    let (by_name, by_address) = (named("dn3.example"), named("10.0.0.3:19864"));
    let (here, there) = (("dn3.example", "10.0.0.3:9866"), ("dn4.example", "10.0.0.4:9866"));
    for datanode in [&by_name, &by_address, &named("DN3.Example")] {
        assert_eq!(place(datanode, &[here]), Place::Here);
        assert_eq!(place(datanode, &[here, here]), Place::Here);
        assert_eq!(place(datanode, &[there]), elsewhere(&["dn4.example"]));
        assert_eq!(place(datanode, &[here, there, there]), elsewhere(&["dn4.example"]));
        assert_eq!(place(datanode, &[]), elsewhere(&[]), "what was stored has blocks");
    }
    assert_eq!(place(&named("dn3"), &[here]), elsewhere(&["dn3.example"]), "another name, for all that is known");
    let six = named("[fd00::3]");
    assert_eq!(place(&six, &[("fd00::3", "[fd00::3]:9866")]), Place::Here);
    assert_eq!(place(&six, &[("dn", "[fd00::3]:9866")]), Place::Here);
    for no_answer in ["", "{}", "<html>", r#"{"RemoteException":{"exception":"IOException"}}"#] {
        assert_eq!(by_name.place(no_answer.as_bytes()), None, "{no_answer}");
    }
}
