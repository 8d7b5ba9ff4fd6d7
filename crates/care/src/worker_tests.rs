use super::*;
use weft_env::{Env, Runtime};

/// A repair that has ended so, and what the watch makes of it.
async fn after_repair(is_interrupted: bool, outcome: Result<Done, CareError>) -> (Watch, CareRecord) {
    let mut watch = Watch::new(Timeouts::default(), Some(0), 0);
    let nodes = [(NodeId(1), NodeState::Active, Found::Answering)];
    watch.see(Seen { nodes: &nodes, ..Seen::default() }, 0);
    watch.begun(Task::Repair);
    let (job, run) =
        (Arc::new(Job::new(&Env::system().clock)), TaskSet::new(&Runtime::from(tokio::runtime::Handle::current())));
    let now = UnderWay { task: Task::Repair, job, run, started_ms: 0, is_interrupted, is_given_up: false };
    let mut record = CareRecord::new("test");
    take_in((now, outcome), &mut watch, &mut record, 0, 0);
    (watch, record)
}

#[tokio::test]
async fn a_repair_that_lost_its_lease_is_begun_again() {
    let (watch, record) = after_repair(false, Err(CatalogueError::Fenced.into())).await;
    assert_eq!(watch.next(0), None, "not at once: somebody else is at it");
    assert_eq!(watch.next(3_600_000), Some(Task::Repair));
    assert!(!record.history[0].is_well);
}

#[tokio::test]
async fn one_that_was_left_for_something_more_urgent_says_nothing_and_is_begun_again() {
    let (watch, record) = after_repair(true, Err(CatalogueError::Fenced.into())).await;
    // Also where what was more urgent is undone, so that all is as it was when it began.
    assert_eq!((watch.next(0), record.history.len()), (Some(Task::Repair), 0));
    let (watch, record) = after_repair(false, Ok(Done { is_well: true, what: "done".into() })).await;
    assert_eq!((watch.next(3_599_999), record.history.len()), (None, 1));
}
