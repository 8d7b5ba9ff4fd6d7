use super::*;
use std::sync::Arc;

#[test]
fn a_value_is_made_once_and_dropped() {
    let value = Arc::new(7);
    let lock = OnceLock::new();
    assert_eq!(**lock.get_or_init(|| value.clone()), 7);
    assert_eq!(**lock.get_or_init(|| unreachable!("it is made")), 7);
    assert_eq!(Arc::strong_count(&value), 2);
    drop(lock);
    assert_eq!(Arc::strong_count(&value), 1);
    drop(OnceLock::<Arc<u8>>::new());
}

#[test]
fn threads_that_come_at_once_see_one_value() {
    let lock = OnceLock::new();
    let made = Arc::new(());
    std::thread::scope(|scope| {
        let seen: Vec<_> = (0..8)
            .map(|number| {
                scope.spawn({
                    let (lock, made) = (&lock, &made);
                    move || lock.get_or_init(|| (made.clone(), number)) as *const _ as usize
                })
            })
            .collect();
        let seen: Vec<usize> = seen.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert!(seen.iter().all(|&address| address == seen[0]));
    });
    assert_eq!(Arc::strong_count(&made), 2);
}
