use super::*;

fn parsed(place: &str) -> Result<Address, &'static str> {
    parse(place.as_ref())
}

#[test]
fn an_address_names_members_and_a_store() {
    let address = parsed("//root@a.example,b.example:1,[::2]:3/photos").unwrap();
    assert_eq!(address.members, ["https://a.example:2379", "https://b.example:1", "https://[::2]:3"]);
    assert_eq!((address.user.as_deref(), &address.prefix[..]), (Some("root"), &b"photos/"[..]));
    assert_eq!(address.shown, "etcd://root@a.example,b.example:1,[::2]:3/photos");
}

#[test]
fn only_this_machine_is_trusted_without_tls() {
    for (place, has_tls) in [
        ("//127.0.0.1:1,[::1]:2,localhost", false),
        ("//127.0.0.1,10.0.0.1", true),
        ("//10.0.0.1?tls=off", false),
        ("//127.0.0.1/weft?tls=on", true),
    ] {
        assert_eq!(parsed(place).unwrap().has_tls, has_tls, "{place}");
    }
}

#[test]
fn what_is_no_address_is_told() {
    for place in [
        "",
        "h:1",
        "//",
        "//,",
        "//h:99999",
        "//h:",
        "//[::1",
        "//[h]:1",
        "//h/",
        "//h/a/b",
        "//h/ä",
        "//h?tls=maybe",
        "//u@",
        "//h h",
    ] {
        assert!(parsed(place).is_err(), "{place}");
    }
    assert!(parsed("//u:secret@h").unwrap_err().contains("ETCDCTL_PASSWORD"));
}
