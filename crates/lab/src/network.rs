//! Servers at the ends of lines, as the wide-area study has them, and downloads from them in simulated time.
//!
//! The scheduler, the planner and the transfer are the product's own; only the lines and the clock are simulated. The clock
//! is tokio's, paused: it moves to the next moment at which something is due, so that a slow network costs no time, and one
//! seed gives the same download to the microsecond. Computing takes no time in it.
//!
//! Start reading at `download.rs`; `stored.rs` is the file that is downloaded.

mod download;
mod stored;

pub use download::{Client, Download, SetArrival};
pub use stored::{BLOCK_BYTES, StoredFile};

use std::num::NonZeroU64;
use std::time::Duration;
use weft_nodes::wrappers::Line;

/// The lines to a network's servers.
pub struct Network {
    /// As the study calls it.
    pub name: &'static str,
    /// The line of each server.
    servers: Vec<Line>,
    /// Lines that servers share: server `i` is behind line `i % count`. None: each server has its line to itself.
    regions: Vec<Line>,
}

/// Servers of a region.
const REGION_SERVERS: u64 = 12;

/// A region: its latency, the rate of one of its servers, and the rate that all of them share.
struct Region {
    latency_ms: u64,
    server_kilobytes: u64,
    shared_kilobytes: u64,
}

impl Network {
    /// Fifty servers that have nothing to do with each other.
    #[must_use]
    pub fn hodgepodge() -> Network {
        let server = |i| line(spread(i, 15, 250), spread(i + 100, 100, 2000), 30, 2);
        Network { name: "hodgepodge", servers: (0..50).map(server).collect(), regions: Vec::new() }
    }

    /// Four regions nearby: Alabama, California, Texas, Wisconsin.
    #[must_use]
    pub fn regional() -> Network {
        let region =
            |latency_ms, server_kilobytes, shared_kilobytes| Region { latency_ms, server_kilobytes, shared_kilobytes };
        let regions = [region(10, 2000, 4000), region(60, 800, 3000), region(30, 1200, 3000), region(25, 1500, 3000)];
        Network::of_regions("regional", &regions, 1)
    }

    /// Four regions far away: south-eastern Canada, western Europe, Singapore, Korea.
    #[must_use]
    pub fn slow_regional() -> Network {
        let region =
            |latency_ms, server_kilobytes, shared_kilobytes| Region { latency_ms, server_kilobytes, shared_kilobytes };
        let regions = [region(50, 400, 1600), region(110, 250, 1200), region(240, 150, 600), region(200, 150, 600)];
        Network::of_regions("slow regional", &regions, 2)
    }

    fn of_regions(name: &'static str, regions: &[Region], silent_per_mille: u32) -> Network {
        let server = |i: u64| {
            let Region { latency_ms, server_kilobytes, .. } = regions[i as usize % regions.len()];
            let kilobytes = spread(i + 100, server_kilobytes * 2 / 3, server_kilobytes * 3 / 2);
            line(spread(i, latency_ms, latency_ms * 3 / 2), kilobytes, 20, silent_per_mille)
        };
        let servers = (0..regions.len() as u64 * REGION_SERVERS).map(server).collect();
        Network {
            name,
            servers,
            regions: regions.iter().map(|region| line(0, region.shared_kilobytes, 0, 0)).collect(),
        }
    }
}

fn line(latency_ms: u64, kilobytes_per_second: u64, jitter_percent: u32, silent_per_mille: u32) -> Line {
    Line {
        latency: Duration::from_millis(latency_ms),
        jitter_percent,
        bytes_per_second: NonZeroU64::new(kilobytes_per_second * 1000).unwrap_or(NonZeroU64::MIN),
        silent_per_mille,
    }
}

/// Numbers in a range, the same every time, spread as by a logarithm.
fn spread(i: u64, from: u64, to: u64) -> u64 {
    let fraction = (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / (1u64 << 24) as f64;
    (from as f64 * (to as f64 / from as f64).powf(fraction)) as u64
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
