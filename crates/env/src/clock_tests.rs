//! The system's clock follows a runtime whose time is paused, and a time-out asks the work first.

use super::{Clock, Elapsed, SystemClock};
use std::future::{pending, ready};
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn paused_time_is_the_clocks_time() {
    let clock: &dyn Clock = &SystemClock;
    let began = clock.now();
    clock.sleep(Duration::from_secs(3600)).await;
    assert_eq!(clock.elapsed(began), Duration::from_secs(3600));
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_is_not_late() {
    let clock: &dyn Clock = &SystemClock;
    assert_eq!(clock.timeout(Duration::ZERO, ready(7)).await, Ok(7));
    assert_eq!(clock.timeout(Duration::from_secs(1), pending::<()>()).await, Err(Elapsed));
}

#[test]
fn a_moment_to_come_has_not_elapsed() {
    let clock: &dyn Clock = &SystemClock;
    assert_eq!(clock.elapsed(clock.now() + Duration::from_secs(5)), Duration::ZERO);
}
