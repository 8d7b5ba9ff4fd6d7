use super::*;
use std::time::Duration;
use weft_engine::transfers::trace::Block;
use weft_format::SegmentId;

fn events() -> Vec<Event> {
    let began = Instant::now();
    let event = |ms: u64, request: Option<u64>, what: What| Event {
        began,
        at: began + Duration::from_millis(ms),
        segment: SegmentId(7),
        set: 0,
        block: request.map(|request| Block {
            request,
            shard: request as usize,
            node: format!("n<{request}>"),
            payload: 0..4096,
        }),
        what,
    };
    vec![
        event(0, Some(0), What::Asked { bytes: 4104, instead: false }),
        event(50, Some(0), What::Late),
        event(50, Some(1), What::Asked { bytes: 4104, instead: true }),
        event(60, Some(1), What::Arrived { bytes: 4104 }),
        event(60, Some(0), What::Dropped),
        event(60, None, What::Ready { degraded: true }),
        event(61, None, What::Delivered),
    ]
}

#[test]
fn json_has_every_event_with_its_time() {
    let json = json(&events());
    let whats: Vec<&str> = json.as_array().unwrap().iter().map(|event| event["what"].as_str().unwrap()).collect();
    assert_eq!(whats, ["asked", "late", "asked", "arrived", "dropped", "ready", "delivered"]);
    assert_eq!(json[3]["at_us"], 60_000);
    assert_eq!(json[3]["node"], "n<1>");
    assert_eq!(json[2]["instead"], true);
}

#[test]
fn the_picture_has_a_row_a_node_and_a_bar_a_get() {
    let svg = svg(&events());
    assert_eq!(svg.matches("<rect class='instead'").count(), 1);
    assert_eq!(svg.matches("<rect class='dropped'").count(), 1);
    assert_eq!(svg.matches("<line class='late'").count(), 1);
    assert!(svg.contains(">n&lt;1&gt;</text>"), "names are escaped");
    assert!(json(&[]).as_array().unwrap().is_empty() && super::svg(&[]).ends_with("</svg>\n"));
}
