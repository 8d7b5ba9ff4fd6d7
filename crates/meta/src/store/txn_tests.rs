use std::collections::BTreeMap;

use super::super::fixture::Random;
use super::*;
use crate::engines::MemoryKv;
use crate::kv::Kv;

fn engine(pairs: &BTreeMap<u64, u8>) -> MemoryKv {
    let kv = MemoryKv::new();
    let writes =
        pairs.iter().map(|(ino, value)| (Key::UnreferencedInode(Ino(*ino)).encode(), Some(vec![*value]))).collect();
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
    kv
}

#[test]
fn sees_its_own_writes() {
    for seed in 1..=200 {
        let mut random = Random(seed);
        let mut model: BTreeMap<u64, u8> = (0..random.below(20)).map(|_| (random.below(30), 1)).collect();
        let kv = engine(&model);
        let snapshot = kv.snapshot().unwrap();
        let mut txn = Txn::writing(&*snapshot, Company::Alone);
        for _ in 0..random.below(20) {
            let ino = random.below(30);
            let key = Key::UnreferencedInode(Ino(ino));
            match random.below(3) {
                0 => {
                    txn.remove(key);
                    model.remove(&ino);
                }
                1 => {
                    txn.put(key, vec![2]);
                    model.insert(ino, 2);
                }
                _ => assert_eq!(txn.get(key).unwrap(), model.get(&ino).map(|value| vec![*value]), "seed {seed}"),
            }
        }
        for limit in [0, 1, 2, 3, 10, usize::MAX] {
            let found = txn.scan(&crate::keys::unreferenced_inodes(), limit).unwrap();
            let expected: Vec<_> = model
                .iter()
                .take(limit)
                .map(|(ino, value)| (Key::UnreferencedInode(Ino(*ino)).encode(), vec![*value]))
                .collect();
            assert_eq!(found, expected, "seed {seed}, limit {limit}");
        }
    }
}

#[test]
fn reads_become_checks_of_what_was_there_first() {
    let kv = engine(&BTreeMap::from([(1, 1)]));
    let snapshot = kv.snapshot().unwrap();
    let mut txn = Txn::writing(&*snapshot, Company::Alone);
    let (one, two, three) =
        (Key::UnreferencedInode(Ino(1)), Key::UnreferencedInode(Ino(2)), Key::UnreferencedInode(Ino(3)));
    txn.get(one).unwrap();
    txn.put(one, vec![9]);
    txn.get(one).unwrap();
    txn.get(two).unwrap();
    txn.put(three, vec![3]);
    txn.get(three).unwrap();
    let batch = txn.into_batch().unwrap();
    assert_eq!(batch.checks, [(one.encode(), Some(vec![1])), (two.encode(), None)]);
    assert_eq!(batch.writes, [(one.encode(), Some(vec![9])), (three.encode(), Some(vec![3]))]);
}

#[test]
fn is_full_by_keys_and_by_bytes() {
    let kv = MemoryKv::new();
    let snapshot = kv.snapshot().unwrap();
    let mut txn = Txn::writing(&*snapshot, Company::Alone);
    assert!(!txn.is_full(FULL_KEYS - 1));
    assert!(txn.is_full(FULL_KEYS));
    txn.put(Key::UnreferencedInode(Ino(1)), vec![0; FULL_BYTES]);
    assert!(txn.is_full(0));
}
