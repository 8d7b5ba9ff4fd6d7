//! Counters of a daemon, as Prometheus reads them.

use hyper::StatusCode;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

/// What was answered, by request and status.
#[derive(Debug, Default)]
pub(super) struct Metrics(Mutex<BTreeMap<(&'static str, u16), Count>>);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    requests: u64,
    sent_bytes: u64,
    seconds: f64,
}

impl Metrics {
    pub(super) fn answered(&self, request: &'static str, status: StatusCode, sent_bytes: u64, took: Duration) {
        let mut counts = self.0.lock();
        let count = counts.entry((request, status.as_u16())).or_default();
        count.requests += 1;
        count.sent_bytes += sent_bytes;
        count.seconds += took.as_secs_f64();
    }

    /// In the text format of Prometheus.
    pub(super) fn text(&self) -> String {
        let counts = self.0.lock().clone();
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
        text
    }
}
