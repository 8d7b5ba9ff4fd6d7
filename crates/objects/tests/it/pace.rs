//! The pace of keepers: how fast they rebuild, and how long they wait before they give something up.

use crate::cluster::{TestCluster, TestMember, bytes, rounds};
use crate::keeping::SETTINGS;
use std::num::NonZeroU64;
use std::time::Duration;
use tokio::time::Instant;
use weft_format::records::{Stamp, data_segment, name_hash};
use weft_format::shard::object_bytes;
use weft_format::{Generation, ShardIndex, ShardKey};
use weft_objects::KeeperSettings;

/// Each rebuild has a transfer of its own. All of them together keep to the rate.
#[tokio::test(start_paused = true)]
async fn rebuilds_of_one_round_keep_to_the_rate_together_and_are_counted() {
    let cluster = TestCluster::new(8).await;
    for number in 0..8 {
        cluster.put(&format!("o{number}"), "rs:4+2", &bytes(400_000, number), false).await.unwrap();
    }
    let (away, member) = (cluster.members[1].id, &cluster.members[0]);
    cluster.kill(away);
    let bytes_per_second = 10_000;
    let settings = KeeperSettings {
        rebuild_after: Duration::ZERO,
        bytes_per_second: NonZeroU64::new(bytes_per_second),
        ..SETTINGS
    };
    let began = Instant::now();
    let round = cluster.keeper(member.id, settings).round().await;
    assert!(round.rebuilt > 2, "{round:?}");
    // What the last one moves is not waited for. Time is virtual.
    let moved_bytes = round.bytes_read + round.bytes_written;
    let paid_bytes = moved_bytes - moved_bytes / round.rebuilt as u64;
    assert!(began.elapsed() >= Duration::from_secs(paid_bytes / bytes_per_second), "{:?}", began.elapsed());
    // One lost shard of rs:4+2 takes the four data shards' payloads of 100,000 bytes, and what checks them.
    let shard_bytes = object_bytes(100_000);
    assert_eq!(round.bytes_written, round.rebuilt as u64 * shard_bytes);
    let least = round.rebuilt as u64 * 400_000;
    assert!((least..=round.rebuilt as u64 * 4 * shard_bytes).contains(&round.bytes_read), "{round:?}");
    let rebuilds = member.host.rebuilds();
    let told = (rebuilds.shards as usize, rebuilds.bytes_read, rebuilds.bytes_written);
    assert_eq!(told, (round.rebuilt, round.bytes_read, round.bytes_written));
}

async fn store_shard(member: &TestMember, number: u32) {
    let segment = data_segment(name_hash("a"), Stamp(7), number);
    let key = ShardKey { segment, generation: Generation::FIRST, index: ShardIndex(0) };
    member.host.node().put(key, &[bytes(10, 1).into()]).await.unwrap();
}

/// A member that stood in for another has shards of the first segments only. The upload goes on all the same.
#[tokio::test(start_paused = true)]
async fn an_upload_goes_on_while_any_member_gets_shards_of_it() {
    let cluster = TestCluster::new(6).await;
    let [alternate, other] = [0, 1].map(|number| &cluster.members[number]);
    let (mut keepers, minute) = ([cluster.keeper(alternate.id, SETTINGS)], Duration::from_secs(60));
    store_shard(alternate, 0).await;
    for number in 1..5 {
        store_shard(other, number).await;
        assert_eq!(rounds(&mut keepers, 8, minute).await.given_up, 0, "{number}");
    }
    assert_eq!(rounds(&mut keepers, 8, minute).await.given_up, 1);
    assert!(cluster.shards(alternate.id).await.is_empty());
}
