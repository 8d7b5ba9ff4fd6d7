use super::*;

fn grant() -> Grant {
    let store = VolumeId(0x1234);
    Grant {
        store,
        may_read: true,
        may_write: false,
        may_list: true,
        until_ms: 1_763_683_200_000,
        prefix: "run 7/ä".into(),
    }
}

#[test]
fn a_grant_is_read_as_it_was_written_and_in_one_spelling_only() {
    let cluster = Key::new([7; 32]);
    let line = grant().to_line(&cluster);
    assert_eq!(Grant::of_line(&line), Ok((grant(), grant().key(&cluster))));
    let text = grant().to_string();
    assert_eq!(text.parse(), Ok(grant()));
    for wrong in [
        String::new(),
        text.replace("rl:", "lr:"),
        text.replace(":1763", ":01763"),
        text.to_uppercase(),
        format!("{text}0"),
        format!("{text}:"),
        "r:1:2:3".to_owned(),
    ] {
        assert_eq!(wrong.parse::<Grant>(), Err(ParseGrantError), "{wrong}");
    }
    assert!(Grant::of_line(&Key::new([7; 32]).to_hex()).is_err());
}

#[test]
fn each_grant_has_a_key_of_its_own_that_follows_from_the_clusters_alone() {
    let cluster = Key::new([7; 32]);
    let keys = [
        grant().key(&cluster),
        Grant { may_write: true, ..grant() }.key(&cluster),
        Grant { until_ms: 1_763_683_200_001, ..grant() }.key(&cluster),
        Grant { prefix: "run 7/".into(), ..grant() }.key(&cluster),
        grant().key(&Key::new([8; 32])),
        cluster.clone(),
    ];
    for (position, key) in keys.iter().enumerate() {
        assert!(keys[..position].iter().all(|other| other != key));
    }
    assert_eq!(grant().key(&cluster), keys[0]);
}
