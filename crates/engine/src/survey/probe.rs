//! A few short requests to a node, for its latency, its room and its speed.

use std::sync::Arc;
use std::time::Duration;
use weft_env::Clock;
use weft_format::ShardKey;
use weft_nodes::{Node, Space};

/// A node that takes longer is not waited for.
const DEADLINE: Duration = Duration::from_secs(3);

/// Requests for a latency: the median of three ignores one delayed request.
const REQUESTS: usize = 3;

/// Bytes of a shard that are read for the speed.
const READ_BYTES: u64 = 1 << 20;

/// Fewer bytes say nothing of a speed.
const READ_BYTES_MIN: usize = 128 << 10;

/// The measurements of a node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Probe {
    /// `None`: it does not answer.
    pub latency: Option<Duration>,
    pub space: Option<Space>,
    /// `None`: it has no shard that is long enough.
    pub bytes_per_second: Option<f64>,
}

/// Asks a node who it is and how much room it has, and reads a part of `shard`.
pub(super) async fn probe(node: Arc<dyn Node>, shard: Option<ShardKey>, clock: Arc<dyn Clock>) -> Probe {
    let asked = clock.timeout(DEADLINE, ask(&*node, &*clock)).await;
    let Some((latency, space)) = asked.ok().flatten() else { return Probe::default() };
    let mut bytes_per_second = None;
    if let Some(shard) = shard {
        let began = clock.now();
        let read = clock.timeout(DEADLINE, node.get(shard, 0..READ_BYTES)).await;
        if let Ok(Ok(bytes)) = read
            && bytes.len() >= READ_BYTES_MIN
        {
            bytes_per_second = Some(speed(bytes.len(), clock.elapsed(began), latency));
        }
    }
    Probe { latency: Some(latency), space: Some(space), bytes_per_second }
}

/// The median time of a request, and the room; `None`: it does not answer as it should.
async fn ask(node: &dyn Node, clock: &dyn Clock) -> Option<(Duration, Space)> {
    let mut times = Vec::with_capacity(REQUESTS);
    for _ in 0..REQUESTS {
        let began = clock.now();
        node.identity().await.ok()?;
        times.push(clock.elapsed(began));
    }
    times.sort_unstable();
    Some((times[REQUESTS / 2], node.space().await.ok()?))
}

/// Bytes a second of a read, without the latency. At least a tenth of the time counts: the latency may have been longer than usual.
fn speed(bytes: usize, elapsed: Duration, latency: Duration) -> f64 {
    let seconds = elapsed.saturating_sub(latency).max(elapsed / 10).as_secs_f64();
    bytes as f64 / seconds.max(1e-6)
}

#[cfg(test)]
#[path = "probe_tests.rs"]
mod tests;
