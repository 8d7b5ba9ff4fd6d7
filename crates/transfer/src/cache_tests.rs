use super::*;

const SEGMENT: SegmentId = SegmentId(7);
const DATA_BYTES: u64 = 3 * BLOCK_BYTES + 100;

fn block(byte: u8, length: u64) -> Block {
    Block { bytes: vec![byte; length as usize].into(), report: Arc::default() }
}

/// The part that comes from one place, and its bytes if they are there or come.
async fn next(cache: &Cache, range: Range<u64>) -> (Range<u64>, Option<Block>) {
    let (part, look) = cache.look(SEGMENT, range);
    let block = match look {
        Look::Kept(block) => Some(block),
        Look::Coming(coming) => cache.wait(coming, SEGMENT, part.clone()).await,
        Look::Absent => None,
    };
    (part, block)
}

#[tokio::test]
async fn a_range_comes_in_parts_cached_or_not() {
    let cache = Arc::new(Cache::new(64 << 20));
    let mut promises = cache.promise(SEGMENT, BLOCK_BYTES..2 * BLOCK_BYTES, DATA_BYTES);
    assert_eq!(promises.len(), 1);
    promises.remove(0).keep(block(1, BLOCK_BYTES));
    let (part, bytes) = next(&cache, 10..DATA_BYTES).await;
    assert_eq!((part, bytes.is_none()), (10..BLOCK_BYTES, true));
    let (part, bytes) = next(&cache, BLOCK_BYTES + 5..DATA_BYTES).await;
    assert_eq!(part, BLOCK_BYTES + 5..2 * BLOCK_BYTES);
    assert_eq!(bytes.unwrap().bytes.len() as u64, BLOCK_BYTES - 5);
    let (part, bytes) = next(&cache, 2 * BLOCK_BYTES..DATA_BYTES).await;
    assert_eq!((part, bytes.is_none()), (2 * BLOCK_BYTES..DATA_BYTES, true));
}

#[tokio::test]
async fn one_promise_a_block_and_the_last_block_is_short() {
    let cache = Arc::new(Cache::new(64 << 20));
    let promises = cache.promise(SEGMENT, 0..u64::MAX, DATA_BYTES);
    assert_eq!(promises.len(), 4);
    assert_eq!(promises[3].range, 3 * BLOCK_BYTES..DATA_BYTES);
    assert!(cache.promise(SEGMENT, 0..u64::MAX, DATA_BYTES).is_empty());
}

#[tokio::test]
async fn a_read_waits_for_a_promised_block_and_not_for_a_broken_promise() {
    let cache = Arc::new(Cache::new(64 << 20));
    let mut promises = cache.promise(SEGMENT, 0..BLOCK_BYTES, DATA_BYTES);
    let mut waiting = Box::pin(next(&cache, 0..100));
    assert!(tokio::select! { biased; _ = &mut waiting => false, () = std::future::ready(()) => true });
    promises.remove(0).keep(block(9, BLOCK_BYTES));
    assert_eq!(waiting.await.1.unwrap().bytes, vec![9; 100]);

    let promises = cache.promise(SEGMENT, BLOCK_BYTES..BLOCK_BYTES + 1, DATA_BYTES);
    let mut waiting = Box::pin(next(&cache, BLOCK_BYTES..BLOCK_BYTES + 100));
    assert!(tokio::select! { biased; _ = &mut waiting => false, () = std::future::ready(()) => true });
    drop(promises);
    assert!(waiting.await.1.is_none());
}

#[tokio::test]
async fn without_room_nothing_is_kept_or_promised() {
    let cache = Arc::new(Cache::new(BLOCK_BYTES - 1));
    assert!(cache.promise(SEGMENT, 0..10, DATA_BYTES).is_empty());
    assert_eq!(next(&cache, 0..DATA_BYTES).await.0, 0..DATA_BYTES);
}
