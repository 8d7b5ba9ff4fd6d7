use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const SECOND: Duration = Duration::from_secs(1);

fn account(now: Instant) -> Account {
    Account::new(NonZeroU64::new(1000).unwrap(), now)
}

#[test]
fn time_pays_and_is_not_saved_up() {
    let now = Instant::now();
    let mut account = account(now);
    account.charge(Class::Foreground, 500, now);
    account.charge(Class::Foreground, 500, now);
    assert_eq!(account.paid_at, now + SECOND);
    account.charge(Class::Foreground, 500, now + 10 * SECOND);
    assert_eq!(account.paid_at, now + 10 * SECOND + SECOND / 2);
    account.charge(Class::Background, u64::MAX, now);
    account.charge(Class::Background, u64::MAX, now);
    assert!(account.background_paid_at <= now + 3 * LONGEST_DEBT);
}

#[test]
fn the_background_waits_for_its_share_while_there_is_a_foreground() {
    let now = Instant::now();
    let mut account = account(now);
    account.charge(Class::Background, 1000, now);
    assert_eq!(account.background_waits_until(now), None, "alone it takes all");
    let now = now + 10 * SECOND;
    account.charge(Class::Foreground, 100, now);
    account.charge(Class::Background, 250, now);
    let foreground_ends = account.foreground_until;
    assert_eq!(foreground_ends, now + SECOND / 10 + FOREGROUND_STAYS);
    assert_eq!(account.background_waits_until(now), Some(foreground_ends), "its 250 bytes are a second's");
    assert_eq!(account.background_waits_until(foreground_ends), None);
    account.foreground_waiting = 1;
    let is_paid = now + SECOND + SECOND / 4 - FOREGROUND_STAYS;
    assert_eq!(account.background_waits_until(is_paid - SECOND / 10), Some(is_paid));
    assert_eq!(account.background_waits_until(is_paid), None, "its share is paid for");
}

/// Moves pieces until `end`, and counts their bytes.
fn mover(rate: &Arc<Rate>, class: Class, piece_bytes: u64, end: Instant) -> Arc<AtomicU64> {
    let (rate, moved) = (Arc::clone(rate), Arc::new(AtomicU64::new(0)));
    let counter = Arc::clone(&moved);
    tokio::spawn(async move {
        while Instant::now() < end {
            rate.pay(class, piece_bytes).await;
            counter.fetch_add(piece_bytes, Ordering::Relaxed);
        }
    });
    moved
}

#[tokio::test(start_paused = true)]
async fn both_get_their_share_also_of_unlike_pieces() {
    for (foreground_bytes, background_bytes) in [(1_000, 1_000), (1_000, 40_000), (40_000, 40_000)] {
        let rate = Arc::new(Rate::new(NonZeroU64::new(1_000_000).unwrap()));
        let end = Instant::now() + 20 * SECOND;
        let foreground = mover(&rate, Class::Foreground, foreground_bytes, end);
        let background = [0; 3].map(|_| mover(&rate, Class::Background, background_bytes, end));
        tokio::time::sleep_until(end).await;
        let background: u64 = background.iter().map(|moved| moved.load(Ordering::Relaxed)).sum();
        let foreground = foreground.load(Ordering::Relaxed);
        assert!((19_500_000..20_200_000).contains(&(foreground + background)), "{foreground} + {background}");
        assert!((3_600_000..4_200_000).contains(&background), "{foreground_bytes}: {foreground} + {background}");
    }
}

#[tokio::test(start_paused = true)]
async fn alone_each_gets_everything() {
    let rate = Arc::new(Rate::new(NonZeroU64::new(1_000_000).unwrap()));
    let background = mover(&rate, Class::Background, 10_000, Instant::now() + 20 * SECOND);
    tokio::time::sleep(10 * SECOND).await;
    assert!(background.load(Ordering::Relaxed) >= 9_900_000);
    // A user comes for five seconds.
    let foreground = mover(&rate, Class::Foreground, 10_000, Instant::now() + 5 * SECOND);
    tokio::time::sleep(10 * SECOND).await;
    let (foreground, background) = (foreground.load(Ordering::Relaxed), background.load(Ordering::Relaxed));
    assert!((3_900_000..4_200_000).contains(&foreground), "{foreground}");
    assert!((15_400_000..16_200_000).contains(&background), "{background}");
}

#[tokio::test(start_paused = true)]
async fn who_stops_waiting_takes_nothing() {
    let rate = Rate::new(NonZeroU64::new(1000).unwrap());
    rate.pay(Class::Foreground, 1000).await;
    for class in [Class::Foreground, Class::Background] {
        assert!(tokio::time::timeout(SECOND / 3, rate.pay(class, 1000)).await.is_err());
    }
    assert!(rate.delay(Class::Foreground, 0) < SECOND - SECOND / 2);
    assert_eq!(rate.account.lock().foreground_waiting, 0);
}
