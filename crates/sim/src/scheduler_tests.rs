//! Fibres take turns, time moves when nothing else does, and one seed gives one history.

use super::{Ended, ProcessId, Scheduler, env_of};
use std::sync::Arc;
use std::time::Duration;
use weft_env::TaskSet;
use weft_env::sync::{Condvar, Mutex};

const PROCESS: ProcessId = ProcessId(1);

/// Threads with a lock, a condition variable and sleeps, and tasks.
fn history(seed: u64) -> (Vec<u32>, String, Duration) {
    let scheduler = Scheduler::begin(seed, false);
    scheduler.add_process(PROCESS);
    let (env, runtime) = env_of(PROCESS);
    let order = Arc::new((Mutex::new(Vec::new()), Condvar::new()));
    for number in 0..4 {
        let (order, clock, scheduler_order) = (order.clone(), env.clock.clone(), number);
        let body = move || {
            let mut held = order.0.lock();
            clock.block(Duration::from_millis(10));
            held.push(scheduler_order);
            order.1.notify_all();
        };
        env.spawner.thread("worker", Box::new(body)).expect("a fibre");
    }
    let (waits, clock) = (order.clone(), env.clock.clone());
    let main = move || {
        let mut held = waits.0.lock();
        while held.len() < 4 {
            waits.1.wait(&mut held);
        }
        drop(held);
        let mut set = TaskSet::new(&runtime);
        for number in 4..6 {
            let clock = clock.clone();
            set.spawn(async move {
                clock.sleep(Duration::from_secs(5)).await;
                number
            });
        }
        let late = runtime.block_on(set.join_all());
        waits.0.lock().extend(late);
    };
    env.spawner.thread("main", Box::new(main)).expect("a fibre");
    let done = order.clone();
    let ended = scheduler.run(100_000, || done.0.try_lock().is_some_and(|done| done.len() == 6));
    assert_eq!((ended, scheduler.take_complaints()), (Ended::Done, Vec::new()));
    let (now, order) = (scheduler.now(), order.0.lock().clone());
    scheduler.tell(|| format!("{order:?}"));
    let (_, digest) = scheduler.told();
    scheduler.end();
    (order, digest, now)
}

#[test]
fn one_seed_gives_one_history() {
    assert_eq!(history(1), history(1));
    let orders: std::collections::BTreeSet<Vec<u32>> = (0..50).map(|seed| history(seed).0).collect();
    assert!(orders.len() > 10, "seeds differ: {}", orders.len());
}

#[test]
fn time_moves_by_what_is_waited_for() {
    let (_, _, now) = history(7);
    assert!(now >= Duration::from_millis(5040) && now < Duration::from_millis(5060), "{now:?}");
}

#[test]
fn a_lock_that_is_never_given_back_is_found() {
    let scheduler = Scheduler::begin(1, false);
    scheduler.add_process(PROCESS);
    let lock = Arc::new(Mutex::new(()));
    for _ in 0..2 {
        let lock = lock.clone();
        scheduler.start(PROCESS, "holder", move || {
            let _held = lock.lock();
            weft_env::turns::current().expect("turns").pass(weft_env::turns::Until::Flag(Arc::default()));
        });
    }
    assert_eq!(scheduler.run(10_000, || false), Ended::Stuck);
    scheduler.kill(PROCESS);
    scheduler.end();
}

#[test]
fn a_panic_of_a_fibre_is_told() {
    let scheduler = Scheduler::begin(1, false);
    scheduler.add_process(PROCESS);
    scheduler.start(PROCESS, "faulty", || panic!("on purpose"));
    assert_eq!(scheduler.run(10, || false), Ended::Stuck);
    assert_eq!(scheduler.take_complaints(), ["faulty panicked: on purpose"]);
    scheduler.end();
}
