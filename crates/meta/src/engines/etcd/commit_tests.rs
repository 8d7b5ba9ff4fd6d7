use super::*;
use crate::deltas::Delta;
use crate::engines::etcd::{EtcdKv, address};
use crate::kv::{Batch, Kv};
use crate::servers;
use crate::store::values::Usage;
use crate::types::Access;
use weft_env::Env;

fn usage(kv: &EtcdKv) -> u64 {
    let value = kv.snapshot().unwrap().get(b"u").unwrap().expect("the usage");
    Usage::decode(&value).unwrap().inodes
}

/// Of a commit that was done, also when what it left was taken in since; and of one that was given up.
#[test]
fn a_copy_that_arrives_late_changes_nothing() {
    let cluster = servers::Etcd::start(1);
    let address = address::parse(cluster.url("weft").strip_prefix("etcd:").unwrap().as_ref()).unwrap();
    crate::MetaUrl::parse(cluster.url("weft").as_ref()).unwrap().create().unwrap();
    let kv = EtcdKv::open(address, Access::Shared, None, &Env::system()).unwrap();
    let writes = vec![(b"u".to_vec(), Some(Usage::default().encode()))];
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
    let engine = kv.engine.clone();
    let sent = kv.engine.wait_for(async move {
        let own = engine.own().await?;
        let deltas = vec![(b"u".to_vec(), Delta::Usage { inodes: 1, live_bytes: 0 })];
        let plan = Plan::of(Batch { deltas, ..Batch::default() }, &engine.layout);
        let send = async |mut slot: Slot| {
            let mut changes = Vec::new();
            engine.change_rows(&plan, own, slot, Vec::new(), &mut changes);
            let sent = engine.send(&plan, own, &mut slot, Vec::new(), changes).await;
            assert!(matches!(sent, Ok(Sent::Done)), "it is done, or was");
        };
        let slot = engine.slots.take();
        send(slot).await;
        engine.fold(b"u").await?;
        send(slot).await;
        assert!(engine.settle(own, slot, TIMEOUT).await?, "it ran");
        let given_up = engine.slots.take();
        assert!(!engine.settle(own, given_up, TIMEOUT).await?, "it did not, and never will");
        send(given_up).await;
        engine.fold(b"u").await
    });
    sent.unwrap().unwrap();
    assert_eq!(usage(&kv), 1);
}

/// Deltas of several slots are applied as they came: a directory loses no subdirectory before it has it.
#[test]
fn deltas_are_taken_in_as_they_came() {
    let cluster = servers::Etcd::start(1);
    let url = crate::MetaUrl::parse(cluster.url("weft").as_ref()).unwrap();
    url.create().unwrap();
    let address = address::parse(cluster.url("weft").strip_prefix("etcd:").unwrap().as_ref()).unwrap();
    let kv = EtcdKv::open(address, Access::Shared, None, &Env::system()).unwrap();
    let writes = vec![(b"u".to_vec(), Some(Usage::default().encode()))];
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
    let engine = kv.engine.clone();
    let sent = kv.engine.wait_for(async move {
        let own = engine.own().await?;
        let mut slots = [engine.slots.take(), engine.slots.take()];
        slots.sort_by_key(|slot| slot.number);
        // The later one by the slot whose rows come first.
        for (mut slot, inodes) in [(slots[1], 1), (slots[0], -1)] {
            let deltas = vec![(b"u".to_vec(), Delta::Usage { inodes, live_bytes: 0 })];
            let plan = Plan::of(Batch { deltas, ..Batch::default() }, &engine.layout);
            let mut changes = Vec::new();
            engine.change_rows(&plan, own, slot, Vec::new(), &mut changes);
            assert!(matches!(engine.send(&plan, own, &mut slot, Vec::new(), changes).await, Ok(Sent::Done)));
        }
        Ok::<_, Failure>(())
    });
    sent.unwrap().unwrap();
    assert_eq!(usage(&kv), 0);
    let engine = kv.engine.clone();
    kv.engine.wait_for(async move { engine.fold(b"u").await }).unwrap().unwrap();
    assert_eq!(usage(&kv), 0);
}
