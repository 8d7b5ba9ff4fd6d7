use super::*;
use crate::models::durability::annual_loss_by_windows;

pub(crate) fn node(number: usize) -> Node {
    Node {
        name: format!("node{number}"),
        bytes_per_second: 100e6,
        latency_ms: 10.0,
        price_per_gib_month: 0.01,
        price_per_gib_read: 0.05,
        annual_failure_rate: 0.05,
        domain: format!("place{number}"),
        room_bytes: 1000.0 * GIB,
        computes: false,
    }
}

fn nodes(count: usize) -> Vec<Node> {
    (0..count).map(node).collect()
}

pub(crate) const NEEDS: Needs = Needs {
    annual_loss_max: 1e-6,
    capacity_bytes: 600.0 * GIB,
    file_bytes: 40e6,
    detection_seconds: 3600.0,
    client_bytes_per_second: 1e9,
    repair_share: 0.5,
};

fn chosen(nodes: &[Node], needs: &Needs, spec: &str) -> Choice {
    choice(nodes, needs, &*weft_codes::parse(spec).unwrap()).unwrap()
}

fn is_near(value: f64, expected: f64) -> bool {
    (value / expected - 1.0).abs() < 1e-6
}

/// All figures of one row, computed by hand.
#[test]
fn the_figures_of_rs_on_six_equal_nodes() {
    let row = chosen(&nodes(6), &NEEDS, "rs:4+2");
    let node_bytes = 150.0 * GIB;
    assert!(is_near(row.stored_per_byte, 1.5) && is_near(row.node_bytes, node_bytes), "{row:?}");
    assert!(is_near(row.room_bytes, 4000.0 * GIB), "{}", row.room_bytes);
    assert!(is_near(row.month_price, 9.0), "{}", row.month_price);
    assert!(is_near(row.repair.received_per_byte, 4.0) && is_near(row.repair.price, 600.0 * 0.05), "{:?}", row.repair);
    // Each of five sends 4/5 of the bytes, at half of its speed; one new node takes them all.
    assert!(is_near(row.repair.writing_seconds, node_bytes / 50e6), "{:?}", row.repair);
    assert!(
        row.repair.sending_seconds < row.repair.writing_seconds
            && row.repair.sending_seconds > 0.7 * row.repair.writing_seconds
    );
    // 10 MB from each of four; with one away from four others.
    assert!(is_near(row.read_seconds, 0.11) && is_near(row.degraded_read_seconds, 0.11), "{row:?}");
    assert!(row.shortfall.is_none() && row.is_exact);
}

/// With equal rates the chain is what the window model says, within the difference of their repairs.
#[test]
fn the_loss_is_of_the_order_of_other_models() {
    let row = chosen(&nodes(6), &NEEDS, "rs:4+2");
    let days = (NEEDS.detection_seconds + row.repair.seconds()) / 86_400.0;
    let windows = annual_loss_by_windows(6, 2, 0.05, days);
    assert!(row.annual_loss / windows > 1.0 && row.annual_loss / windows < 10.0, "{} {windows}", row.annual_loss);
    assert!(is_near(row.annual_loss, row.annual_segment_loss), "one set of nodes only");
}

#[test]
fn more_sets_of_nodes_lose_something_more_often() {
    let (few, many) = (chosen(&nodes(6), &NEEDS, "rs:4+2"), chosen(&nodes(10), &NEEDS, "rs:4+2"));
    assert!(many.annual_loss > 5.0 * many.annual_segment_loss, "{many:?}");
    assert_eq!((few.set_count, many.set_count), (1.0, 210.0));
}

/// Half of the losses beyond the promise of this code are survived: to take it for MDS, either way, is wrong.
#[test]
fn patterns_are_counted_not_bounded() {
    let row = chosen(&nodes(10), &NEEDS, "lrc:6+2+2");
    assert!((row.fatal_shares[4] - 30.0 / 210.0).abs() < 1e-12 && row.is_exact, "{:?}", row.fatal_shares);
    let mds = chosen(&nodes(10), &NEEDS, "rs:7+3");
    assert!(
        row.annual_segment_loss < mds.annual_segment_loss,
        "{} {}",
        row.annual_segment_loss,
        mds.annual_segment_loss
    );
    assert!(row.repair.received_per_byte < 4.0, "{:?}", row.repair);
}

