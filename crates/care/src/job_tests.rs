use super::*;
use std::sync::Arc;
use weft_env::Env;

#[test]
fn time_left_follows_the_bytes() {
    let progress = Progress { bytes_done: 250, bytes_total: 1000, worked_ms: 1000, ..Progress::default() };
    assert_eq!(progress.bytes_per_second(), 250);
    assert_eq!(progress.left_ms(), Some(3000));
}

#[test]
fn time_left_follows_the_segments_where_there_are_no_bytes() {
    let progress = Progress { segments_done: 1, segments_total: 4, worked_ms: 10, ..Progress::default() };
    assert_eq!(progress.left_ms(), Some(30));
}

#[test]
fn before_the_first_byte_nothing_is_promised() {
    let progress = Progress { bytes_total: 1000, worked_ms: 5, ..Progress::default() };
    assert_eq!(progress.left_ms(), None);
    assert_eq!(Progress::default().bytes_per_second(), 0);
}

#[test]
fn a_phase_counts_from_nothing_and_keeps_what_was_moved() {
    let job = Job::new(&Env::system().clock);
    job.begin("rebuilding", 7, 700);
    job.update(|progress| {
        progress.segments_done = 7;
        progress.bytes_done = 700;
        progress.bytes_read = 2800;
    });
    job.begin("counting", 9, 0);
    let progress = Progress { worked_ms: 0, ..job.progress() };
    let expected = Progress { phase: "counting".into(), segments_total: 9, bytes_read: 2800, ..Progress::default() };
    assert_eq!(progress, expected);
}

#[tokio::test]
async fn a_paused_job_waits_and_goes_on() {
    let job = Arc::new(Job::new(&Env::system().clock));
    job.pause();
    assert!(job.progress().paused);
    let waiter = tokio::spawn({
        let job = job.clone();
        async move { job.checkpoint().await }
    });
    tokio::task::yield_now().await;
    assert!(!waiter.is_finished());
    job.resume();
    assert_eq!(waiter.await.expect("the waiter ends"), Ok(()));
    assert!(!job.progress().paused);
}

#[tokio::test]
async fn a_cancelled_job_ends_also_while_paused() {
    let job = Job::new(&Env::system().clock);
    job.pause();
    job.cancel();
    assert_eq!(job.checkpoint().await, Err(Cancelled));
    job.resume();
    assert_eq!(job.checkpoint().await, Err(Cancelled));
}
