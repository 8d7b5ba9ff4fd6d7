//! A transfer as a picture, and as JSON: which block from which node when, what came late, failed, or was asked elsewhere.

use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Instant;
use weft_engine::transfers::trace::{Event, What};

/// Writes it to a file: a picture where the name ends in `.svg`, JSON otherwise.
pub fn write(path: &Path, events: &[Event]) -> Result<()> {
    let is_picture = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("svg"));
    let text = if is_picture { svg(events) } else { format!("{:#}\n", json(events)) };
    std::fs::write(path, text).with_context(|| format!("the trace cannot be written to {}", path.display()))
}

/// An object for each event, times in microseconds from the first on.
fn json(events: &[Event]) -> Value {
    let start = start(events);
    let event = |event: &Event| {
        let mut object = json!({
            "at_us": since_us(start, event.at),
            "download_began_us": since_us(start, event.began),
            "segment": event.segment.to_string(),
            "set": event.set,
            "what": name(&event.what),
        });
        if let Some(block) = &event.block {
            object["request"] = block.request.into();
            object["shard"] = block.shard.into();
            object["node"] = block.node.clone().into();
            object["payload"] = json!([block.payload.start, block.payload.end]);
        }
        match &event.what {
            What::Asked { bytes, instead } => {
                object["bytes"] = (*bytes).into();
                object["instead"] = (*instead).into();
            }
            What::Arrived { bytes } => object["bytes"] = (*bytes).into(),
            What::Failed { detail } => object["detail"] = detail.clone().into(),
            What::Ready { degraded } => object["degraded"] = (*degraded).into(),
            What::Busy | What::Late | What::Dropped | What::Delivered => {}
        }
        object
    };
    events.iter().map(event).collect()
}

fn name(what: &What) -> &'static str {
    match what {
        What::Asked { .. } => "asked",
        What::Arrived { .. } => "arrived",
        What::Failed { .. } => "failed",
        What::Busy => "busy",
        What::Late => "late",
        What::Dropped => "dropped",
        What::Ready { .. } => "ready",
        What::Delivered => "delivered",
    }
}

fn start(events: &[Event]) -> Option<Instant> {
    events.iter().map(|event| event.began).min()
}

fn since_us(start: Option<Instant>, at: Instant) -> u64 {
    start.map_or(0, |start| (at - start).as_micros() as u64)
}

/// A get on the picture.
struct Bar<'a> {
    node: &'a str,
    label: String,
    from_us: u64,
    to_us: u64,
    class: &'static str,
}

const ROW_PIXELS: usize = 22;
const LEFT_PIXELS: usize = 120;
const WIDTH_PIXELS: usize = 1000;

/// A row a node, a bar a get from when it was asked for until it came, failed or was given up; below, when sets were decoded.
fn svg(events: &[Event]) -> String {
    let start = start(events);
    let end_us = events.iter().map(|event| since_us(start, event.at)).max().unwrap_or(0).max(1);
    let bars = bars(events, start, end_us);
    let mut rows: Vec<&str> = bars.iter().map(|bar| bar.node).collect();
    rows.sort_unstable();
    rows.dedup();
    let x = |us: u64| LEFT_PIXELS + (us as u128 * WIDTH_PIXELS as u128 / u128::from(end_us)) as usize;
    let (width, height) = (LEFT_PIXELS + WIDTH_PIXELS + 20, (rows.len() + 3) * ROW_PIXELS + 20);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='sans-serif' font-size='12'>\n\
         <style>.data{{fill:#4a90d9}}.instead{{fill:#e0a030}}.failed{{fill:#d04040}}.dropped{{fill:#bbb}}.set{{fill:#58a55c}}\
         .late{{stroke:#d04040;stroke-width:2}}</style>\n<rect width='100%' height='100%' fill='#fff'/>\n"
    );
    let mut text = |line: String| svg.push_str(&(line + "\n"));
    for (row, node) in rows.iter().enumerate() {
        text(format!("<text x='8' y='{}'>{}</text>", row * ROW_PIXELS + 15, escaped(node)));
    }
    for bar in &bars {
        let row = rows.partition_point(|row| *row < bar.node);
        let (from, to) = (x(bar.from_us), x(bar.to_us));
        text(format!(
            "<rect class='{}' x='{from}' y='{}' width='{}' height='{}' opacity='0.75'><title>{}</title></rect>",
            bar.class,
            row * ROW_PIXELS + 3,
            (to - from).max(1),
            ROW_PIXELS - 6,
            escaped(&bar.label)
        ));
    }
    for event in events.iter().filter(|event| event.what == What::Late) {
        let Some(block) = &event.block else { continue };
        let (x, y) =
            (x(since_us(start, event.at)), rows.partition_point(|row| *row < block.node.as_str()) * ROW_PIXELS);
        text(format!("<line class='late' x1='{x}' x2='{x}' y1='{}' y2='{}'/>", y + 1, y + ROW_PIXELS - 1));
    }
    let y = rows.len() * ROW_PIXELS;
    text(format!("<text x='8' y='{}'>decoded</text>", y + 15));
    for event in events {
        if let What::Ready { degraded } = event.what {
            let how = if degraded { "computed" } else { "read plainly" };
            text(format!(
                "<rect class='set' x='{}' y='{}' width='3' height='{}'><title>set {} {how}</title></rect>",
                x(since_us(start, event.at)),
                y + 3,
                ROW_PIXELS - 6,
                event.set
            ));
        }
    }
    text(format!(
        "<text x='{LEFT_PIXELS}' y='{}'>0 to {:.1} ms: <tspan fill='#4a90d9'>asked for</tspan>, <tspan fill='#e0a030'>asked instead \
         of another</tspan>, <tspan fill='#d04040'>failed; late from the mark on</tspan>, <tspan fill='#888'>no longer wanted</tspan>\
         </text>",
        y + ROW_PIXELS + 20,
        end_us as f64 / 1000.0
    ));
    svg + "</svg>\n"
}

fn bars(events: &[Event], start: Option<Instant>, end_us: u64) -> Vec<Bar<'_>> {
    let mut bars: Vec<Bar<'_>> = Vec::new();
    let mut open = BTreeMap::new();
    for event in events {
        let Some(block) = &event.block else { continue };
        let key = (event.began, event.segment, block.request);
        let at_us = since_us(start, event.at);
        if let What::Asked { bytes, instead } = event.what {
            let mut label = String::new();
            let _ =
                write!(label, "shard {} of set {}, {bytes} bytes from {}", block.shard, event.set, block.payload.start);
            open.insert(key, bars.len());
            let class = if instead { "instead" } else { "data" };
            bars.push(Bar { node: &block.node, label, from_us: at_us, to_us: end_us, class });
            continue;
        }
        let Some(bar) = open.get(&key).map(|position| &mut bars[*position]) else { continue };
        match &event.what {
            What::Late => continue,
            What::Failed { detail } => {
                bar.class = "failed";
                let _ = write!(bar.label, ": {detail}");
            }
            What::Dropped | What::Busy => bar.class = "dropped",
            _ => {}
        }
        bar.to_us = at_us;
        open.remove(&key);
    }
    bars
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
#[path = "trace_tests.rs"]
mod tests;
