use super::*;
use weft_format::{NodeId, VolumeId};

const NODE: NodeIdentity = NodeIdentity { volume: VolumeId(1), node: NodeId(2) };
const NOW_MS: u64 = 1_800_000_000_000;
const UPTIME_MS: u64 = 3_600_000;

fn key() -> Key {
    Key::new([7; 32])
}

fn asked() -> Asked<'static> {
    Asked {
        method: "PUT",
        target: "/shards/x?y",
        range: "bytes=0-1",
        class: "",
        body_bytes: 3,
        body: blake3::hash(b"abc"),
        node: Some(NODE),
    }
}

#[test]
fn what_is_signed_is_believed_once() {
    let mut nonces = Nonces::default();
    let proof = Proof::of(&key(), &asked(), NOW_MS, 5);
    assert_eq!(nonces.check(&key(), &asked(), Some(proof), NOW_MS, UPTIME_MS), Ok(()));
    assert_eq!(nonces.check(&key(), &asked(), Some(proof), NOW_MS + 10, UPTIME_MS), Err(AuthError::Repeated));
    assert_eq!(nonces.check(&key(), &asked(), Some(Proof::of(&key(), &asked(), NOW_MS, 6)), NOW_MS, UPTIME_MS), Ok(()));
}

#[test]
fn whatever_is_changed_is_noticed() {
    let proof = Proof::of(&key(), &asked(), NOW_MS, 5);
    let changed = [
        Asked { method: "GET", ..asked() },
        Asked { target: "/shards/x?z", ..asked() },
        // The same letters, cut elsewhere.
        Asked { target: "/shards/x?yb", range: "ytes=0-1", ..asked() },
        Asked { range: "", ..asked() },
        Asked { class: "background", ..asked() },
        Asked { body_bytes: 4, ..asked() },
        Asked { body: blake3::hash(b"abd"), ..asked() },
        Asked { node: None, ..asked() },
        Asked { node: Some(NodeIdentity { node: NodeId(3), ..NODE }), ..asked() },
    ];
    for other in &changed {
        assert_eq!(
            Nonces::default().check(&key(), other, Some(proof), NOW_MS, UPTIME_MS),
            Err(AuthError::WrongMac),
            "{}",
            other.target
        );
    }
    let check = |key: &Key, proof| Nonces::default().check(key, &asked(), proof, NOW_MS, UPTIME_MS);
    assert_eq!(check(&Key::new([8; 32]), Some(proof)), Err(AuthError::WrongMac));
    assert_eq!(check(&key(), Some(Proof { time_ms: NOW_MS + 1, ..proof })), Err(AuthError::WrongMac));
    assert_eq!(check(&key(), Some(Proof { nonce: 6, ..proof })), Err(AuthError::WrongMac));
    assert_eq!(check(&key(), None), Err(AuthError::NoProof));
}

#[test]
fn old_requests_and_those_of_the_future_are_refused_and_forgotten() {
    let mut nonces = Nonces::default();
    for (time_ms, right) in [
        (NOW_MS - SKEW_MAX_MS, Ok(())),
        (NOW_MS + SKEW_MAX_MS, Ok(())),
        (NOW_MS - SKEW_MAX_MS - 1, Err(AuthError::WrongTime)),
        (NOW_MS + SKEW_MAX_MS + 1, Err(AuthError::WrongTime)),
    ] {
        let proof = Proof::of(&key(), &asked(), time_ms, u128::from(time_ms));
        assert_eq!(nonces.check(&key(), &asked(), Some(proof), NOW_MS, UPTIME_MS), right);
    }
    assert_eq!(nonces.seen.len(), 2, "what is refused takes no place");
    let later_ms = NOW_MS + 2 * SKEW_MAX_MS + 1;
    nonces.check(&key(), &asked(), Some(Proof::of(&key(), &asked(), later_ms, 1)), later_ms, UPTIME_MS).unwrap();
    assert_eq!((nonces.seen.len(), nonces.by_time.len()), (1, 1));
    // The latest that could still pass is refused by its time now.
    let repeated = Proof::of(&key(), &asked(), NOW_MS + SKEW_MAX_MS, u128::from(NOW_MS + SKEW_MAX_MS));
    assert_eq!(nonces.check(&key(), &asked(), Some(repeated), later_ms, UPTIME_MS), Err(AuthError::WrongTime));
}

