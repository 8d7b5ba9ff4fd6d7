use super::*;

#[test]
fn one_silence_is_chance_and_two_are_suspicion() {
    let mut estimator = Estimator::default();
    assert_eq!(estimator.observe(Observation::Silent, 0), Health::Sound);
    assert_eq!(estimator.observe(Observation::Silent, 10), Health::Suspected { until_ms: 10 + FIRST_SUSPICION_MS });
}

#[test]
fn a_refusal_is_suspicion_at_once() {
    let mut estimator = Estimator::default();
    let health = estimator.observe(Observation::Refused, 5);
    assert!(health.is_suspected(5));
    assert!(!health.is_suspected(5 + FIRST_SUSPICION_MS));
}

#[test]
fn failures_during_a_suspicion_do_not_lengthen_it() {
    let mut estimator = Estimator::default();
    let health = estimator.observe(Observation::Refused, 0);
    for now_ms in 1..100 {
        assert_eq!(estimator.observe(Observation::Refused, now_ms), health);
    }
}

#[test]
fn suspicion_doubles_up_to_a_minute_and_the_first_success_heals() {
    let mut estimator = Estimator::default();
    let mut now_ms = 0;
    let mut lengths_ms = Vec::new();
    for _ in 0..9 {
        let Health::Suspected { until_ms } = estimator.observe(Observation::Refused, now_ms) else {
            panic!("a refusal is suspicion");
        };
        lengths_ms.push(until_ms - now_ms);
        now_ms = until_ms;
    }
    assert_eq!(lengths_ms, [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]);
    assert_eq!(estimator.observe(Observation::Answered, now_ms), Health::Sound);
    assert_eq!(estimator.observe(Observation::Silent, now_ms), Health::Sound);
}
