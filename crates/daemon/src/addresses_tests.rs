use super::*;
use weft_cluster::gossip::Facts;

fn told(node: &str, started_ms: u64) -> Heard {
    let (address, volume, node) = (format!("weft://host{started_ms}:7600"), "v".to_owned(), node.to_owned());
    let facts = Facts { address, volume, node, started_ms, ..Facts::default() };
    Heard { facts, liveness: Liveness::Alive, phi: 0.0 }
}

#[test]
fn finding_15_addresses_are_kept_of_the_volumes_nodes_only() {
    let (mut addresses, wanted) = (Addresses::default(), BTreeSet::from(["a".to_owned(), "b".to_owned()]));
    let lies = (0..1000).map(|number| told(&format!("made up {number}"), 5));
    assert!(!addresses.merge("v", &wanted, lies.chain([told("", 5)]).collect()));
    assert!(addresses.0.is_empty());
    assert!(addresses.merge("v", &wanted, vec![told("a", 7), told("a", 6)]));
    assert!(!addresses.merge("w", &wanted, vec![told("b", 9)]), "another volume's");
    assert_eq!(addresses.0.keys().collect::<Vec<_>>(), ["a"]);
    assert_eq!(addresses.0["a"].authority, "host7:7600");
}

#[test]
fn where_a_daemon_is_alive_counts_more_than_where_it_was_started_later() {
    let (mut addresses, wanted) = (Addresses::default(), BTreeSet::from(["a".to_owned()]));
    let [alive, suspect, dead] = [Liveness::Alive, Liveness::Suspect, Liveness::Dead]
        .map(|liveness| move |started_ms| Heard { liveness, ..told("a", started_ms) });
    let mut hear = |told: Vec<Heard>| {
        let is_new = addresses.merge("v", &wanted, told);
        (is_new, addresses.0["a"].authority.clone())
    };
    let at = |is_new, host: &str| (is_new, format!("{host}:7600"));
    assert_eq!(hear(vec![alive(9)]), at(true, "host9"));
    assert_eq!(hear(vec![alive(9), alive(1)]), at(false, "host9"), "a copy of its disk, or nobody has noticed yet");
    assert_eq!(hear(vec![suspect(9), alive(1)]), at(false, "host9"));
    // Its clock was behind when it began.
    assert_eq!(hear(vec![dead(9), alive(1)]), at(true, "host1"));
    assert_eq!(hear(vec![alive(1), dead(9)]), at(false, "host1"));
    // These have not heard of it.
    assert_eq!(hear(vec![dead(9)]), at(false, "host1"));
    assert_eq!(hear(vec![suspect(9)]), at(false, "host1"));
    assert_eq!(hear(vec![alive(10)]), at(true, "host10"));
    // A copy was begun by mistake, and ended.
    assert_eq!(hear(vec![alive(11), alive(10)]), at(true, "host11"));
    assert_eq!(hear(vec![alive(10), dead(11)]), at(true, "host10"));
    // After a day the members have forgotten where it was.
    assert_eq!(hear(vec![alive(2), alive(3)]), at(true, "host3"));
    assert_eq!(hear(vec![alive(2), alive(3)]), at(false, "host3"));
}

#[test]
fn what_names_no_daemon_is_left_out_of_a_file_of_addresses() {
    let file = br#"{"a":{"authority":"host:7600","started_ms":1},"b":{"authority":"host","started_ms":1},
        "c":{"authority":"user@host:1","started_ms":1},"d":{"authority":"h:1\r\nx: y","started_ms":1},
        "e":{"authority":"","started_ms":1},"f":{"authority":"[::1]:7601","started_ms":2}}"#;
    let addresses = Addresses::decode(file).unwrap();
    assert_eq!(addresses.0.keys().collect::<Vec<_>>(), ["a", "f"]);
    assert_eq!(Addresses::decode(&addresses.encode()), Some(addresses));
    assert_eq!(Addresses::decode(b"[]"), None);
}

#[test]
fn links_are_kept_and_those_that_are_told_join_them() {
    let (mut addresses, wanted) = (Addresses::default(), BTreeSet::from(["a".to_owned()]));
    let link = |address: &str, state| LinkReport {
        address: address.to_owned(),
        state,
        since_ms: 7,
        bytes_per_second: Some(1000),
        latency_us: None,
        why: None,
    };
    let links = [link("h:1", LinkState::Up), link("h:2", LinkState::Down)];
    assert!(addresses.keep("a", "h:1", &links));
    assert!(!addresses.keep("a", "h:1", &links), "nothing has changed");
    assert!(addresses.keep("a", "h:1", &links[..1]) && addresses.keep("a", "h:1", &links));
    let read = Addresses::decode(&addresses.encode()).unwrap();
    assert_eq!((read.links("a"), &read), (links.to_vec(), &addresses));
    let mut moved = told("a", 9);
    moved.facts.further = vec!["h:2".to_owned(), "h:3".to_owned(), "no daemon".to_owned()];
    assert!(addresses.merge("v", &wanted, vec![moved]));
    let states: Vec<_> = addresses.links("a").into_iter().map(|link| (link.address, link.bytes_per_second)).collect();
    assert_eq!(states, [("h:2".to_owned(), Some(1000)), ("h:3".to_owned(), None)]);
    let many = (0..1000).map(|port| format!(r#"{{"authority":"h:{port}","is_up":true,"since_ms":1}}"#));
    let many = many.collect::<Vec<_>>().join(",");
    let file = format!(r#"{{"a":{{"authority":"h:1","started_ms":1,"links":[{many}]}}}}"#);
    assert_eq!(Addresses::decode(file.as_bytes()).unwrap().links("a").len(), LINKS_MAX);
}
