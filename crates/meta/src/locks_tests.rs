use super::*;
use proptest::prelude::*;

/// Bytes of the model: all locks lie within, or reach to the end.
const BYTES: usize = 12;

fn file_lock(owner: u64, first: usize, last: usize, is_exclusive: bool) -> FileLock {
    let last = if last >= BYTES { u64::MAX } else { last as u64 };
    FileLock { session: (owner % 2) as i64, owner, pid: 1, first: first as u64, last, is_exclusive }
}

/// What each owner has at each byte, the slow and obvious way.
type Model = [[Option<bool>; BYTES + 1]; 4];

fn bytes_of(lock: &FileLock) -> std::ops::RangeInclusive<usize> {
    lock.first as usize..=usize::try_from(lock.last).unwrap_or(usize::MAX).min(BYTES)
}

fn model_of(locks: &[FileLock]) -> Model {
    let mut model = Model::default();
    for lock in locks {
        for byte in bytes_of(lock) {
            let place = &mut model[lock.owner as usize][byte];
            assert_eq!(*place, None, "an owner has a byte twice: {locks:?}");
            *place = Some(lock.is_exclusive);
        }
    }
    model
}

proptest! {
    #[test]
    fn locks_do_what_the_model_does(
        steps in prop::collection::vec((0..4u64, 0..BYTES, 0..BYTES + 1, 0..3u8), 1..60)
    ) {
        let (mut locks, mut model) = (Vec::new(), Model::default());
        for (owner, first, length, what) in steps {
            let wanted = file_lock(owner, first, first + length, what == 2);
            let others = |model: &Model| {
                (0..4).filter(|other| *other != owner as usize).any(|other| {
                    bytes_of(&wanted).any(|byte| model[other][byte].is_some_and(|exclusive| exclusive || what == 2))
                })
            };
            if what == 0 {
                unlock(&mut locks, &wanted);
                bytes_of(&wanted).for_each(|byte| model[owner as usize][byte] = None);
            } else {
                prop_assert_eq!(in_the_way(&locks, &wanted).is_some(), others(&model));
                if !others(&model) {
                    lock(&mut locks, wanted);
                    bytes_of(&wanted).for_each(|byte| model[owner as usize][byte] = Some(what == 2));
                }
            }
            prop_assert_eq!(model_of(&locks), model);
            prop_assert!(locks.len() <= 4 * (BYTES + 1));
        }
    }
}
