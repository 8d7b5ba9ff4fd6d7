use super::*;

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

const LIMITS: Limits = Limits { connections: 8, of_address: 4 };

#[tokio::test]
async fn finding_15_idle_strangers_make_way_for_whoever_comes() {
    let guests = Guests::new(LIMITS);
    // Two addresses take all places and say nothing.
    let idle: Vec<Guest> = (0..8).map(|number| guests.admit(address(number % 2)).expect("a place")).collect();
    let known = guests.admit(address(9)).expect("in place of the oldest");
    idle[0].is_sent_away().await;
    known.begins();
    known.ends(true);
    // More of the same never take its place, ...
    let more: Vec<Guest> = (0..100).map(|number| guests.admit(address(number % 2)).expect("a place")).collect();
    assert!(guests.state.lock().connections.contains_key(&known.id));
    assert_eq!(guests.state.lock().connections.len(), 8);
    // ... and others get one still.
    let _other = guests.admit(address(10)).expect("a place");
    drop((idle, more));
    assert_eq!(guests.state.lock().connections.len(), 2);
}

#[test]
fn finding_15_who_is_at_work_stays() {
    let guests = Guests::new(LIMITS);
    let busy: Vec<Guest> = (0..4).map(|_| guests.admit(address(1)).expect("a place")).collect();
    busy.iter().for_each(Guest::begins);
    assert!(guests.admit(address(1)).is_none(), "one address has its share, and all of it is at work");
    let others: Vec<Guest> = (0..4).map(|_| guests.admit(address(2)).expect("a place")).collect();
    others.iter().for_each(Guest::begins);
    assert!(guests.admit(address(3)).is_none());
    // The one that ended first was used longest ago.
    busy[2].ends(true);
    busy[1].ends(true);
    let _new = guests.admit(address(3)).expect("a place");
    let connections = guests.state.lock().connections.clone();
    assert!(!connections.contains_key(&busy[2].id) && connections.contains_key(&busy[1].id));
}

#[test]
fn an_address_is_the_same_in_both_notations() {
    let guests = Guests::new(Limits { connections: 8, of_address: 1 });
    let _busy = guests.admit(address(1)).expect("a place");
    _busy.begins();
    assert!(guests.admit("::ffff:10.0.0.1".parse().expect("an address")).is_none());
}
