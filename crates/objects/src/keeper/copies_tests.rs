use super::*;

#[test]
fn what_is_read_evenly_shows_as_its_rate_and_what_is_not_read_is_forgotten() {
    let (mut heat, mut now) = (Heat::default(), std::time::Instant::now());
    let version = (7, Stamp(1));
    heat.note(Reads::new(), now);
    for _ in 0..40 {
        now += Duration::from_secs(15);
        heat.note(Reads::from([(version, 1000)]), now);
    }
    // Four times a minute a thousand bytes; what came last counts whole.
    let rate = heat.bytes_per_minute(7, Stamp(1));
    assert!((4000.0..4500.0).contains(&rate), "{rate}");
    assert_eq!(heat.bytes_per_minute(7, Stamp(2)), 0.0);
    now += Duration::from_secs(3600);
    heat.note(Reads::new(), now);
    assert!(heat.bytes.is_empty());
}
