//! Counters of a daemon, as Prometheus reads them.

use super::objects::Counter;
use hyper::StatusCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What was answered, and what was read for it.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// By request and status.
    answered: Mutex<BTreeMap<(&'static str, u16), Count>>,
    combined_bytes: AtomicU64,
    short_circuit_files: AtomicU64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u64,
    sent_bytes: u64,
    seconds: f64,
}

impl Metrics {
    pub(super) fn answered(&self, request: &'static str, status: StatusCode, sent_bytes: u64, took: Duration) {
        let mut counts = self.answered.lock();
        let count = counts.entry((request, status.as_u16())).or_default();
        count.requests += 1;
        count.sent_bytes += sent_bytes;
        count.seconds += took.as_secs_f64();
    }

    /// So many bytes of shards went into a combination.
    pub(super) fn combined(&self, read_bytes: u64) {
        self.combined_bytes.fetch_add(read_bytes, Ordering::Relaxed);
    }

    /// A shard's open file was handed over; how much is read of it is not known here.
    pub(super) fn short_circuited(&self) {
        self.short_circuit_files.fetch_add(1, Ordering::Relaxed);
    }

    /// In the text format of Prometheus, with `further` counters at the end.
    pub(super) fn text(&self, further: &[Counter]) -> String {
        let counts = self.answered.lock().clone();
        let mut text = String::new();
        let mut series = |name: &str, help: &str, value: &dyn Fn(&Count) -> f64| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter");
            for ((request, status), count) in &counts {
                let _ = writeln!(text, "{name}{{request=\"{request}\",status=\"{status}\"}} {}", value(count));
            }
        };
        series("weft_node_requests_total", "Requests answered.", &|count| count.requests as f64);
        series("weft_node_sent_bytes_total", "Bytes of bodies sent.", &|count| count.sent_bytes as f64);
        series("weft_node_request_seconds_total", "Time from a request's head to its answer.", &|count| count.seconds);
        let mut total = |name: &str, help: &str, value: u64| {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} counter\n{name} {value}");
        };
        let combined_bytes = self.combined_bytes.load(Ordering::Relaxed);
        total("weft_node_combined_bytes_total", "Bytes read to be combined.", combined_bytes);
        let short_circuit_files = self.short_circuit_files.load(Ordering::Relaxed);
        let help = "Open files handed to users on the same machine.";
        total("weft_node_short_circuit_files_total", help, short_circuit_files);
        further.iter().for_each(|counter| total(counter.name, counter.help, counter.value));
        text
    }
}
