use super::*;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use weft_env::Env;

const SECOND: Duration = Duration::from_secs(1);

/// Has these bytes move over a link.
async fn send(link: &Arc<Progress>, bytes: usize) {
    let (near, _far) = tokio::io::duplex(bytes);
    let mut near = super::super::progress::Counted::new(near, [Arc::clone(link), Arc::clone(&unwatched())]);
    near.write_all(&vec![0; bytes]).await.expect("it has room");
}

fn unwatched() -> Arc<Progress> {
    Arc::new(Progress::new(&Env::system().clock))
}

fn request(bytes: u64, began: Instant) -> Arc<UnderWay> {
    Arc::new(UnderWay { bytes, is_large_put: true, began, watch: Arc::default() })
}

#[test]
fn what_stands_still_is_in_nobodys_way() {
    let (load, now) = (Load::default(), Env::system().clock.now());
    load.begin(&request(8, now));
    load.begin(&request(1, now + STILL));
    load.begin(&Arc::new(UnderWay { bytes: 7, is_large_put: false, began: now, watch: Arc::default() }));
    assert_eq!((load.moving_puts(now), load.moving_puts(now + STILL)), (vec![8, 1], vec![1]));
    assert_eq!(load.bytes(), 16);
}

/// Two daemons of one machine take turns: the cable is as fast as both together, whichever had it last.
#[tokio::test]
async fn a_cable_is_as_fast_as_all_that_moves_over_it() {
    let (load, links, now) = (Load::default(), [unwatched(), unwatched()], Env::system().clock.now());
    links.iter().for_each(|link| load.add_link(link, None, now));
    assert_eq!(load.speed().bytes_per_second(), None);
    let (large, small) = (request(8 << 20, now), request(1 << 20, now));
    load.begin(&large);
    load.begin(&small);
    send(&links[0], 4 << 20).await;
    send(&links[1], 1 << 20).await;
    load.end(&small, now + SECOND);
    assert_eq!((load.speed().bytes_per_second(), load.bytes()), (Some(5 << 20), 8 << 20));
    send(&links[0], 5 << 20).await;
    load.end(&large, now + 2 * SECOND);
    let speed = load.speed().bytes_per_second().expect("it was measured");
    assert!(speed.abs_diff(5 << 20) < 1000, "{speed}");
    load.stands_still(now + 2 * SECOND, now + 5 * SECOND);
    assert!(load.speed().bytes_per_second().is_some_and(|speed| speed < 1 << 20), "nothing came for 3 s");
}

#[tokio::test]
async fn it_carries_much_or_it_is_idle_whatever_links_there_are() {
    let (load, link, now) = (Load::default(), unwatched(), Env::system().clock.now());
    load.add_link(&link, Some(7), now);
    assert_eq!(load.speed().bytes_per_second(), Some(7));
    assert_eq!(load.carried(now), now);
    send(&link, SAMPLE_BYTES_MIN as usize - 1).await;
    assert_eq!(load.carried(now + SECOND), now, "a little is no sign");
    send(&link, 1).await;
    assert_eq!(load.carried(now + 2 * SECOND), now + 2 * SECOND);
    drop(link);
    assert_eq!(load.carried(now + 3 * SECOND), now + 2 * SECOND);
    let other = unwatched();
    load.add_link(&other, Some(9), now);
    send(&other, SAMPLE_BYTES_MIN as usize).await;
    assert_eq!(load.carried(now + 4 * SECOND), now + 4 * SECOND);
    assert_eq!(load.speed().bytes_per_second(), Some(7), "what is known already stands");
}
