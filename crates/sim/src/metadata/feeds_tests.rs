use super::*;
use std::time::Duration;
use weft_meta::keys::Table;

const TABLES: &[u8] = &[Table::Inode as u8];

fn batch(table: Table) -> Batch {
    Batch { writes: vec![(vec![table as u8, 7], Some(vec![1]))], ..Batch::default() }
}

/// How many messages about changes of process 1 each of processes 1 and 2 has got after a minute.
fn heard(quality: Quality, batch: &Batch) -> (usize, usize) {
    let scheduler = Scheduler::begin(5, false);
    let mut feeds = Feeds { quality, ..Feeds::default() };
    let (own, other) = (feeds.listen(ProcessId(1), TABLES), feeds.listen(ProcessId(2), TABLES));
    (0..100).for_each(|_| feeds.news(ProcessId(1), batch, &scheduler).into_iter().for_each(News::send));
    scheduler.after(Duration::from_secs(60), || {});
    scheduler.run(10_000, || false);
    scheduler.end();
    (own.try_iter().count(), other.try_iter().count())
}

#[test]
fn the_others_hear_of_the_tables_that_they_asked_for() {
    assert_eq!(heard(Quality::default(), &batch(Table::Inode)), (0, 100));
    assert_eq!(heard(Quality::default(), &batch(Table::Segment)), (0, 0));
}

#[test]
fn messages_come_twice_and_not_at_all() {
    let doubled = Quality { doubled_per_mille: 1000, ..Quality::default() };
    assert_eq!(heard(doubled, &batch(Table::Inode)), (0, 200));
    let cut = Quality { cut_per_mille: 1000, ..Quality::default() };
    assert_eq!(heard(cut, &batch(Table::Inode)), (0, 0));
}

#[test]
fn who_has_left_is_told_nothing() {
    let scheduler = Scheduler::begin(5, false);
    let mut feeds = Feeds::default();
    let _changes = feeds.listen(ProcessId(2), TABLES);
    assert_eq!(feeds.news(ProcessId(1), &batch(Table::Inode), &scheduler).len(), 1);
    feeds.forget(ProcessId(2));
    assert!(feeds.news(ProcessId(1), &batch(Table::Inode), &scheduler).is_empty());
    scheduler.end();
}