#[test]
fn nonces_are_forgotten_after_the_clock_was_set_back() {
    let mut nonces = Nonces::default();
    let proof = |time_ms, nonce| Some(Proof::of(&key(), &asked(), time_ms, nonce));
    let ahead_ms = NOW_MS + 3_600_000;
    nonces.check(&key(), &asked(), proof(ahead_ms, 1), ahead_ms, UPTIME_MS).unwrap();
    nonces.check(&key(), &asked(), proof(NOW_MS, 2), NOW_MS, UPTIME_MS).unwrap();
    let later_ms = NOW_MS + 2 * SKEW_MAX_MS + 1;
    nonces.check(&key(), &asked(), proof(later_ms, 3), later_ms, UPTIME_MS).unwrap();
    assert!(!nonces.seen.contains(&2), "it is refused by its time now");
    assert_eq!(nonces.check(&key(), &asked(), proof(ahead_ms, 1), ahead_ms, UPTIME_MS), Err(AuthError::Repeated));
    assert_eq!((nonces.seen.len(), nonces.by_time.len()), (1, 1));
}

#[test]
fn answers_belong_to_their_requests() {
    let answered = |status| Answered { status, error: "", body: blake3::hash(b"x") };
    let right = sign_answer(&key(), 5, &answered(200));
    assert_eq!(sign_answer(&key(), 5, &answered(200)), right);
    assert_ne!(sign_answer(&key(), 6, &answered(200)), right);
    assert_ne!(sign_answer(&key(), 5, &answered(206)), right);
    assert_ne!(sign_answer(&Key::new([8; 32]), 5, &answered(200)), right);
    assert_ne!(sign_answer(&key(), 5, &Answered { error: "io", ..answered(200) }), right);
    assert_ne!(sign_answer(&key(), 5, &Answered { body: blake3::hash(b"y"), ..answered(200) }), right);
}

#[test]
fn proofs_are_read_as_they_are_written_and_nothing_else_is() {
    let proof = Proof::of(&key(), &asked(), NOW_MS, u128::MAX);
    assert_eq!(Proof::decode(&proof.encode()), Some(proof));
    let text = proof.encode();
    for broken in
        ["", "weft1 ", &text[1..], &text[..text.len() - 1], &format!("{text}:"), &text.replace("weft1 1", "weft1 +1")]
    {
        assert_eq!(Proof::decode(broken), None, "{broken}");
    }
}

#[test]
fn keys_are_not_shown() {
    let key = key();
    assert_eq!(key.to_hex().parse(), Ok(key.clone()));
    assert_eq!(format!("{}\n", key.to_hex()).parse(), Ok(key.clone()));
    assert!(!format!("{key:?}").contains("07"));
    let error = "0707".parse::<Key>().unwrap_err();
    assert!(!error.to_string().contains("0707"));
}

#[test]
fn finding_33_a_restart_forgets_nonces_and_refuses_what_was_signed_before() {
    let proof = Proof::of(&key(), &asked(), NOW_MS, 5);
    let check = |nonces: &mut Nonces, now_ms, uptime_ms| nonces.check(&key(), &asked(), Some(proof), now_ms, uptime_ms);
    assert_eq!(check(&mut Nonces::default(), NOW_MS + 100, UPTIME_MS), Ok(()));
    // Another daemon in its place, which knows nothing of that, begins half a second later.
    for later_ms in [600, 1000, 30_000] {
        let refused = check(&mut Nonces::default(), NOW_MS + later_ms, later_ms - 500);
        assert_eq!(refused, Err(AuthError::BeforeStart), "{later_ms}");
    }
    // One that began before the request believes it, whatever became of the wall clock in between.
    assert_eq!(check(&mut Nonces::default(), NOW_MS, 0), Ok(()));
    assert_eq!(check(&mut Nonces::default(), NOW_MS + 500, 500), Ok(()));
}

/// FORMAT.md has what is signed.
#[test]
fn addresses_are_signed_so() {
    let signed = sign_addresses(&key(), 5, "10.0.0.2:7600,10.1.0.2:7600").to_hex();
    assert_eq!(signed.as_str(), "d8a8d0eb8026781d97423b33dbb318e56ad26191fd9a2021c4fa0e81b85f0e86");
}
