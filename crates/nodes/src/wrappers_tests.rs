use super::fault::{Rates, seeded};
use super::*;
use crate::conformance::{check_all, key, shard};
use crate::{MemoryNode, Node, NodeError, NodeErrorKind, NodeIdentity};
use bytes::Bytes;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use weft_format::{NodeId, VolumeId};

const VOLUME: VolumeId = VolumeId(1);

fn memory() -> Arc<dyn Node> {
    Arc::new(MemoryNode::new("memory", NodeIdentity { volume: VOLUME, node: NodeId(2) }, 1 << 30))
}

fn faulty(script: impl FnMut(&fault::Call) -> Fault + Send + 'static) -> Arc<FaultNode> {
    Arc::new(FaultNode::new(memory(), "faulty", Box::new(script)))
}

fn kind<T>(result: Result<T, NodeError>) -> Option<NodeErrorKind> {
    result.err().map(|error| error.kind)
}

#[tokio::test]
async fn each_wrapper_conforms() {
    check_all(|| async { Arc::new(RecordNode::new(memory(), 10)) as Arc<dyn Node> }).await;
    check_all(|| async { faulty(|_| Fault::None) as Arc<dyn Node> }).await;
    let limits = Limits { concurrent_calls: 2, bytes_per_second: NonZeroU64::new(1 << 40) };
    check_all(|| async { Arc::new(LimitNode::new(memory(), limits)) as Arc<dyn Node> }).await;
}

