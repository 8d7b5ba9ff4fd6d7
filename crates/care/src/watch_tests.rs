use super::*;
use NodeState::{Active, Draining, Lost};

const TIMEOUTS: Timeouts = Timeouts {
    look_every_ms: 1_000,
    give_up_after_ms: 10_000,
    wiped_after_ms: 2_000,
    retry_after_ms: 30_000,
    scrub_every_ms: Some(100_000),
    collect_every_ms: 50_000,
    balance_every_ms: Some(70_000),
    convert_every_ms: 20_000,
    discard_every_ms: 10_000,
};

fn id(number: u128) -> NodeId {
    NodeId(number)
}

/// All active, found so.
fn see(watch: &mut Watch, found: &[Found], now_ms: u64) -> Vec<Transition> {
    let nodes: Vec<_> = (1..).zip(found).map(|(number, found)| (id(number), Active, *found)).collect();
    watch.see(Seen { nodes: &nodes, ..Seen::default() }, now_ms)
}

/// A watch whose first look and repair are behind it.
fn watch() -> Watch {
    let mut watch = Watch::new(TIMEOUTS, Some(0), 0);
    see(&mut watch, &[Found::Answering; 3], 0);
    assert_eq!(watch.next(0), Some(Task::Repair), "what was lost while nobody watched");
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, true, 0);
    assert_eq!(watch.next(0), None);
    watch
}

#[test]
fn silence_is_suspected_at_once_and_lost_only_after_the_timeout() {
    let mut watch = watch();
    let one_silent = [Found::Silent, Found::Answering, Found::Answering];
    assert_eq!(see(&mut watch, &one_silent, 1_000), [Transition::Suspected(id(1))]);
    assert_eq!(see(&mut watch, &one_silent, 10_999), []);
    assert_eq!((watch.next(10_999), watch.given_up().len()), (None, 0));
    assert_eq!(see(&mut watch, &one_silent, 11_000), [Transition::GivenUp(id(1))]);
    assert_eq!((watch.next(11_000), watch.given_up()), (Some(Task::Repair), [id(1)].into()));
    watch.begun(Task::Repair);
    // Back in the middle: there is less to do, so what is under way is begun anew.
    assert_eq!(see(&mut watch, &[Found::Answering; 3], 12_000), [Transition::Back(id(1))]);
    assert!(watch.interrupts(Task::Repair, 12_000) && watch.given_up().is_empty());
}

#[test]
fn a_node_that_moves_and_another_rule_are_causes_of_a_repair() {
    let mut watch = watch();
    let layout = |unit: &str, rule: &PlacementRule| Layout {
        units: BTreeMap::from([(id(1), unit.to_owned()), (id(2), "b".to_owned())]),
        rule: *rule,
    };
    let (mut now_ms, rule) = (1_000, PlacementRule::default());
    let other = PlacementRule { unit_depth: 1, ..PlacementRule::default() };
    assert_ne!(rule, other);
    for seen in [layout("a", &rule), layout("b", &rule), layout("b", &other)] {
        watch.see_layout(seen.clone());
        assert_eq!(watch.next(now_ms), Some(Task::Repair));
        watch.begun(Task::Repair);
        watch.see_layout(seen);
        assert!(!watch.interrupts(Task::Repair, now_ms));
        watch.ended(Task::Repair, true, now_ms);
        assert_eq!(watch.next(now_ms), None);
        now_ms += 1_000;
    }
}

#[test]
fn finding_09_a_node_that_refuses_is_never_given_up() {
    let mut watch = watch();
    let refusing = [Found::Refusing, Found::Answering, Found::Answering];
    assert_eq!(see(&mut watch, &refusing, 1_000), [Transition::Suspected(id(1))]);
    for now_ms in [11_000, 100_000, 900_000] {
        assert_eq!(see(&mut watch, &refusing, now_ms), []);
        assert_eq!(watch.given_up(), BTreeSet::new());
    }
    assert_eq!(see(&mut watch, &[Found::Answering; 3], 901_000), [Transition::Back(id(1))]);
}

#[test]
fn finding_30_a_renewal_is_left_for_that_of_another_node_only() {
    let mut watch = watch();
    let one_wiped = [Found::Wiped, Found::Answering, Found::Answering];
    see(&mut watch, &one_wiped, 1_000);
    see(&mut watch, &one_wiped, 3_000);
    assert_eq!(watch.next(3_000), Some(Task::Renew(id(1))));
    watch.begun(Task::Renew(id(1)));
    assert!(!watch.interrupts(Task::Renew(id(1)), 3_000));
    // It is itself again and being filled, and another is deleted.
    see(&mut watch, &[Found::Answering, Found::Wiped, Found::Answering], 4_000);
    assert!(!watch.interrupts(Task::Renew(id(1)), 4_000));
    see(&mut watch, &[Found::Answering, Found::Wiped, Found::Answering], 6_000);
    assert!(watch.interrupts(Task::Renew(id(1)), 6_000));
}

