//! Numbers that make sense, and what is said of others.

use super::{Needs, Node};

/// Why codes cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum ChoiceError {
    /// No code has fewer than two shards.
    #[error(
        "a code needs nodes in 2 domains at least, and these have room in {domains}: add nodes, or give them domains of their own"
    )]
    TooFewDomains {
        /// With room.
        domains: usize,
    },
    /// A code has more shards than there are domains.
    #[error(
        "{code} needs {width} domains, and these nodes have room in {domains}: add nodes, or choose a code with fewer shards"
    )]
    TooWide {
        /// Its spec.
        code: String,
        /// Its shards.
        width: usize,
        /// With room.
        domains: usize,
    },
    /// A number that makes no sense.
    #[error("{what} is {value}, and must be {wanted}: correct it")]
    Number {
        /// Which.
        what: String,
        /// As given.
        value: f64,
        /// In words.
        wanted: &'static str,
    },
    /// A code's program is not sound.
    #[error("{code} cannot be judged ({detail}): report it, and choose another")]
    Code {
        /// Its spec.
        code: String,
        /// Why.
        detail: String,
    },
}

/// Are all numbers such that figures follow from them?
pub(super) fn check(nodes: &[Node], needs: &Needs) -> Result<(), ChoiceError> {
    let number = |what: String, value: f64, wanted: &'static str, is_right: bool| match is_right && value.is_finite() {
        true => Ok(()),
        false => Err(ChoiceError::Number { what, value, wanted }),
    };
    let positive = |what: &str, value: f64| number(what.to_owned(), value, "more than 0", value > 0.0);
    for node in nodes {
        let of = |what: &str| format!("{what} of node {}", node.name);
        number(of("the speed"), node.bytes_per_second, "more than 0", node.bytes_per_second > 0.0)?;
        number(of("the failure rate"), node.annual_failure_rate, "more than 0", node.annual_failure_rate > 0.0)?;
        let others = [
            ("the latency", node.latency_ms),
            ("the price", node.price_per_gib_month),
            ("the price of reads", node.price_per_gib_read),
            ("the room", node.room_bytes),
        ];
        others.into_iter().try_for_each(|(what, value)| number(of(what), value, "0 or more", value >= 0.0))?;
    }
    positive("the loss at most", needs.annual_loss_max)?;
    positive("the capacity", needs.capacity_bytes)?;
    positive("the size of files", needs.file_bytes)?;
    positive("the speed of the client", needs.client_bytes_per_second)?;
    number(
        "the time to detect a loss".to_owned(),
        needs.detection_seconds,
        "0 or more",
        needs.detection_seconds >= 0.0,
    )?;
    let share = needs.repair_share;
    number("the share of repairs".to_owned(), share, "more than 0 and at most 1", share > 0.0 && share <= 1.0)
}
