use super::*;
use crate::error::VfsError;
use std::sync::mpsc::{Receiver, Sender, channel};
use weft_env::Env;
use weft_env::sync::Mutex;
use weft_format::VolumeId;
use weft_format::records::{PolicyRecord, Timestamp, VolumeRecord};
use weft_meta::engines::MemoryKv;
use weft_meta::kv::{Batch, Kv, KvError, Snapshot};

/// A store that says when it is asked, and answers when it is told to.
struct Slow {
    kv: Arc<MemoryKv>,
    asked: Sender<()>,
    answer: Mutex<Receiver<()>>,
}

impl Kv for Slow {
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, KvError> {
        // The test may be over.
        let _ = self.asked.send(());
        let _ = self.answer.lock().recv();
        self.kv.snapshot()
    }

    fn commit(&self, batch: Batch) -> Result<(), KvError> {
        self.kv.commit(batch)
    }

    fn flush(&self) -> Result<(), KvError> {
        Ok(())
    }
}

#[test]
fn finding_33_nobody_waits_for_the_metadata_of_another_file() {
    let kv = Arc::new(MemoryKv::new());
    let record = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    let store =
        Store::format(kv.clone(), &record, &PolicyRecord::of("rs:2+1", Some(1)), Timestamp::default(), &Env::system())
            .unwrap();
    let ((asked, asks), (answer, answers)) = (channel(), channel());
    let slow = Arc::new(Slow { kv, asked, answer: Mutex::new(answers) });
    // Opening the volume asks once.
    answer.send(()).unwrap();
    let slow = Store::open(slow, &Env::system()).unwrap();
    asks.recv().unwrap();
    let files = Files::default();
    std::thread::scope(|scope| {
        let slowly = scope.spawn(|| files.open(&slow, Ino::ROOT).map(|file| file.ino));
        asks.recv().unwrap();
        // It is under way; all others go on, also who closes the very file.
        let other = files.open(&store, Ino(2)).map(|file| file.ino);
        assert!(matches!(other, Err(VfsError::Meta(MetaError::NotFound))));
        files.reference(Ino(3));
        assert!(files.forget(Ino(3), 1).is_none());
        assert!(files.peek(Ino::ROOT).is_some());
        answer.send(()).unwrap();
        assert_eq!(slowly.join().unwrap().unwrap(), Ino::ROOT);
    });
    files.close(Ino::ROOT);
    assert!(files.peek(Ino::ROOT).is_none(), "it is forgotten once nobody uses it");
}

#[test]
fn finding_33_every_descriptor_is_told_of_a_failure_once() {
    let mut failures = Failures::default();
    let (one, other) = (AtomicU64::new(failures.told_count()), AtomicU64::new(failures.told_count()));
    let error = || Arc::new(VfsError::TooLarge);
    failures.note(error());
    let late = AtomicU64::new(failures.told_count());
    for told in [&one, &other, &late] {
        assert!(matches!(failures.tell(told), Err(VfsError::Earlier(_))));
        assert!(failures.tell(told).is_ok());
    }
    let later = AtomicU64::new(failures.told_count());
    assert!(failures.tell(&later).is_ok(), "somebody was told before it was opened");
    failures.note(error());
    failures.note(error());
    assert!(failures.tell(&one).is_err() && failures.tell(&one).is_ok());
}

/// A lookup that saw a file's attributes before its last commit would otherwise answer them after it.
#[test]
fn a_file_that_was_in_use_meanwhile_is_no_unused_one() {
    let record = VolumeRecord { volume: VolumeId(7), created_ms: 0, default_policy: PolicyId(0) };
    let kv = Arc::new(MemoryKv::new());
    let store =
        Store::format(kv, &record, &PolicyRecord::of("rs:2+1", Some(1)), Timestamp::default(), &Env::system()).unwrap();
    let files = Files::default();
    let before = files.left_count();
    assert!(files.is_unused_since(before, Ino::ROOT));
    files.open(&store, Ino::ROOT).unwrap();
    assert!(!files.is_unused_since(before, Ino::ROOT), "it is open");
    files.close(Ino::ROOT);
    assert!(!files.is_unused_since(before, Ino::ROOT), "it was open");
    assert!(files.is_unused_since(files.left_count(), Ino::ROOT));
}
