//! What the product's code logs, put between the lines of a history.

use crate::scheduler::running;
use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Has events of the product down to this level told in the history that runs. Spans are left out: fibres take turns within them.
///
/// # Errors
/// Another log is kept already.
pub fn keep(level: Level) -> Result<(), tracing::subscriber::SetGlobalDefaultError> {
    tracing::subscriber::set_global_default(ProductLog { level })
}

struct ProductLog {
    level: Level,
}

impl Subscriber for ProductLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.level() <= &self.level && metadata.target().starts_with("weft")
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = format!("  {} {}:", event.metadata().level(), event.metadata().target());
        event.record(&mut Fields(&mut line));
        running().remark(&line);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Fields<'l>(&'l mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let written = match field.name() {
            "message" => write!(self.0, " {value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        debug_assert!(written.is_ok(), "a string takes everything");
    }
}
