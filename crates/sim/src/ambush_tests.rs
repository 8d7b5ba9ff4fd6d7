use super::{Ambush, ProcessId, Step, Stroke};

#[test]
fn it_strikes_its_process_at_its_step_only() {
    let process = ProcessId(3);
    let mut ambush =
        Ambush { processes: vec![process], step: Step::Put, is_behind: true, passed_by: 1, stroke: Stroke::Kill };
    for (who, step, is_behind) in [(4, Step::Put, true), (3, Step::Remove, true), (3, Step::Put, false)] {
        assert!(!ambush.meets(ProcessId(who), &[step], is_behind));
    }
    assert!(!ambush.meets(process, &[Step::Put], true), "the first is let pass");
    assert!(ambush.meets(process, &[Step::Put], true));
}

#[test]
fn a_step_may_be_of_several_kinds() {
    let process = ProcessId(3);
    let mut ambush =
        Ambush { processes: vec![process], step: Step::Commit, is_behind: false, passed_by: 0, stroke: Stroke::Kill };
    assert!(ambush.meets(process, &[Step::Commit, Step::SegmentCommit], false));
    let mut ambush = Ambush { step: Step::SegmentCommit, ..ambush };
    assert!(!ambush.meets(process, &[Step::Commit], false));
}