#[test]
fn what_meets_the_needs_comes_first_and_the_cheapest_of_it() {
    let rows = rank(&nodes(8), &NEEDS).unwrap();
    let first_short = rows.iter().position(|row| row.shortfall.is_some()).unwrap();
    assert!(first_short > 0 && rows[first_short..].iter().all(|row| row.shortfall.is_some()));
    assert!(rows[..first_short].windows(2).all(|pair| pair[0].month_price <= pair[1].month_price * (1.0 + 1e-9)));
    let of = |code: &str| rows.iter().position(|row| row.code == code).unwrap();
    assert!(of("clay:4+4") < of("rs:4+4"), "equal prices of storage: the cheaper repair");
    assert!(rows[of("raid5:8")].shortfall.as_deref().is_some_and(|why| why.starts_with("loss of")), "{rows:?}");
    assert!(rows.iter().all(|row| row.width <= 8 && row.annual_loss > 0.0 && row.read_seconds > 0.0));
}

#[test]
fn a_domain_has_one_shard_of_a_segment_at_most() {
    let mut shared = nodes(8);
    shared[7].domain = shared[6].domain.clone();
    assert!(rank(&shared, &NEEDS).unwrap().iter().all(|row| row.width <= 7));
    let places = Places::new(&shared, 7).unwrap();
    for segment in places.segments(50) {
        let mut domains: Vec<&str> = segment.iter().map(|&node| &*shared[node].domain).collect();
        domains.sort_unstable();
        domains.dedup();
        assert_eq!(domains.len(), 7, "{segment:?}");
    }
    assert!(rank(&nodes(1), &NEEDS).unwrap_err().to_string().contains("2 domains"));
}

/// A small node limits a code that needs all nodes, and a narrower one less.
#[test]
fn room_is_what_the_width_can_use() {
    let mut unlike = nodes(4);
    unlike[0].room_bytes = 100.0 * GIB;
    let room = |spec: &str| chosen(&unlike, &NEEDS, spec).room_bytes / GIB;
    assert!(is_near(room("rs:2+2"), 200.0) && is_near(room("replica:3"), 3100.0 / 3.0), "{}", room("replica:3"));
    let short = chosen(&unlike, &NEEDS, "rs:2+2").shortfall.unwrap();
    assert_eq!(short, "only 200 of 600 GiB fit");
    let places = Places::new(&unlike, 2).unwrap();
    let used = places.segments(310).concat().iter().filter(|&&node| node == 0).count();
    assert!((19..=21).contains(&used), "620 shards in proportion to 100 of 3,100 GiB: {used}");
}

#[test]
fn a_slow_node_is_read_around_and_a_client_has_a_link() {
    let mut unlike = nodes(6);
    unlike[2].bytes_per_second = 1e6;
    assert!(is_near(chosen(&unlike, &NEEDS, "rs:4+2").read_seconds, 0.11));
    let slow = Needs { client_bytes_per_second: 10e6, ..NEEDS };
    assert!(is_near(chosen(&nodes(6), &slow, "rs:4+2").read_seconds, 4.0));
}

#[test]
fn numbers_without_sense_are_refused() {
    let mut wrong = nodes(3);
    wrong[1].bytes_per_second = 0.0;
    assert!(rank(&wrong, &NEEDS).unwrap_err().to_string().contains("speed of node node1"));
    let needs = Needs { annual_loss_max: f64::NAN, ..NEEDS };
    assert!(rank(&nodes(3), &needs).unwrap_err().to_string().contains("loss at most"));
}

#[test]
fn every_number_is_explained() {
    let row = chosen(&nodes(10), &NEEDS, "lrc:6+2+2");
    let text = explain(&row, &nodes(10), &NEEDS).iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    for part in ["600 GiB of data * 1.667 = 1000 GiB", "14.29 % of 4", "all counted", "symbol operations", "to detect"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
