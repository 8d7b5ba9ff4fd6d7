use super::*;
use crate::dial::Dialed;
use async_trait::async_trait;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use weft_env::{Clock, Sleep};

/// The machine's clock, and how often somebody waited by it.
struct Counting {
    clock: Arc<dyn Clock>,
    waits: AtomicUsize,
}

impl Clock for Counting {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn unix_time(&self) -> Duration {
        self.clock.unix_time()
    }

    fn sleep_until(&self, moment: Instant) -> Sleep {
        // Time that is paused would stand still for ever.
        assert!(self.waits.fetch_add(1, Ordering::Relaxed) < 10_000, "it waits again and again for what is over");
        self.clock.sleep_until(moment)
    }

    fn block(&self, time: Duration) {
        self.clock.block(time);
    }
}

/// Takes connections and says nothing.
#[derive(Default)]
struct Mute(Mutex<Vec<tokio::io::DuplexStream>>);

#[async_trait]
impl Dial for Mute {
    async fn dial(&self, _: &str) -> io::Result<Dialed> {
        let (here, there) = tokio::io::duplex(1 << 16);
        self.0.lock().push(there);
        Ok(Dialed::over(here))
    }
}

#[tokio::test(start_paused = true)]
async fn a_well_known_member_that_does_not_answer_costs_nothing() {
    let system = Env::system();
    let clock = Arc::new(Counting { clock: system.clock.clone(), waits: AtomicUsize::new(0) });
    let env = Env { clock: clock.clone(), ..system };
    let url = |port: u16| DaemonUrl::parse("weft", &format!("127.0.0.1:{port}")).unwrap();
    let settings =
        GossipSettings { key: None, own: url(1), further: Vec::new(), join: vec![url(2)], domain: String::new() };
    let dial: Arc<dyn Dial> = Arc::new(Mute::default());
    let gossiper = Gossiper::new(settings, &dial, &env);
    let gossiping = gossiper.run(|| Served { load_bytes: 0, node: None });
    assert!(tokio::time::timeout(Duration::from_secs(60), gossiping).await.is_err(), "it goes on for ever");
    // Heartbeats, and what each question waits for.
    let waits = clock.waits.load(Ordering::Relaxed);
    assert!((10..1000).contains(&waits), "{waits}");
}