#[test]
fn a_node_that_flaps_is_never_lost() {
    let mut watch = watch();
    for round in 0..100 {
        let found = if round % 3 == 0 { Found::Answering } else { Found::Silent };
        see(&mut watch, &[found, Found::Answering, Found::Answering], 1_000 + round * 3_000);
        assert_eq!(watch.given_up(), BTreeSet::new());
        assert!(!matches!(watch.next(1_000 + round * 3_000), Some(Task::Repair)));
    }
}

#[test]
fn a_wiped_node_is_renewed_and_then_rebuilt() {
    let mut watch = watch();
    let wiped = [Found::Wiped, Found::Answering, Found::Answering];
    assert_eq!(see(&mut watch, &wiped, 1_000), [Transition::Suspected(id(1))]);
    assert_eq!(watch.next(1_000), None, "somebody may be moving it");
    assert_eq!(see(&mut watch, &wiped, 3_000), [Transition::GivenUp(id(1))]);
    assert_eq!(watch.next(3_000), Some(Task::Renew(id(1))));
    watch.begun(Task::Renew(id(1)));
    watch.ended(Task::Renew(id(1)), true, 3_000);
    assert_eq!(watch.next(3_000), Some(Task::Repair));
    watch.begun(Task::Repair);
    let nodes = [(id(1), Lost, Found::Silent), (id(2), Active, Found::Answering), (id(4), Active, Found::Answering)];
    assert_eq!(watch.see(Seen { nodes: &nodes, ..Seen::default() }, 4_000), []);
    assert!(watch.interrupts(Task::Repair, 4_000), "a new node has come, another has gone");
}

#[test]
fn what_is_marked_waits_for_a_wiped_node_to_be_made_anew() {
    let mut watch = watch();
    let mut see = |found, now_ms| {
        let nodes = [(id(1), Active, found), (id(2), Active, Found::Wiped), (id(3), Active, Found::Answering)];
        watch.see(Seen { nodes: &nodes, is_marked: true, ..Seen::default() }, now_ms);
        watch.next(now_ms)
    };
    assert_eq!(see(Found::Wiped, 1_000), None, "a read came upon it");
    // Both at once, one after the other.
    assert_eq!(see(Found::Wiped, 3_000), Some(Task::Renew(id(1))));
    watch.ended(Task::Renew(id(1)), true, 3_000);
    assert_eq!(watch.next(3_000), Some(Task::Renew(id(2))));
    watch.ended(Task::Renew(id(2)), false, 3_000);
    assert_eq!(watch.next(3_000), Some(Task::Repair), "also where that failed");
}

#[test]
fn marks_are_looked_at_and_failures_tried_again_later_each_time() {
    let mut watch = watch();
    let nodes = [1, 2, 3].map(|number| (id(number), Active, Found::Answering));
    watch.see(Seen { nodes: &nodes, is_marked: true, ..Seen::default() }, 1_000);
    let mut now_ms = 1_000;
    let mut waits = Vec::new();
    for _ in 0..9 {
        assert_eq!(watch.next(now_ms), Some(Task::Repair));
        watch.begun(Task::Repair);
        assert!(!watch.interrupts(Task::Repair, now_ms));
        watch.ended(Task::Repair, false, now_ms);
        let before_ms = now_ms;
        while watch.next(now_ms) != Some(Task::Repair) {
            now_ms += 1_000;
        }
        waits.push((now_ms - before_ms) / 1_000);
    }
    assert_eq!(waits, [30, 60, 120, 240, 480, 960, 1_920, 3_600, 3_600]);
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, true, now_ms);
    watch.see(Seen { nodes: &nodes, ..Seen::default() }, now_ms);
    assert!(!matches!(watch.next(now_ms), Some(Task::Repair)));
}

#[test]
fn other_tasks_have_their_turn_between_two_repairs_that_marks_caused() {
    let mut watch = watch();
    let nodes = [1, 2, 3].map(|number| (id(number), Active, Found::Answering));
    // Each look finds another mark.
    let see = |watch: &mut Watch, is_conversion_asked, now_ms| {
        watch.see(Seen { nodes: &nodes, is_marked: true, is_conversion_asked, ..Seen::default() }, now_ms);
        watch.next(now_ms)
    };
    assert_eq!(see(&mut watch, false, 1_000), Some(Task::Repair));
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, true, 2_000);
    assert_eq!(see(&mut watch, false, 2_000), Some(Task::Repair), "nothing else is due");
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, true, 42_000);
    // As long as the repair took.
    for now_ms in [42_000, 81_999] {
        assert_eq!(see(&mut watch, true, now_ms), Some(Task::Convert));
        assert!(!watch.interrupts(Task::Convert, now_ms));
    }
    assert_eq!(see(&mut watch, true, 82_000), Some(Task::Repair));
    assert!(watch.interrupts(Task::Convert, 82_000));
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, true, 83_000);
    assert_eq!(see(&mut watch, true, 112_999), Some(Task::Convert), "a short one leaves some time, too");
    // What is lost with a node waits for nothing.
    let lost = [(id(1), Lost, Found::Silent), nodes[1], nodes[2]];
    watch.see(Seen { nodes: &lost, is_conversion_asked: true, ..Seen::default() }, 112_999);
    assert_eq!(watch.next(112_999), Some(Task::Repair));
}