#[tokio::test(start_paused = true)]
async fn limit_keeps_the_rate() {
    let limits = Limits { concurrent_calls: 10, bytes_per_second: NonZeroU64::new(1_000) };
    let node = LimitNode::new(memory(), limits);
    let start = Instant::now();
    let bytes = Bytes::from(vec![0; 500]);
    for index in 0..10 {
        node.put(key(1, index), std::slice::from_ref(&bytes)).await.unwrap();
    }
    // The last of 10 waits for the 9 before it.
    assert!((4_500..4_520).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    for index in 0..10 {
        node.get(key(1, index), 0..u64::MAX).await.unwrap();
    }
    assert!((9_500..9_550).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn limit_keeps_the_number_of_calls() {
    let slow = faulty(|_| Fault::Delay(Duration::from_secs(1)));
    let node = Arc::new(LimitNode::new(slow, Limits { concurrent_calls: 3, bytes_per_second: None }));
    let start = Instant::now();
    let calls: Vec<_> = (0..9)
        .map(|_| {
            let node = Arc::clone(&node);
            tokio::spawn(async move { node.stat(key(1, 0)).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    assert!((3_000..3_010).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn limit_leaves_the_background_its_share_of_calls_and_bytes() {
    let slow = faulty(|_| Fault::Delay(Duration::from_millis(100)));
    let limits = Limits { concurrent_calls: 10, bytes_per_second: None };
    let foreground: Arc<dyn Node> = Arc::new(LimitNode::new(slow, limits));
    let background = foreground.in_background().unwrap();
    let end = Instant::now() + Duration::from_secs(10);
    let caller = |node: &Arc<dyn Node>| {
        let node = Arc::clone(node);
        tokio::spawn(async move {
            let mut calls = 0;
            while Instant::now() < end {
                node.stat(key(1, 0)).await.unwrap_err();
                calls += 1;
            }
            calls
        })
    };
    let background: Vec<_> = (0..20).map(|_| caller(&background)).collect();
    // Alone it has all ten; then users come, more than there is room for.
    tokio::time::sleep(Duration::from_millis(5_010)).await;
    let foreground: Vec<_> = (0..20).map(|_| caller(&foreground)).collect();
    let (mut of_background, mut of_foreground) = (0, 0);
    for call in background {
        of_background += call.await.unwrap();
    }
    for call in foreground {
        of_foreground += call.await.unwrap();
    }
    println!("{of_background} calls in the background, {of_foreground} for users");
    assert!((590..=630).contains(&of_background), "500 alone, then a fifth of 500: {of_background}");
    assert!((390..=430).contains(&of_foreground), "{of_foreground}");
}

#[tokio::test(start_paused = true)]
async fn limit_gives_the_background_what_users_leave() {
    let slow = faulty(|_| Fault::Delay(Duration::from_millis(100)));
    let foreground = LimitNode::new(slow, Limits { concurrent_calls: 10, bytes_per_second: None });
    let background = foreground.in_background().unwrap();
    let foreground = Arc::new(foreground);
    let user = tokio::spawn({
        let foreground = foreground.clone();
        async move {
            for _ in 0..100 {
                foreground.stat(key(1, 0)).await.unwrap_err();
            }
        }
    });
    tokio::task::yield_now().await;
    let start = Instant::now();
    let calls: Vec<_> = (0..40)
        .map(|_| {
            let background = background.clone();
            tokio::spawn(async move { background.stat(key(1, 0)).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap_err();
    }
    // Two at a time beside the user.
    assert!((1_900..2_200).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
    user.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn limit_passes_over_who_stopped_waiting() {
    let slow = faulty(|_| Fault::Delay(Duration::from_secs(1)));
    let node = Arc::new(LimitNode::new(slow, Limits { concurrent_calls: 1, bytes_per_second: None }));
    let first = tokio::spawn({
        let node = node.clone();
        async move { node.space().await }
    });
    tokio::task::yield_now().await;
    for _ in 0..3 {
        assert!(tokio::time::timeout(Duration::from_millis(10), node.space()).await.is_err());
    }
    let start = Instant::now();
    node.stat(key(1, 0)).await.unwrap_err();
    assert!(start.elapsed() < Duration::from_millis(2_000), "{:?}", start.elapsed());
    first.await.unwrap().unwrap();
    assert_eq!(node.held_back(1), Duration::ZERO);
}

#[tokio::test]
async fn record_counts_and_remembers() {
    let node = RecordNode::new(memory(), 2);
    let bytes = Bytes::from(vec![1; 100]);
    node.put(key(1, 0), &[bytes.clone(), bytes]).await.unwrap();
    node.get(key(1, 0), 50..150).await.unwrap();
    node.get(key(1, 1), 0..10).await.unwrap_err();
    node.stat(key(1, 0)).await.unwrap();
    let expected = Counts { puts: 1, gets: 1, others: 1, failures: 1, bytes_read: 100, bytes_written: 200 };
    assert_eq!(node.counts(), expected);
    let calls = node.take_calls();
    let failed = record::Call {
        operation: Operation::Get,
        key: Some(key(1, 1)),
        range: Some(0..10),
        bytes: 0,
        failure: Some(NodeErrorKind::NotFound),
    };
    assert_eq!((calls.len(), &calls[0]), (2, &failed));
    assert_eq!(node.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn faults_do_what_they_say() {
    let faulty = faulty(|_| Fault::None);
    let (mine, other) = (key(1, 0), key(2, 0));
    let bytes = shard(VOLUME, mine, 1_000, 1);
    let other_bytes = shard(VOLUME, other, 1_000, 2);
    faulty.put(mine, std::slice::from_ref(&bytes)).await.unwrap();
    faulty.put(other, std::slice::from_ref(&other_bytes)).await.unwrap();
    let set = |fault: Fault| faulty.set_script(Box::new(move |_| fault));

    set(Fault::Short { bytes: 10 });
    assert_eq!(faulty.get(mine, 0..100).await.unwrap(), bytes.slice(..90));
    set(Fault::FlipBit { bit: 8 * 100 + 3 });
    assert_eq!(faulty.get(mine, 0..100).await.unwrap()[0], bytes[0] ^ 8);
    set(Fault::Other(other));
    assert_eq!(faulty.get(mine, 0..u64::MAX).await.unwrap(), other_bytes);
    set(Fault::Lie);
    faulty.remove(mine).await.unwrap();
    faulty.put(key(3, 0), &[Bytes::new()]).await.unwrap();
    set(Fault::None);
    assert_eq!(faulty.get(mine, 0..u64::MAX).await.unwrap(), bytes);
    assert_eq!(kind(faulty.stat(key(3, 0)).await), Some(NodeErrorKind::NotFound));
    set(Fault::FlipBit { bit: 0 });
    faulty.put(key(4, 0), std::slice::from_ref(&bytes)).await.unwrap();
    set(Fault::None);
    assert_ne!(faulty.get(key(4, 0), 0..u64::MAX).await.unwrap(), bytes);
    set(Fault::Silence);
    tokio::time::timeout(Duration::from_secs(3600), faulty.space()).await.unwrap_err();
}

#[tokio::test]
async fn seeded_faults_are_the_same_again() {
    let rates = Rates { fail_per_mille: 100, flip_per_mille: 100, short_per_mille: 100, lie_per_mille: 100 };
    let faults = |seed| {
        let mut script = seeded(seed, rates);
        (0..1_000)
            .map(|number| script(&fault::Call { number, operation: Operation::Get, key: None }))
            .collect::<Vec<_>>()
    };
    assert_eq!(faults(5), faults(5));
    assert_ne!(faults(5), faults(6));
    let healthy = faults(5).into_iter().filter(|fault| *fault == Fault::None).count();
    assert!((500..700).contains(&healthy), "{healthy} of 1000");
}

#[tokio::test(start_paused = true)]
async fn a_line_takes_its_latency_and_its_bytes() {
    let line = Line {
        latency: Duration::from_millis(100),
        jitter_percent: 0,
        bytes_per_second: NonZeroU64::new(1_000_000).unwrap(),
        silent_per_mille: 0,
    };
    let node = Arc::new(ShapeNode::new(memory(), line, 1));
    let started = Instant::now();
    node.put(key(1, 0), &[Bytes::from(vec![1; 500_000])]).await.unwrap();
    assert_eq!(started.elapsed().as_millis(), 600);
    // Two at a time share the line, and their latencies pass together.
    let started = Instant::now();
    let (first, second) = tokio::join!(node.get(key(1, 0), 0..500_000), node.get(key(1, 0), 0..250_000));
    assert_eq!((first.unwrap().len(), second.unwrap().len()), (500_000, 250_000));
    assert_eq!(started.elapsed().as_millis(), 850);
    node.set_line(Line { silent_per_mille: 1000, ..line });
    let silence = tokio::time::timeout(Duration::from_secs(3600), node.stat(key(1, 0))).await;
    assert!(silence.is_err(), "it never answers");
    // Jitter: nothing comes before the latency, and the mean is what it says.
    node.set_line(Line { jitter_percent: 50, ..line });
    let started = Instant::now();
    for _ in 0..1000 {
        let asked = Instant::now();
        node.stat(key(1, 0)).await.unwrap();
        assert!(asked.elapsed() >= line.latency);
    }
    let mean_ms = started.elapsed().as_millis() / 1000;
    assert!((140..160).contains(&mean_ms), "{mean_ms}");
}

#[tokio::test(start_paused = true)]
async fn finding_25_a_node_with_no_turn_left_still_says_that_it_is_there() {
    let slow = faulty(|call| match call.operation {
        Operation::Put => Fault::Delay(Duration::from_secs(60)),
        _ => Fault::None,
    });
    let node = Arc::new(LimitNode::new(slow, Limits { concurrent_calls: 1, bytes_per_second: NonZeroU64::new(10) }));
    let puts: Vec<_> = (0..3)
        .map(|index| {
            let node = Arc::clone(&node);
            tokio::spawn(async move { node.put(key(1, index), &[Bytes::from(vec![0; 500])]).await })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let began = Instant::now();
    node.space().await.unwrap();
    node.identity().await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    puts.into_iter().for_each(|put| put.abort());
}
