use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use weft_nodes::wrappers::fault::Call;
use weft_nodes::wrappers::{Fault, FaultNode, Operation};
use weft_nodes::{MemoryNode, NodeIdentity};

const VOLUME: VolumeId = VolumeId(7);

fn node() -> Arc<dyn Node> {
    Arc::new(MemoryNode::new("n", NodeIdentity { volume: VOLUME, node: NodeId(1) }, 1 << 20))
}

fn opening(number: u32, tag: u128) -> Opening {
    Opening { number, tag, began_ms: 1000 + u64::from(number) }
}

/// What metadata with this latest opening finds there: older ones, or a newer one.
async fn found(node: &dyn Node, latest: Option<Opening>) -> Result<Vec<u32>, Opening> {
    let Found { newer, held } = look(node, VOLUME, latest, &weft_env::SystemClock).await.expect("it answers");
    newer.map_or(Ok(held.into_iter().collect()), Err)
}

async fn told(node: &dyn Node, latest: Opening, held: &[u32]) {
    assert_eq!(tell(node, VOLUME, latest, &held.iter().copied().collect()).await, Ok(None));
}

#[tokio::test]
async fn finding_05_a_node_tells_older_metadata_of_the_newest_opening() {
    let node = node();
    assert_eq!(found(&*node, None).await, Ok(vec![]));
    told(&*node, opening(1, 10), &[]).await;
    assert_eq!(found(&*node, Some(opening(1, 10))).await, Ok(vec![1]));
    assert_eq!(found(&*node, Some(opening(1, 11))).await, Err(opening(1, 10)), "another of the same number");
    assert_eq!(found(&*node, None).await, Err(opening(1, 10)));
    for number in 2..=5 {
        told(&*node, opening(number, 10), &[number - 1]).await;
        for older in 1..number {
            assert_eq!(found(&*node, Some(opening(older, 10))).await, Err(opening(number, 10)));
        }
        // The one before is gone, so not more than one is there.
        assert_eq!(found(&*node, Some(opening(number, 10))).await, Ok(vec![number]));
    }
    // It was away when the next ones came.
    assert_eq!(found(&*node, Some(opening(9, 10))).await, Ok(vec![5]));
    told(&*node, opening(9, 10), &[5]).await;
    assert_eq!(found(&*node, Some(opening(9, 10))).await, Ok(vec![9]));
    assert_eq!(found(&*node, Some(opening(5, 10))).await, Err(opening(9, 10)));
}

#[tokio::test]
async fn finding_05_of_two_who_take_one_number_one_is_told() {
    let node = node();
    told(&*node, opening(1, 10), &[]).await;
    told(&*node, opening(2, 20), &[1]).await;
    assert_eq!(tell(&*node, VOLUME, opening(2, 21), &[1].into()).await, Ok(Some(opening(2, 20))));
    assert_eq!(found(&*node, Some(opening(2, 21))).await, Err(opening(2, 20)));
    assert_eq!(found(&*node, Some(opening(2, 20))).await, Ok(vec![2]));
}

#[tokio::test]
async fn finding_05_whatever_step_is_the_last_older_metadata_is_told() {
    for steps in 0..8 {
        let inner = node();
        told(&*inner, opening(3, 10), &[]).await;
        let left = AtomicI64::new(steps);
        let script = move |call: &Call| {
            let is_change = matches!(call.operation, Operation::Put | Operation::Remove);
            match is_change && left.fetch_sub(1, Ordering::SeqCst) <= 0 {
                true => Fault::Fail(NodeErrorKind::Unavailable),
                false => Fault::None,
            }
        };
        let cut = FaultNode::new(inner.clone(), "cut off", Box::new(script));
        let ended = tell(&cut, VOLUME, opening(7, 70), &[3].into()).await;
        for older in 1..7 {
            let seen = found(&*inner, Some(opening(older, 10))).await;
            // Whoever finds its own opening there is told from the first put on, the others from the second.
            let is_told = older < 3 || steps > 1 || (steps == 1 && older <= 4);
            assert_eq!(seen.is_err(), is_told, "{older} after {steps} steps: {seen:?}");
        }
        // Whoever took it goes on.
        let held = found(&*inner, Some(opening(7, 70))).await.expect("nothing is newer");
        told(&*inner, opening(7, 70), &held).await;
        assert_eq!(found(&*inner, Some(opening(7, 70))).await, Ok(vec![7]));
        assert_eq!(ended.is_ok(), steps > 3);
    }
}

/// What each leaves goes with a later one, in an order in which no opening is without the next one.
#[tokio::test]
async fn tellings_that_are_cut_off_one_after_another_leave_no_opening_that_takes_itself_for_the_newest() {
    for steps in (0..4).flat_map(|one| (0..4).map(move |other| [one, other, 9])) {
        let inner = node();
        told(&*inner, opening(3, 10), &[]).await;
        for (number, steps) in (4..).zip(steps) {
            let left = AtomicI64::new(steps);
            let script = move |call: &Call| {
                let is_change = matches!(call.operation, Operation::Put | Operation::Remove);
                match is_change && left.fetch_sub(1, Ordering::SeqCst) <= 0 {
                    true => Fault::Fail(NodeErrorKind::Unavailable),
                    false => Fault::None,
                }
            };
            let cut = FaultNode::new(inner.clone(), "cut off", Box::new(script));
            let held = found(&*inner, Some(opening(number - 1, 10))).await.expect("nothing is newer");
            let _ = tell(&cut, VOLUME, opening(number, 10), &held.into_iter().collect()).await;
        }
        for older in 3..6 {
            let seen = found(&*inner, Some(opening(older, 10))).await;
            assert_eq!(seen.map_err(|newer| newer.number), Err(6), "{older} after {steps:?} steps");
        }
        assert_eq!(found(&*inner, None).await.map_err(|newer| newer.number), Err(6));
    }
}

#[tokio::test]
async fn finding_05_a_damaged_opening_hides_no_newer_one_and_goes_with_the_next() {
    let node = node();
    told(&*node, opening(4, 10), &[]).await;
    let damage = async |number: u32| {
        let mut object = node.get(opening_key(number), 0..OBJECT_BYTES_MAX).await.unwrap().to_vec();
        *object.last_mut().unwrap() ^= 1;
        node.remove(opening_key(number)).await.unwrap();
        node.put(opening_key(number), &[object.into()]).await.unwrap();
    };
    damage(4).await;
    assert_eq!(found(&*node, Some(opening(4, 10))).await, Ok(vec![4]));
    assert_eq!(found(&*node, Some(opening(3, 10))).await.map_err(|newer| newer.number), Err(4));
    told(&*node, opening(5, 10), &[4]).await;
    damage(5).await;
    for older in [3, 4] {
        assert_eq!(found(&*node, Some(opening(older, 10))).await.map_err(|newer| newer.number), Err(5));
    }
    told(&*node, opening(6, 10), &[5]).await;
    assert_eq!(found(&*node, Some(opening(6, 10))).await, Ok(vec![6]));
}