#[test]
fn what_failed_is_tried_again_as_soon_as_a_node_is_back() {
    let mut watch = watch();
    let see = |watch: &mut Watch, found, now_ms| {
        let nodes = [(id(1), Active, found), (id(2), Active, Found::Answering)];
        watch.see(Seen { nodes: &nodes, is_marked: true, ..Seen::default() }, now_ms);
        watch.next(now_ms)
    };
    assert_eq!(see(&mut watch, Found::Silent, 1_000), Some(Task::Repair));
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, false, 2_000);
    assert_eq!(see(&mut watch, Found::Answering, 3_000), None, "it was away for a moment only");
    assert_eq!(see(&mut watch, Found::Silent, 4_000), None);
    assert_eq!(see(&mut watch, Found::Silent, 8_999), None);
    assert_eq!(see(&mut watch, Found::Answering, 9_000), Some(Task::Repair));
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, false, 9_000);
    assert_ne!(see(&mut watch, Found::Answering, 68_999), Some(Task::Repair), "it was not that: later each time");
    assert_eq!(see(&mut watch, Found::Answering, 69_000), Some(Task::Repair));
}

#[test]
fn a_collection_looks_twice() {
    let timeouts = Timeouts { collect_every_ms: 86_400_000, balance_every_ms: None, scrub_every_ms: None, ..TIMEOUTS };
    let mut watch = Watch::new(timeouts, None, 0);
    for at_ms in [86_400_000, 87_000_000, 173_400_000, 174_000_000] {
        assert_eq!(watch.next(at_ms - 1), None);
        assert_eq!(watch.next(at_ms), Some(Task::Collect));
        watch.ended(Task::Collect, true, at_ms);
    }
}

#[test]
fn a_node_to_be_emptied_wants_a_repair_and_a_scrub_waits_for_it() {
    let mut watch = watch();
    see(&mut watch, &[Found::Answering; 3], 100_000);
    assert_eq!(watch.next(100_000), Some(Task::Collect));
    watch.ended(Task::Collect, true, 100_000);
    assert_eq!(watch.next(100_000), Some(Task::Scrub));
    watch.begun(Task::Scrub);
    assert!(!watch.interrupts(Task::Scrub, 100_000));
    let nodes = [(id(1), Draining, Found::Answering), (id(2), Active, Found::Answering)];
    watch.see(Seen { nodes: &nodes, ..Seen::default() }, 100_000);
    assert!(watch.interrupts(Task::Scrub, 100_000));
    assert_eq!(watch.next(100_000), Some(Task::Repair));
}

#[test]
fn a_conversion_comes_when_it_is_asked_for_and_from_time_to_time_where_files_age() {
    let mut watch = watch();
    let nodes = [1, 2, 3].map(|number| (id(number), Active, Found::Answering));
    let quiet = Seen { nodes: &nodes, ..Seen::default() };
    let asked = Seen { is_conversion_asked: true, ..quiet };
    let see = |watch: &mut Watch, seen, now_ms| {
        watch.see(seen, now_ms);
        watch.next(now_ms)
    };
    assert_eq!(see(&mut watch, quiet, 1_000), None);
    assert_eq!(see(&mut watch, asked, 2_000), Some(Task::Convert));
    watch.begun(Task::Convert);
    assert!(!watch.interrupts(Task::Convert, 2_000));
    watch.see(Seen { is_marked: true, ..asked }, 3_000);
    assert!(watch.interrupts(Task::Convert, 3_000), "what is lost goes first");
    // It could not do all of it.
    watch.ended(Task::Convert, false, 3_000);
    assert_eq!(see(&mut watch, asked, 32_999), None);
    assert_eq!(see(&mut watch, quiet, 33_000), Some(Task::Convert));
    watch.ended(Task::Convert, true, 33_000);
    assert_eq!(see(&mut watch, quiet, 49_000), None);
    let aging = Seen { has_age_rules: true, ..quiet };
    assert_eq!(see(&mut watch, aging, 49_000), None);
    assert_eq!(see(&mut watch, aging, 53_000), Some(Task::Convert));
}

