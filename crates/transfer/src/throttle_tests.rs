use super::*;
use weft_env::SystemClock;

/// Follows the paused time of a test's runtime.
fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock)
}

const STAYS_US: u64 = FOREGROUND_STAYS.as_micros() as u64;

#[test]
fn one_thing_at_a_time_and_a_rest_after_it() {
    let mut background = Background::default();
    assert_eq!(background.waits_until_us(0, 5), None);
    background.under_way = 1;
    assert_eq!(background.waits_until_us(0, 5), None, "nobody else is there");
    assert_eq!(background.waits_until_us(100, 5), Some(100));
    assert_eq!(background.waits_until_us(u64::MAX, 5), Some(5 + LOOK_AGAIN_US));
    background.ended(10, 20);
    assert_eq!(background.rested_us, 20 + 40, "ten of fifty are a fifth");
    assert_eq!(background.waits_until_us(100, 20), Some(60));
    assert_eq!(background.waits_until_us(50, 20), Some(50), "the foreground may be gone sooner");
    assert_eq!(background.waits_until_us(100, 60), None);
    assert_eq!(background.waits_until_us(20, 20), None, "nobody else is there");
}

#[tokio::test(start_paused = true)]
async fn the_foreground_is_seen_while_it_calls_and_a_little_longer() {
    let traffic = Arc::new(Traffic::new(&clock()));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(traffic.foreground_until_us(1_000_000), 0);
    let call = ForegroundCall::new(&traffic);
    assert_eq!(traffic.foreground_until_us(1_000_000), 1_000_000 + STAYS_US);
    tokio::time::advance(Duration::from_secs(1)).await;
    drop(call);
    assert_eq!(traffic.foreground_until_us(2_000_001), 2_000_000 + STAYS_US);
}

#[tokio::test(start_paused = true)]
async fn beside_a_foreground_it_takes_its_share_of_the_time_and_alone_all() {
    let (busy, idle) = (Arc::new(Traffic::new(&clock())), Arc::new(Traffic::new(&clock())));
    let began = clock().now();
    let _foreground = ForegroundCall::new(&busy);
    let worker = |nodes: Vec<Arc<Traffic>>| async move {
        let mut done = 0;
        while clock().elapsed(began) < Duration::from_secs(100) {
            let turn = BackgroundTurn::begin(nodes.clone(), &clock()).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            drop(turn);
            done += 1;
        }
        done
    };
    let workers = [0; 3].map(|_| tokio::spawn(worker(vec![idle.clone(), busy.clone()])));
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap();
    }
    assert!((150..=205).contains(&done), "{done} tenths of a second of 100 s");
    let began = clock().now();
    drop(BackgroundTurn::begin(vec![idle], &clock()).await);
    assert_eq!(clock().elapsed(began), Duration::ZERO, "what it did elsewhere is no reason to wait where nobody is");
}
