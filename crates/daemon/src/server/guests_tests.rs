use super::*;

fn address(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

const LIMITS: Limits = Limits { connections: 8, of_address: 4, turned_away: 2 };

/// A connection from there that asks something.
fn at_work(guests: &Arc<Guests>, last: u8) -> Guest {
    let guest = guests.admit(address(last)).expect("a place");
    assert!(guest.begins());
    guest
}

/// Does one from there get what it asks for?
fn is_served(guests: &Arc<Guests>, last: u8) -> bool {
    guests.admit(address(last)).is_some_and(|guest| guest.begins())
}

#[tokio::test]
async fn finding_15_idle_strangers_make_way_for_whoever_comes() {
    let guests = Guests::new(LIMITS);
    // Two addresses take all places and say nothing.
    let idle: Vec<Guest> = (0..8).map(|number| guests.admit(address(number % 2)).expect("a place")).collect();
    let known = guests.admit(address(9)).expect("in place of the oldest");
    idle[0].is_sent_away().await;
    assert!(known.begins());
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
    let busy: Vec<Guest> = (0..4).map(|_| at_work(&guests, 1)).collect();
    assert!(!is_served(&guests, 1), "one address has its share, and all of it is at work");
    let _others: Vec<Guest> = (0..4).map(|_| at_work(&guests, 2)).collect();
    assert!(!is_served(&guests, 3));
    // The one that ended first was used longest ago.
    busy[2].ends(true);
    busy[1].ends(true);
    let _new = guests.admit(address(3)).expect("a place");
    let connections = guests.state.lock().connections.clone();
    assert!(!connections.contains_key(&busy[2].id) && connections.contains_key(&busy[1].id));
}

#[test]
fn an_address_is_the_same_in_both_notations() {
    let guests = Guests::new(Limits { connections: 8, of_address: 1, turned_away: 2 });
    let _busy = at_work(&guests, 1);
    let other = guests.admit("::ffff:10.0.0.1".parse().expect("an address")).expect("an answer");
    assert!(!other.begins());
}

#[test]
fn some_without_a_place_are_answered_and_the_others_closed() {
    let guests = Guests::new(LIMITS);
    let _busy: Vec<Guest> = (0..4).map(|_| at_work(&guests, 1)).collect();
    let turned_away: Vec<Guest> = (0..2).map(|_| guests.admit(address(1)).expect("an answer")).collect();
    assert!(turned_away.iter().all(|guest| !guest.begins()));
    assert!(guests.admit(address(1)).is_none());
    assert!(is_served(&guests, 2), "they take no place from others");
    drop(turned_away);
    assert!(!guests.admit(address(1)).expect("an answer again").begins());
}

/// Its request may be on its way.
#[tokio::test(start_paused = true)]
async fn one_that_makes_way_is_heard_for_a_while() {
    let guests = Guests::new(Limits { connections: 1, of_address: 1, turned_away: 1 });
    let old = guests.admit(address(1)).expect("a place");
    let new = guests.admit(address(2)).expect("its place");
    assert!(!old.begins() && new.begins());
    let waited = tokio::time::Instant::now();
    old.is_sent_away().await;
    assert_eq!(waited.elapsed(), TURNED_AWAY_DEADLINE);
}
