//! Tasks end, stop and are told of as tokio's are.

use super::{Runtime, Stopped, TaskSet};
use std::sync::Arc;
use tokio::runtime::Handle;

#[tokio::test]
async fn a_task_that_panics_or_is_aborted_is_stopped() {
    let runtime = Runtime::from(Handle::current());
    assert_eq!(runtime.spawn(async { 7 }).await, Ok(7));
    assert_eq!(runtime.spawn_blocking(|| 8).await, Ok(8));
    assert_eq!(runtime.spawn(async { panic!("on purpose") }).await, Err::<(), _>(Stopped));
    let endless = runtime.spawn(std::future::pending::<()>());
    endless.abort();
    assert_eq!(endless.await, Err(Stopped));
}

#[tokio::test]
async fn a_set_tells_of_each_and_stops_what_is_left() {
    let runtime = Runtime::from(Handle::current());
    let mut set = TaskSet::new(&runtime);
    assert!(set.join_next().await.is_none());
    set.spawn(async { 1 });
    set.spawn(async { panic!("on purpose") });
    let mut ended = [set.join_next().await.unwrap(), set.join_next().await.unwrap()];
    ended.sort_by_key(Result::is_err);
    assert_eq!(ended, [Ok(1), Err(Stopped)]);
    let held = Arc::new(());
    let weak = Arc::downgrade(&held);
    set.spawn(async move {
        let _held = held;
        std::future::pending::<()>().await;
        2
    });
    assert_eq!(set.len(), 1);
    drop(set);
    while weak.upgrade().is_some() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn a_thread_waits_for_work() {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(Runtime::from(tokio.handle()).block_on(async { 9 }), 9);
}
