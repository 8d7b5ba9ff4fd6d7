use super::*;
use tokio::time::Instant;
use weft_env::Env;

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

const LIMITS: Limits = Limits { connections: 8, per_ip: 4, refused: 2 };

/// A connection from there that asks something.
fn working(limit: &Arc<PerIpLimit>, last: u8) -> Slot {
    let slot = limit.admit(ip(last)).expect("a place");
    assert!(slot.begin());
    slot
}

/// One that sends a body of which nothing has come.
fn receiving(limit: &Arc<PerIpLimit>, last: u8) -> Slot {
    let slot = working(limit, last);
    slot.wait_for_body();
    slot
}

/// The answer is made and sent.
fn send(slot: Arc<Slot>) {
    slot.answered(true);
    drop(Sending(Arc::clone(&slot)));
    slot.flushed();
}

/// Does a new connection from there get what it asks for?
fn is_served(limit: &Arc<PerIpLimit>, last: u8) -> bool {
    limit.admit(ip(last)).is_some_and(|slot| slot.begin())
}

fn has_place(slot: &Slot) -> bool {
    slot.limit.state.lock().connections.contains_key(&slot.id)
}

#[tokio::test]
async fn finding_15_idle_strangers_make_way_for_whoever_comes() {
    let limit = PerIpLimit::new(LIMITS, &Env::system().clock);
    // Two addresses take all places and say nothing.
    let idle: Vec<Slot> = (0..8).map(|number| limit.admit(ip(number % 2)).expect("a place")).collect();
    let known = Arc::new(limit.admit(ip(9)).expect("in place of the oldest"));
    idle[0].evicted().await;
    assert!(known.begin());
    send(Arc::clone(&known));
    // More of the same never take its place, ...
    let more: Vec<Slot> = (0..100).map(|number| limit.admit(ip(number % 2)).expect("a place")).collect();
    assert!(has_place(&known));
    assert_eq!(limit.state.lock().connections.len(), 8);
    // ... and others get one still.
    let _other = limit.admit(ip(10)).expect("a place");
    drop((idle, more));
    assert_eq!(limit.state.lock().connections.len(), 2);
}

#[test]
fn finding_15_a_connection_at_work_stays() {
    let limit = PerIpLimit::new(LIMITS, &Env::system().clock);
    let busy: Vec<Arc<Slot>> = (0..4).map(|_| Arc::new(working(&limit, 1))).collect();
    assert!(!is_served(&limit, 1), "one address has its share, and all of it is at work");
    let _others: Vec<Slot> = (0..4).map(|_| working(&limit, 2)).collect();
    assert!(!is_served(&limit, 3));
    // The one that ended first was used longest ago.
    send(Arc::clone(&busy[2]));
    send(Arc::clone(&busy[1]));
    let _new = limit.admit(ip(3)).expect("a place");
    assert!(!has_place(&busy[2]) && has_place(&busy[1]));
}

#[test]
fn an_answer_that_is_still_being_sent_keeps_its_connection() {
    let limit = PerIpLimit::new(Limits { connections: 1, per_ip: 1, refused: 1 }, &Env::system().clock);
    let slot = Arc::new(working(&limit, 1));
    slot.answered(true);
    assert!(!is_served(&limit, 2), "the answer's head is made");
    slot.flushed();
    assert!(!is_served(&limit, 2), "the head is sent, and the body is not");
    drop(Sending(Arc::clone(&slot)));
    assert!(!is_served(&limit, 2), "the body's last bytes are in a buffer");
    slot.flushed();
    assert!(is_served(&limit, 2));
}

#[tokio::test(start_paused = true)]
async fn two_addresses_whose_bodies_never_come_keep_nobody_out() {
    let limit = PerIpLimit::new(LIMITS, &Env::system().clock);
    let all: Vec<Slot> = (0..8).map(|number| receiving(&limit, number % 2)).collect();
    assert!(!is_served(&limit, 2) && !is_served(&limit, 1), "bodies take a moment");
    // One sends its body, a second is worked on.
    tokio::time::advance(BODY_GRACE / 2).await;
    all[0].body_came(1000);
    all[0].wait_for_body();
    all[1].body_came(0);
    tokio::time::advance(BODY_GRACE / 2).await;
    let _new = [2, 0, 1].map(|last| working(&limit, last));
    assert_eq!(all.iter().filter(|slot| has_place(slot)).count(), 5);
    assert!(has_place(&all[0]) && has_place(&all[1]), "the slowest go first");
}

#[test]
fn an_address_is_the_same_in_both_notations() {
    let limit = PerIpLimit::new(Limits { connections: 8, per_ip: 1, refused: 2 }, &Env::system().clock);
    let _busy = working(&limit, 1);
    let other = limit.admit("::ffff:10.0.0.1".parse().expect("an address")).expect("an answer");
    assert!(!other.begin());
}

#[test]
fn some_without_a_place_are_answered_and_the_others_closed() {
    let limit = PerIpLimit::new(LIMITS, &Env::system().clock);
    let _busy: Vec<Slot> = (0..4).map(|_| working(&limit, 1)).collect();
    let refused: Vec<Slot> = (0..2).map(|_| limit.admit(ip(1)).expect("an answer")).collect();
    assert!(refused.iter().all(|slot| !slot.begin()));
    assert!(limit.admit(ip(1)).is_none());
    assert!(is_served(&limit, 2), "they take no place from others");
    drop(refused);
    assert!(!limit.admit(ip(1)).expect("an answer again").begin());
}

/// How long after its eviction a connection is closed that asks something after `asks_after`.
async fn lives(asks_after: Duration) -> Duration {
    let limit = PerIpLimit::new(Limits { connections: 1, per_ip: 1, refused: 1 }, &Env::system().clock);
    let old = limit.admit(ip(1)).expect("a place");
    let new = limit.admit(ip(2)).expect("its place");
    assert!(!old.begin() && new.begin());
    let evicted = Instant::now();
    let asking = async {
        tokio::time::sleep(asks_after).await;
        assert!(!old.begin());
        old.answered(false);
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = asking => {}
        () = old.expired() => {}
    }
    evicted.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_makes_way_is_heard_for_a_while() {
    assert_eq!(lives(Duration::from_secs(60)).await, REQUEST_DEADLINE, "it asks nothing");
    for asks_after in [Duration::ZERO, REQUEST_DEADLINE - Duration::from_millis(1)] {
        assert_eq!(lives(asks_after).await, asks_after + ANSWER_DEADLINE, "the answer arrives");
    }
}
