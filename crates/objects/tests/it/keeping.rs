//! Keepers: what is missing is made, what is left over goes, and nothing comes back.

use crate::cluster::{TestCluster, TestMember, VOLUME, bytes, image_of, rounds};
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use weft_format::records::{ObjectId, ObjectRecord, ObjectState, Stamp, data_segment, name_hash, record_key};
use weft_format::{Generation, NodeId, NodeIdentity, ShardIndex, ShardKey};
use weft_nodes::wrappers::{Fault, Operation};
use weft_nodes::{MemoryNode, Node, NodeErrorKind};
use weft_objects::{KeeperSettings, ObjectError, Question};

const CUBE: &str = "ldpc:cube-8-6";

pub const SETTINGS: KeeperSettings = KeeperSettings {
    rebuild_after: Duration::from_secs(60),
    leftover_grace: Duration::from_secs(600),
    superseded_grace: Duration::from_secs(120),
    pause: Duration::from_secs(10),
    bytes_per_second: None,
    scrub_bytes_per_second: 1 << 20,
    hot_reads_per_minute: NonZeroU32::new(20).unwrap(),
};

const PAUSE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn what_dead_members_held_is_rebuilt_elsewhere_after_a_while_and_not_before() {
    let cluster = TestCluster::new(10).await;
    let data = bytes(700_000, 1);
    for number in 0..5 {
        cluster.put(&format!("o{number}"), "rs:4+2", &data, false).await.unwrap();
    }
    let mut keepers = cluster.keepers(SETTINGS);
    let idle = rounds(&mut keepers, 2, PAUSE).await;
    assert_eq!((idle.pulled, idle.pushed, idle.rebuilt, idle.removed), (0, 0, 0, 0));
    let lost: usize = [2, 5]
        .map(NodeId)
        .map(|id| {
            cluster.kill(id);
            let held = (0..5).map(|number| cluster.held(&format!("o{number}")));
            held.flatten().filter(|(holder, ..)| *holder == id).map(|(.., shards)| shards).sum::<usize>()
        })
        .iter()
        .sum();
    assert!(lost > 0);
    let mut keepers = cluster.keepers(SETTINGS);
    // It is not missing for long enough.
    assert_eq!(rounds(&mut keepers, 2, Duration::from_secs(20)).await.rebuilt, 0);
    let done = rounds(&mut keepers, 12, PAUSE).await;
    assert_eq!(done.rebuilt, lost);
    // Two more fall, which nobody could have survived together with the first two.
    let more: Vec<NodeId> =
        cluster.held("o0").into_iter().map(|(id, ..)| id).filter(|id| ![2, 5].contains(&id.0)).take(2).collect();
    more.iter().for_each(|id| cluster.kill(*id));
    for number in 0..5 {
        assert_eq!(cluster.get(&format!("o{number}")).await.unwrap(), data);
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_back_soon_finds_all_as_it_left_it() {
    let mut cluster = TestCluster::new(8).await;
    cluster.put("a", "rs:4+2", &bytes(90_000, 1), false).await.unwrap();
    let away = cluster.held("a")[0].0;
    cluster.kill(away);
    let mut keepers = cluster.keepers(SETTINGS);
    rounds(&mut keepers, 1, PAUSE).await;
    cluster.revive(away).await;
    let mut keepers = cluster.keepers(SETTINGS);
    assert_eq!(rounds(&mut keepers, 10, PAUSE).await.rebuilt, 0);
}

/// Records arrive so much later, and shards at once; when the first is sent.
fn delay_records(cluster: &TestCluster, time: Duration) -> Arc<Notify> {
    let sends = Arc::new(Notify::new());
    for member in &cluster.members {
        let sends = Arc::clone(&sends);
        member.fault.set_script(Box::new(move |call| match call.key {
            Some(key) if call.operation == Operation::Put && !ObjectId::of(key.segment).is_data => {
                sends.notify_one();
                Fault::Delay(time)
            }
            _ => Fault::None,
        }));
    }
    sends
}

#[tokio::test(start_paused = true)]
async fn half_an_upload_is_removed_and_a_put_that_goes_on_later_is_refused() {
    let cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", b"before", false).await.unwrap();
    // The client is paused when it sends its records.
    let sends = delay_records(&cluster, Duration::from_millis(1));
    let mut put = pin!(cluster.put("a", "rs:4+2", b"after", true));
    tokio::select! {
        biased;
        put = &mut put => panic!("{put:?}"),
        () = sends.notified() => {}
    }
    let kept = rounds(&mut cluster.keepers(SETTINGS), 30, Duration::from_secs(60)).await;
    let put = put.await;
    // Each member has decided once: given up, with its shards removed.
    assert_eq!((kept.given_up, kept.removed), (6, 6));
    assert!(matches!(put, Err(ObjectError::NotCommitted { kept: 0, .. })), "{put:?}");
    assert_eq!(cluster.get("a").await.unwrap(), b"before");
    for member in &cluster.members {
        assert_eq!(cluster.shards(member.id).await.len(), 1, "only those of the version before");
    }
}

/// Two members gave a version up that the others have. What it replaced goes at them, too, and they do not give it to each other again.
#[tokio::test(start_paused = true)]
async fn what_was_replaced_goes_for_good_at_members_that_gave_the_newer_version_up() {
    let cluster = TestCluster::new(8).await;
    let older = cluster.put("a", "rs:4+2", &bytes(50_000, 1), false).await.unwrap().version;
    let newer = cluster.put("a", "rs:4+2", &bytes(60_000, 2), true).await.unwrap().version;
    let (hash, closest) = (name_hash("a"), cluster.closest("a", 2));
    for node in closest.iter().map(|id| cluster.member(*id).host.node()) {
        let keys = node.list(None, usize::MAX).await.unwrap().keys;
        for key in keys.into_iter().filter(|key| ObjectId::of(key.segment).stamp == newer) {
            node.remove(key).await.unwrap();
        }
        let key = record_key(hash, newer);
        node.put(key, &[ObjectRecord::given_up(newer).seal(VOLUME, key).unwrap()]).await.unwrap();
    }
    let mut keepers = cluster.keepers(SETTINGS);
    rounds(&mut keepers, 40, PAUSE).await;
    for _ in 0..40 {
        rounds(&mut keepers, 1, PAUSE).await;
        for member in &cluster.members {
            assert_eq!(cluster.record(member.id, "a", older).await, None, "{:?}", member.id);
        }
    }
    assert_eq!(cluster.get("a").await.unwrap(), bytes(60_000, 2));
}

/// An upload may take longer than it takes to give one up. It is given up when nothing of it has come for so long.
#[tokio::test(start_paused = true)]
async fn an_upload_that_goes_on_is_not_given_up_however_long_it_takes() {
    let cluster = TestCluster::new(3).await;
    let member = &cluster.members[0];
    let mut keepers = [cluster.keeper(member.id, SETTINGS)];
    let minute = Duration::from_secs(60);
    for number in 0..4 {
        let segment = data_segment(name_hash("a"), Stamp(7), number);
        let key = ShardKey { segment, generation: Generation::FIRST, index: ShardIndex(0) };
        member.host.node().put(key, &[bytes(10, 1).into()]).await.unwrap();
        assert_eq!(rounds(&mut keepers, 8, minute).await.given_up, 0, "{number}");
    }
    assert_eq!(rounds(&mut keepers, 8, minute).await.given_up, 1);
    assert!(cluster.shards(member.id).await.is_empty());
}

/// A member takes a record also if it has nothing else: its disk was replaced since it took a shard. What is left is not enough, and the put
/// says so.
#[tokio::test(start_paused = true)]
async fn a_put_counts_shards_that_are_there_not_members_that_took_the_record() {
    let cluster = TestCluster::new(6).await;
    for lost in [2, 3] {
        let sends = delay_records(&cluster, Duration::from_secs(5));
        let put = cluster.put("a", "rs:4+2", b"after", true);
        let losing = async {
            sends.notified().await;
            for member in &cluster.members[..lost] {
                for key in cluster.shards(member.id).await {
                    member.host.node().remove(key).await.unwrap();
                }
            }
        };
        let (put, ()) = tokio::join!(put, losing);
        match lost {
            2 => assert!(put.is_ok(), "{put:?}"),
            _ => assert!(matches!(put, Err(ObjectError::NotCommitted { kept: 3, needed: 4, .. })), "{put:?}"),
        }
    }
}

/// A client is cut off while a member's disk writes. The disk writes on, and what is there then is known.
#[tokio::test(start_paused = true)]
async fn what_a_disk_stores_after_its_client_is_gone_is_known() {
    let cluster = TestCluster::new(3).await;
    cluster.put("a", "rs:2+1", &bytes(50_000, 1), false).await.unwrap();
    let member = &cluster.members[0];
    let key = cluster.shards(member.id).await[0];
    let shard = member.memory.get(key, 0..u64::MAX).await.unwrap();
    member.host.node().remove(key).await.unwrap();
    member.place.set_script(Box::new(|_| Fault::Delay(Duration::from_secs(10))));
    let node = member.host.node();
    assert!(tokio::time::timeout(Duration::from_secs(1), node.put(key, std::slice::from_ref(&shard))).await.is_err());
    member.place.set_script(Box::new(|_| Fault::None));
    member.memory.put(key, &[shard]).await.unwrap();
    let shards = || cluster.held("a").iter().map(|(_, _, shards)| shards).sum::<usize>();
    assert_eq!(shards(), 2);
    rounds(&mut [cluster.keeper(member.id, SETTINGS)], 1, PAUSE).await;
    assert_eq!(shards(), 3);
}

/// A cluster grows, and other members are closest to a name now. What they do not have is not lost, and what is lost is made again.
#[tokio::test(start_paused = true)]
async fn an_object_is_kept_by_members_that_are_far_from_its_name_now() {
    let mut cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", &bytes(90_000, 1), false).await.unwrap();
    let holders: Vec<NodeId> = cluster.held("a").iter().map(|(node, ..)| *node).collect();
    // Until no holder is among those that are asked first. Only those stay that are closer than the holders.
    let mut id = 100;
    while cluster.closest("a", 24).iter().any(|node| holders.contains(node)) {
        cluster.join(NodeId(id)).await;
        let order = cluster.closest("a", cluster.members.len());
        if order.iter().find(|node| holders.contains(node) || node.0 == id) != Some(&NodeId(id)) {
            cluster.members.pop();
        }
        id += 1;
    }
    let mut keepers = cluster.keepers(SETTINGS);
    assert_eq!(rounds(&mut keepers, 12, PAUSE).await.rebuilt, 0);
    cluster.kill(holders[0]);
    let mut keepers = cluster.keepers(SETTINGS);
    let mut rebuilt = 0;
    for _ in 0..20 {
        rebuilt += rounds(&mut keepers, 10, PAUSE).await.rebuilt;
        if rebuilt > 0 {
            break;
        }
    }
    // Once, and nobody makes it again.
    rebuilt += rounds(&mut keepers, 10, PAUSE).await.rebuilt;
    assert_eq!(rebuilt, 1);
    assert_eq!(cluster.get("a").await.unwrap(), bytes(90_000, 1));
}

/// Members that do not answer may have an object of this name: it is not replaced unasked.
#[tokio::test(start_paused = true)]
async fn a_put_that_must_not_replace_is_refused_where_silence_may_hide_an_object() {
    let mut cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", b"before", false).await.unwrap();
    let holders: Vec<NodeId> = cluster.members.iter().map(|member| member.id).collect();
    for id in 100..106 {
        cluster.join(NodeId(id)).await;
    }
    holders.iter().for_each(|node| cluster.kill(*node));
    let refused = cluster.put("a", "rs:4+2", b"after", false).await.unwrap_err();
    assert!(matches!(refused, ObjectError::MayExist { silent: 6, .. }), "{refused}");
    assert!(matches!(cluster.get("a").await, Err(ObjectError::Unknown { .. })));
    cluster.put("a", "rs:4+2", b"after", true).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_older_version_goes_when_the_newer_is_whole_for_a_while() {
    let cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", &bytes(50_000, 1), false).await.unwrap();
    let newer = cluster.put("a", "rs:4+2", &bytes(60_000, 2), true).await.unwrap();
    let mut keepers = cluster.keepers(SETTINGS);
    assert_eq!(rounds(&mut keepers, 2, PAUSE).await.removed, 0);
    // A shard and a record at each.
    assert_eq!(rounds(&mut keepers, 6, PAUSE).await.removed, 12);
    assert!(cluster.held("a").iter().all(|(_, records, shards)| (*records, *shards) == (1, 1)));
    assert_eq!(cluster.get("a").await.unwrap(), bytes(60_000, 2));
    assert_eq!(cluster.client().stat("a").await.unwrap().version, newer.version);
}

#[tokio::test(start_paused = true)]
async fn a_member_with_an_old_disk_does_not_bring_a_removed_object_back() {
    let mut cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", &bytes(50_000, 1), false).await.unwrap();
    let id = cluster.members[0].id;
    let image = image_of(&cluster.member(id).memory, id).await;
    cluster.kill(id);
    cluster.client().remove("a").await.unwrap();
    let mut keepers = cluster.keepers(SETTINGS);
    rounds(&mut keepers, 10, PAUSE).await;
    // Of the object only the word that it is removed is left.
    let left = cluster.held("a");
    assert!(
        left.iter().filter(|(holder, ..)| *holder != id).all(|(_, records, shards)| (*records, *shards) == (1, 0)),
        "{left:?}"
    );
    cluster.replace(id, image).await;
    assert!(matches!(cluster.get("a").await, Err(ObjectError::NotFound { .. })));
    let mut keepers = cluster.keepers(SETTINGS);
    rounds(&mut keepers, 10, PAUSE).await;
    assert!(matches!(cluster.get("a").await, Err(ObjectError::NotFound { .. })));
    assert!(
        cluster.held("a").iter().all(|(_, records, shards)| (*records, *shards) == (1, 0)),
        "{:?}",
        cluster.held("a")
    );
}

#[tokio::test(start_paused = true)]
async fn a_member_that_was_away_gets_the_records_that_it_missed() {
    let mut cluster = TestCluster::new(6).await;
    for number in 0..50 {
        cluster.put(&format!("o{number}"), "rs:4+2", &bytes(1000, number), false).await.unwrap();
    }
    let id = cluster.members[2].id;
    cluster.kill(id);
    // A member less than shards: each put leaves one missing.
    for number in 0..40 {
        cluster.put(&format!("o{number}"), "rs:4+2", &bytes(1000, number + 100), true).await.unwrap();
    }
    cluster.revive(id).await;
    let mut keepers = cluster.keepers(SETTINGS);
    let done = rounds(&mut keepers, 12, PAUSE).await;
    assert_eq!(done.pulled + done.pushed, 40);
    assert_eq!(done.rebuilt, 40);
    for number in 0..40 {
        let stat = cluster.client().stat(&format!("o{number}")).await.unwrap();
        assert_eq!(stat.shards, [(6, 6)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_that_one_member_missed_is_taken_over_and_its_shard_is_no_leftover() {
    let cluster = TestCluster::new(6).await;
    let id = cluster.members[1].id;
    cluster.member(id).fault.set_script(Box::new(|call| match call.key {
        Some(key) if call.operation == Operation::Put && !ObjectId::of(key.segment).is_data => {
            Fault::Fail(NodeErrorKind::Io)
        }
        _ => Fault::None,
    }));
    let stored = cluster.put("a", "rs:4+2", b"contents", false).await.unwrap();
    assert_eq!(stored.record_copies, 5);
    cluster.member(id).fault.set_script(Box::new(|_| Fault::None));
    let mut keepers = cluster.keepers(SETTINGS);
    let done = rounds(&mut keepers, 40, PAUSE).await;
    assert_eq!((done.removed, done.given_up, done.rebuilt), (0, 0, 0));
    assert!(matches!(cluster.record(id, "a", stored.version).await, Some(ObjectState::Stored(_))));
}

#[tokio::test(start_paused = true)]
async fn with_three_of_fifteen_gone_the_cube_is_made_whole_as_far_as_there_are_members() {
    let cluster = TestCluster::new(15).await;
    let data = bytes(900_000, 4);
    cluster.put("a", CUBE, &data, false).await.unwrap();
    let dead: Vec<NodeId> = cluster.held("a").into_iter().map(|(id, ..)| id).take(3).collect();
    dead.iter().for_each(|id| cluster.kill(*id));
    let mut keepers = cluster.keepers(SETTINGS);
    let done = rounds(&mut keepers, 12, PAUSE).await;
    // Eleven of twelve members hold a shard, and the twelfth takes one of the three.
    assert_eq!(done.rebuilt, 1);
    assert_eq!(cluster.client().stat("a").await.unwrap().shards, [(12, 14)]);
    assert_eq!(cluster.get("a").await.unwrap(), data);
    // Nothing is written into the dead, or twice into one.
    assert!(cluster.held("a").iter().all(|(_, _, shards)| *shards == 1));
    for id in dead {
        let count = cluster.member(id).memory.list(None, 100).await.unwrap().keys.len();
        assert_eq!(count, 2, "a record and a shard, as before");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_whose_place_is_away_says_nothing_of_it_and_looks_again_when_it_is_back() {
    let cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", b"contents", false).await.unwrap();
    let member = cluster.members[3].clone();
    let mut keepers = vec![cluster.keeper(member.id, SETTINGS)];
    member.place.set_script(Box::new(|_| Fault::Fail(NodeErrorKind::Wiped)));
    rounds(&mut keepers, 1, PAUSE).await;
    let question = Question::Find { hash: name_hash("a") };
    assert_eq!(member.host.answer(&question).unwrap_err().kind, NodeErrorKind::Unavailable);
    assert_eq!(cluster.client().stat("a").await.unwrap().shards, [(5, 6)]);
    // It is back, and empty.
    for key in member.memory.list(None, 100).await.unwrap().keys {
        member.memory.remove(key).await.unwrap();
    }
    member.place.set_script(Box::new(|_| Fault::None));
    let mut keepers = cluster.keepers(SETTINGS);
    let done = rounds(&mut keepers, 8, PAUSE).await;
    assert_eq!((done.pulled + done.pushed, done.rebuilt), (1, 1));
    assert_eq!(cluster.client().stat("a").await.unwrap().shards, [(6, 6)]);
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_not_close_any_more_hears_of_a_removal_too() {
    let mut cluster = TestCluster::new(6).await;
    cluster.put("a", "replica:3", b"contents", false).await.unwrap();
    let holder = cluster.held("a")[0].0;
    cluster.kill(holder);
    cluster.client().remove("a").await.unwrap();
    cluster.revive(holder).await;
    // Many come, and it is none of the closest.
    for id in 7..40 {
        cluster.join(NodeId(id)).await;
    }
    let near = cluster.closest("a", 3);
    assert!(!near.contains(&holder), "{near:?}");
    let mut keepers = vec![cluster.keeper(holder, SETTINGS)];
    rounds(&mut keepers, 140, PAUSE).await;
    let left = cluster.held("a").into_iter().find(|(id, ..)| *id == holder);
    assert_eq!(left, Some((holder, 1, 0)), "it has the word that there is none");
}

/// What a member has under this name gets one other byte.
async fn rot(member: &TestMember, key: ShardKey) {
    let mut bytes = member.memory.get(key, 0..u64::MAX).await.unwrap().to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    member.memory.remove(key).await.unwrap();
    member.memory.put(key, &[bytes.into()]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn rotten_shards_are_found_and_replaced_where_they_are() {
    let cluster = TestCluster::new(6).await;
    let data = bytes(700_000, 1);
    for name in ["a", "b", "c"] {
        cluster.put(name, "rs:4+2", &data, false).await.unwrap();
    }
    // All of one member, one shard of another, and a file that has gone.
    let [first, second, third] = [0, 1, 2].map(|number| &cluster.members[number]);
    let mut rotten = cluster.shards(first.id).await;
    for key in &rotten {
        rot(first, *key).await;
    }
    let one = cluster.shards(second.id).await[0];
    rot(second, one).await;
    rotten.push(one);
    // Of another object: two losses are what each survives.
    let gone = cluster.shards(third.id).await[1];
    third.memory.remove(gone).await.unwrap();
    let mut keepers = cluster.keepers(SETTINGS);
    let found = rounds(&mut keepers, 2, PAUSE).await;
    assert_eq!((found.mended, found.rebuilt), (rotten.len(), 0));
    assert_eq!(rounds(&mut keepers, 12, PAUSE).await.rebuilt, 1, "the one that has gone, when its time is over");
    for member in &cluster.members {
        let keys = cluster.shards(member.id).await;
        assert_eq!(keys.len(), 3);
        assert!(keys.iter().all(|key| !rotten.contains(key)));
    }
    // Any two may fall, and nobody names a damaged shard.
    cluster.kill(NodeId(5));
    cluster.kill(NodeId(6));
    for name in ["a", "b", "c"] {
        assert_eq!(cluster.get(name).await.unwrap(), data);
    }
    assert_eq!(rounds(&mut keepers[..4], 2, PAUSE).await.mended, 0);
}

#[tokio::test(start_paused = true)]
async fn rotten_shards_that_cannot_be_replaced_are_kept() {
    let cluster = TestCluster::new(6).await;
    cluster.put("a", "rs:4+2", &bytes(700_000, 1), false).await.unwrap();
    let mut before = Vec::new();
    for member in &cluster.members[..3] {
        let key = cluster.shards(member.id).await[0];
        // Nothing of it can be used.
        let length = member.memory.get(key, 0..u64::MAX).await.unwrap().len();
        member.memory.remove(key).await.unwrap();
        member.memory.put(key, &[vec![0; length].into()]).await.unwrap();
        before.push(cluster.shards(member.id).await);
    }
    let mut keepers = cluster.keepers(SETTINGS);
    let done = rounds(&mut keepers, 3, PAUSE).await;
    assert_eq!((done.mended, done.removed, done.rebuilt), (0, 0, 0));
    for (member, before) in cluster.members.iter().zip(before) {
        assert_eq!(cluster.shards(member.id).await, before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotten_record_is_replaced_by_that_of_another_member() {
    let mut cluster = TestCluster::new(6).await;
    let stored = cluster.put("a", "rs:4+2", &bytes(50_000, 1), false).await.unwrap();
    let (id, key) = (cluster.members[0].id, record_key(name_hash("a"), stored.version));
    rot(cluster.member(id), key).await;
    assert_eq!(cluster.record(id, "a", stored.version).await, None);
    // It reads its records when it begins.
    cluster.revive(id).await;
    let mut keepers = cluster.keepers(SETTINGS);
    rounds(&mut keepers, 3, PAUSE).await;
    assert!(matches!(cluster.record(id, "a", stored.version).await, Some(ObjectState::Stored(_))));
    assert_eq!(cluster.shards(id).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_read_much_has_copies_that_are_read_too_and_go_when_it_is_not() {
    let cluster = TestCluster::new(12).await;
    let data = bytes(400_000, 1);
    cluster.put("hot", "rs:2+1", &data, false).await.unwrap();
    cluster.put("cold", "rs:2+1", &data, false).await.unwrap();
    let shards_of = |name: &str| cluster.held(name).iter().map(|(.., shards)| shards).sum::<usize>();
    let gets = Arc::new(Mutex::new(BTreeMap::<NodeId, usize>::new()));
    for member in &cluster.members {
        let (id, gets) = (member.id, Arc::clone(&gets));
        member.fault.set_script(Box::new(move |call| {
            let is_of_data = call.key.is_some_and(|key| ObjectId::of(key.segment).is_data);
            if call.operation == Operation::Get && is_of_data {
                *gets.lock().unwrap().entry(id).or_default() += 1;
            }
            Fault::None
        }));
    }
    let mut keepers = cluster.keepers(SETTINGS);
    let mut copied = 0;
    for _ in 0..6 {
        for _ in 0..40 {
            assert_eq!(cluster.get("hot").await.unwrap(), data);
        }
        assert_eq!(cluster.get("cold").await.unwrap(), data);
        copied += rounds(&mut keepers, 1, PAUSE).await.copied;
    }
    // Of the two data shards of the first segment, at least; a check is not read while all is well.
    assert!(copied >= 2, "{copied}");
    assert_eq!((shards_of("hot"), shards_of("cold")), (3 + copied, 3));
    gets.lock().unwrap().clear();
    for _ in 0..60 {
        assert_eq!(cluster.get("hot").await.unwrap(), data);
    }
    let gets: Vec<usize> = gets.lock().unwrap().values().copied().collect();
    assert!(gets.len() >= 4 && gets.iter().all(|count| *count < 60), "{gets:?}");
    // An hour and a half without a reader. Who is far away looks seldom.
    let calm = rounds(&mut keepers, 200, PAUSE).await;
    assert_eq!((calm.copied, shards_of("hot")), (0, 3));
    for name in ["hot", "cold"] {
        assert_eq!(cluster.get(name).await.unwrap(), data);
        assert_eq!(cluster.client().stat(name).await.unwrap().shards, [(3, 3)]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_keepers_read_of_their_own_is_no_reason_for_copies() {
    let cluster = TestCluster::new(8).await;
    cluster.put("a", "rs:2+1", &bytes(50_000, 1), false).await.unwrap();
    // Each shard is checked twice a minute.
    let settings = KeeperSettings { hot_reads_per_minute: NonZeroU32::MIN, ..SETTINGS };
    let done = rounds(&mut cluster.keepers(settings), 40, PAUSE).await;
    assert!(done.copied == 0 && done.scrubbed_bytes > 100 * 25_000, "{done:?}");
}

#[tokio::test(start_paused = true)]
async fn a_copy_stays_while_the_first_one_is_damaged() {
    let cluster = TestCluster::new(8).await;
    cluster.put("a", "rs:2+1", &bytes(50_000, 1), false).await.unwrap();
    let away = cluster.held("a")[0].0;
    cluster.kill(away);
    let mut keepers = cluster.keepers(SETTINGS);
    assert_eq!(rounds(&mut keepers, 12, PAUSE).await.rebuilt, 1);
    // It comes back with its shard, of which there are two now, and cannot read it.
    let mut cluster = cluster;
    cluster.revive(away).await;
    let key = cluster.shards(away).await[0];
    rot(cluster.member(away), key).await;
    let others: Vec<NodeId> = cluster.members.iter().map(|member| member.id).filter(|id| *id != away).collect();
    let mut keepers: Vec<_> = others.iter().map(|id| cluster.keeper(*id, SETTINGS)).collect();
    assert_eq!(rounds(&mut keepers, 100, PAUSE).await.removed, 0);
    // It looks after its own shards: then one of the two goes.
    let mut keepers = cluster.keepers(SETTINGS);
    let done = rounds(&mut keepers, 100, PAUSE).await;
    assert_eq!((done.mended, done.removed), (1, 1));
    assert_eq!(cluster.get("a").await.unwrap(), bytes(50_000, 1));
}

#[tokio::test(start_paused = true)]
async fn of_two_shards_at_one_member_alone_one_goes_to_a_member_that_holds_none() {
    let mut cluster = TestCluster::new(6).await;
    let data = bytes(50_000, 1);
    cluster.put("a", "rs:2+3", &data, false).await.unwrap();
    let free =
        cluster.members.iter().map(|member| member.id).find(|id| cluster.held("a").iter().all(|held| held.0 != *id));
    let (free, first, second) = (free.unwrap(), cluster.held("a")[0].0, cluster.held("a")[1].0);
    // Copies wait for longer than this takes.
    let patient = KeeperSettings { superseded_grace: Duration::from_secs(36_000), ..SETTINGS };
    cluster.kill(first);
    assert_eq!(rounds(&mut cluster.keepers(patient), 12, PAUSE).await.rebuilt, 1);
    cluster.revive(first).await;
    cluster.kill(second);
    assert_eq!(rounds(&mut cluster.keepers(patient), 12, PAUSE).await.rebuilt, 1);
    assert_eq!(cluster.shards(free).await.len(), 2, "it had nothing but a copy");
    let empty = MemoryNode::new("m", NodeIdentity { volume: VOLUME, node: first }, 1 << 40);
    cluster.replace(first, Arc::new(empty)).await;
    // Not before its time, once, and then the member's own goes like any other copy.
    let mut keepers = cluster.keepers(SETTINGS);
    assert_eq!(rounds(&mut keepers, 2, Duration::from_secs(20)).await.moved, 0);
    let done = rounds(&mut keepers, 40, PAUSE).await;
    assert_eq!((done.moved, done.rebuilt, done.removed), (1, 0, 1));
    for member in cluster.members.iter().filter(|member| member.id != second) {
        assert_eq!(cluster.shards(member.id).await.len(), 1, "m{}", member.id.0);
    }
    assert_eq!(cluster.client().stat("a").await.unwrap().shards, [(5, 5)]);
    assert_eq!(cluster.get("a").await.unwrap(), data);
}