#[test]
fn previous_generations_are_looked_at_while_there_are_any() {
    let mut watch = watch();
    let nodes = [1, 2, 3].map(|number| (id(number), Active, Found::Answering));
    let quiet = Seen { nodes: &nodes, ..Seen::default() };
    watch.see(Seen { has_retained: true, is_conversion_asked: true, ..quiet }, 1_000);
    assert_eq!(watch.next(1_000), Some(Task::Discard), "it makes room for what comes next");
    watch.ended(Task::Discard, true, 1_000);
    assert_eq!(watch.next(1_000), Some(Task::Convert));
    watch.ended(Task::Convert, true, 1_000);
    watch.see(Seen { has_retained: true, ..quiet }, 11_000);
    assert_eq!(watch.next(10_999), None);
    assert_eq!(watch.next(11_000), Some(Task::Discard));
    watch.see(quiet, 11_000);
    assert_eq!(watch.next(11_000), None);
}

#[test]
fn a_scrub_comes_when_the_last_is_long_ago() {
    let never = Watch::new(TIMEOUTS, None, 0);
    assert_eq!(never.scrub_ms, Some(100_000), "a new volume has been scrubbed by its writing");
    assert_eq!(Watch::new(TIMEOUTS, Some(40_000), 0).scrub_ms, Some(60_000));
    assert_eq!(Watch::new(TIMEOUTS, Some(400_000), 0).scrub_ms, Some(0));
    assert_eq!(Watch::new(Timeouts { scrub_every_ms: None, ..TIMEOUTS }, None, 0).scrub_ms, None);
}

fn shares(weights: &[u64]) -> Shares {
    (1..).zip(weights).map(|(number, weight)| (id(number), (*weight, number.to_string()))).collect()
}

#[test]
fn a_new_node_or_another_weight_wants_a_balance_after_repair_and_once_all_is_sound() {
    let mut watch = watch();
    watch.see_shares(shares(&[4, 4, 4]));
    assert_eq!(watch.next(1_000), Some(Task::Balance), "what came while nobody watched");
    watch.begun(Task::Balance);
    assert!(!watch.interrupts(Task::Balance, 1_000));
    watch.ended(Task::Balance, true, 2_000);
    assert_eq!(watch.next(2_000), None);
    watch.see_shares(shares(&[4, 4, 4, 8]));
    see(&mut watch, &[Found::Answering; 4], 3_000);
    assert_eq!(watch.next(3_000), Some(Task::Repair));
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, true, 3_000);
    see(&mut watch, &[Found::Silent, Found::Answering, Found::Answering, Found::Answering], 4_000);
    assert_eq!(watch.next(4_000), None, "one may be lost at any moment");
    see(&mut watch, &[Found::Answering; 4], 5_000);
    assert_eq!(watch.next(5_000), Some(Task::Balance));
    assert!(watch.interrupts(Task::Scrub, 5_000));
    watch.begun(Task::Balance);
    watch.see_shares(shares(&[4, 4, 4, 9]));
    assert!(watch.interrupts(Task::Balance, 5_000), "it is counted anew");
    assert_eq!(watch.next(5_000), Some(Task::Balance));
    watch.begun(Task::Balance);
    // Marked meanwhile: left for the repair, and gone on with after it.
    let nodes = [1, 2, 3, 4].map(|number| (id(number), Active, Found::Answering));
    watch.see(Seen { nodes: &nodes, is_marked: true, ..Seen::default() }, 6_000);
    assert!(watch.interrupts(Task::Balance, 6_000));
    watch.begun(Task::Repair);
    watch.ended(Task::Repair, true, 7_000);
    watch.see(Seen { nodes: &nodes, ..Seen::default() }, 7_000);
    assert_eq!(watch.next(7_000), Some(Task::Balance));
    watch.begun(Task::Balance);
    watch.ended(Task::Balance, false, 8_000);
    watch.ended(Task::Collect, true, 60_000);
    watch.ended(Task::Scrub, true, 60_000);
    assert_eq!(watch.next(100_000), None, "cancelled, or in vain: not at once again");
    watch.ended(Task::Collect, true, 3_700_000);
    assert_eq!(watch.next(3_700_000), Some(Task::Balance));
    watch.begun(Task::Balance);
    watch.ended(Task::Balance, true, 3_700_000);
    watch.ended(Task::Scrub, true, 3_700_000);
    assert_eq!(watch.next(3_740_000), None);
    watch.ended(Task::Collect, true, 3_770_000);
    assert_eq!(watch.next(3_770_000), Some(Task::Balance), "writing and deleting shift it too");
    let never = Timeouts { balance_every_ms: None, ..TIMEOUTS };
    let mut watch = Watch::new(never, None, 0);
    watch.see_shares(shares(&[1, 2]));
    assert_eq!(watch.next(0), None);
}
