use super::super::fixture::*;
use super::*;
use crate::engines::MemoryKv;
use crate::kv::{Batch, Kv, KvError, Sessions, Snapshot};
use std::sync::Arc;
use weft_env::Env;
use weft_env::sync::Mutex;
use weft_format::records::Kind;

fn member(kv: &Arc<MemoryKv>) -> Store {
    let store = Store::open(Arc::new(kv.join()), &Env::system()).unwrap().as_member().unwrap();
    store.take_opening(1, 1).unwrap();
    store
}

fn orphan(store: &Store, name: &str) -> Ino {
    let ino = make(store, Ino::ROOT, name, Kind::File);
    store.unlink(Ino::ROOT, name.as_bytes(), at(5)).unwrap();
    ino
}

#[test]
fn the_one_that_is_there_longest_keeps_house() {
    let kv = Arc::new(MemoryKv::new());
    format_in(kv.clone());
    let (first, second) = (member(&kv), member(&kv));
    let keeps = |store: &Store| store.keeps_house().unwrap();
    assert_eq!([keeps(&first), keeps(&second)], [true, false]);
    let openings = first.openings().unwrap();
    assert_eq!((openings.current().count(), [&first, &second].map(|store| store.own_opening().unwrap())), (2, [1, 2]));
    drop(first);
    assert!(keeps(&second));
    assert_eq!(second.openings().unwrap().over, [(1, 1)], "nobody commits what the first has stored");
    // A third one comes and goes in order.
    let third = member(&kv);
    third.leave().unwrap();
    assert!(second.openings().unwrap().follows(0));
    assert!(keeps(&second));
}

#[test]
fn what_another_has_open_is_not_reclaimed() {
    let kv = Arc::new(MemoryKv::new());
    format_in(kv.clone());
    let (one, other) = (member(&kv), member(&kv));
    let (kept, gone) = (orphan(&one, "kept"), orphan(&one, "gone"));
    let mut holding = Holding::default();
    assert_eq!(other.look_at_orphans(&mut holding, |ino| ino == kept).unwrap(), [kept, gone]);
    assert_eq!(one.looks().unwrap().into_iter().collect::<Vec<_>>(), [(other.lock_session(), 1)]);
    assert_eq!(one.reclaim(&[unused(kept), unused(gone)], at(6)).unwrap(), 2);
    assert!(one.attributes(kept).is_ok());
    assert!(one.attributes(gone).is_err());
    // It is closed, and then nobody has it.
    other.look_at_orphans(&mut holding, |_| false).unwrap();
    one.reclaim(&[unused(kept)], at(7)).unwrap();
    assert!(one.attributes(kept).is_err());
    assert_clean(&one);
}

#[test]
fn what_the_dead_have_noted_goes() {
    let kv = Arc::new(MemoryKv::new());
    format_in(kv.clone());
    let (one, other) = (member(&kv), member(&kv));
    let (ino, session) = (orphan(&one, "f"), other.lock_session());
    let mut holding = Holding::default();
    other.hold(&mut holding, ino).unwrap();
    other.look_at_orphans(&mut holding, |_| true).unwrap();
    let lock = crate::FileLock { session, owner: 1, pid: 1, first: 0, last: 9, is_exclusive: true };
    other.lock(ino, lock).unwrap();
    kv.evict(session);
    let refused = other.unlink(Ino::ROOT, b"nothing", at(5)).and_then(|_| other.hold(&mut holding, ino)).unwrap_err();
    assert!(matches!(refused, MetaError::NotFound | MetaError::Superseded(_)), "{refused}");
    let refused = other.unlock(ino, &lock).unwrap_err();
    assert!(matches!(refused, MetaError::Superseded(_)), "{refused}");
    assert!(one.keeps_house().unwrap());
    assert_eq!((one.locks(ino).unwrap().len(), one.looks().unwrap().len()), (0, 0));
    one.reclaim(&[unused(ino)], at(7)).unwrap();
    assert!(one.attributes(ino).is_err());
}

/// A member of which some commits are not done, or done and not answered.
struct Unsure {
    member: Box<dyn Kv>,
    /// Of the next commit: is it done? None: it is answered.
    next: Mutex<Vec<Option<bool>>>,
}

impl Kv for Unsure {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        self.member.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        let next = self.next.lock().pop().flatten();
        if next != Some(false) {
            self.member.commit(batch)?;
        }
        match next {
            None => Ok(()),
            Some(_) => Err(KvError::Failed { store: "memory".into(), detail: "it is away".into() }),
        }
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }

    fn sessions(&self) -> Option<&dyn Sessions> {
        self.member.sessions()
    }
}

#[test]
fn notes_are_right_again_after_commits_that_failed_or_were_not_answered() {
    let kv = Arc::new(MemoryKv::new());
    format_in(kv.clone());
    let one = member(&kv);
    let unsure = Arc::new(Unsure { member: Box::new(kv.join()), next: Mutex::default() });
    let other = Store::open(unsure.clone(), &Env::system()).unwrap().as_member().unwrap();
    let ino = orphan(&one, "f");
    let is_held = || one.reclaim(&[unused(ino)], at(6)).unwrap() == 1 && one.attributes(ino).is_ok();
    let mut holding = Holding::default();
    for is_done in [false, true] {
        // It is noted, or seems not to be, and closed before the next look.
        *unsure.next.lock() = vec![Some(is_done)];
        other.hold(&mut holding, ino).unwrap_err();
        other.look_at_orphans(&mut holding, |_| true).unwrap();
        assert!(is_held());
        *unsure.next.lock() = vec![Some(is_done)];
        other.look_at_orphans(&mut holding, |_| false).unwrap_err();
        other.look_at_orphans(&mut holding, |_| true).unwrap();
        assert!(is_held());
        other.look_at_orphans(&mut holding, |_| false).unwrap();
    }
    // A look that failed does not count: nobody may take the next one for the second after it.
    let looks = || one.looks().unwrap()[&other.lock_session()];
    let before = looks();
    *unsure.next.lock() = vec![Some(false)];
    other.look_at_orphans(&mut holding, |_| false).unwrap_err();
    other.look_at_orphans(&mut holding, |_| false).unwrap();
    assert_eq!(looks(), before + 1);
    *unsure.next.lock() = vec![Some(true)];
    other.hold(&mut holding, ino).unwrap_err();
    other.look_at_orphans(&mut holding, |_| false).unwrap();
    one.reclaim(&[unused(ino)], at(7)).unwrap();
    assert!(one.attributes(ino).is_err(), "nobody has it open");
    assert_clean(&one);
}
