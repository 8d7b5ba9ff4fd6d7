use super::*;
use weft_cluster::{PlacementRequest, place};
use weft_format::SegmentId;

fn layout(counts: &[usize]) -> Layout {
    let nodes = counts.iter().enumerate().flat_map(|(unit, nodes)| (0..*nodes).map(move |node| (unit, node)));
    let node = |(unit, node)| DescribedNode {
        name: format!("s{unit}h{node}"),
        domain: format!("site{unit}/host{node}"),
        room_bytes: 64 << 30,
    };
    Layout::described(&nodes.map(node).collect::<Vec<_>>(), 1)
}

fn specs() -> Vec<String> {
    let rs = (2..=8).flat_map(|k| (1..=4).map(move |m| format!("rs:{k}+{m}")));
    let others = ["replica:2", "replica:3", "replica:4", "lrc:4+2+2", "raid5:6"].map(str::to_owned);
    others.into_iter().chain(rs).collect()
}

#[test]
fn three_sites_of_two_survive_a_site_or_any_two_hosts() {
    let plan = layout(&[2, 2, 2]).plan(&[Wish::Units(1), Wish::Nodes(2)], &specs());
    let first = &plan.codes[0];
    let figures = (first.code.as_str(), first.unit_shards, first.survives_units, first.survives_nodes);
    assert_eq!(figures, ("rs:4+2", 2, 1, 2));
    assert!((first.stored_per_byte - 1.5).abs() < 1e-12 && (first.repair_read_per_byte - 4.0).abs() < 1e-12);
    // All six nodes are full together, but for the reserve.
    assert!(first.room_bytes > 250 << 30 && first.room_bytes <= 256 << 30, "{}", first.room_bytes);
    assert!(plan.codes.windows(2).all(|pair| pair[0].stored_per_byte <= pair[1].stored_per_byte));
    let copies = plan.codes.iter().find(|code| code.code == "replica:3").expect("three copies do as well");
    assert_eq!((copies.unit_shards, copies.survives_units), (1, 2));
    assert!(plan.codes.iter().all(|code| code.code != "raid5:6"), "a site takes more than it can lose");
    assert_eq!(plan.shortfall, None);
}

#[test]
fn a_wish_that_nothing_meets_says_what_would() {
    let plan = layout(&[2, 2]).plan(&[Wish::Units(2)], &specs());
    let why = "no code survives unit:2 on units of 2, 2 nodes: add 1 more unit of 2 nodes each";
    assert_eq!((plan.codes.len(), plan.shortfall.as_deref()), (0, Some(why)));
    let plan = layout(&[1, 1]).plan(&[Wish::Units(1), Wish::Nodes(2)], &specs());
    let why = "no code survives unit:1 and node:2 on units of 1, 1 nodes: add 1 more node to the units there are, or add 1 more unit of one node";
    assert_eq!(plan.shortfall.as_deref(), Some(why));
    assert!(layout(&[]).plan(&[Wish::Nodes(1)], &specs()).shortfall.is_some());
    assert!(
        layout(&[2, 2])
            .plan(&[Wish::Nodes(5)], &specs())
            .shortfall
            .expect("a sentence")
            .ends_with("wish for fewer losses")
    );
}

/// Every loss of as many units, and of as many nodes, leaves what decodes: of segments as placement places them.
#[test]
fn claims_hold_for_every_loss() {
    for counts in [&[2, 2, 2][..], &[2, 2, 2, 2], &[1, 2, 3], &[3, 3, 1], &[4, 2], &[1, 1, 1, 1, 1]] {
        let layout = layout(counts);
        let plan = layout.plan(&[], &specs());
        assert!(!plan.codes.is_empty(), "{counts:?}");
        let members = &layout.view.members;
        for planned in plan.codes {
            let erasures =
                weft_codes::Erasures::new(&*weft_codes::parse(&planned.code).expect("a code")).expect("a matrix");
            for i in 0..20u64 {
                let request = PlacementRequest {
                    segment: SegmentId::new(i, u128::from(i) * 77_777),
                    shard_count: planned.shard_count,
                    shard_bytes: 1,
                    excluded_nodes: &Default::default(),
                    held: &Default::default(),
                    unit_shards: planned.unit_shards,
                    within: None,
                };
                let nodes = place(&layout.view, &request).expect("planned").nodes;
                let survives = |is_lost: &dyn Fn(usize) -> bool| {
                    let lost: Vec<usize> = (0..nodes.len()).filter(|shard| is_lost(*shard)).collect();
                    erasures.decodes(&lost)
                };
                for pattern in 0..1u32 << counts.len() {
                    if pattern.count_ones() as usize == planned.survives_units {
                        let unit = |shard: usize| {
                            members[&nodes[shard]].domain["site".len()..].parse::<u32>().expect("a number")
                        };
                        assert!(survives(&|shard| pattern >> unit(shard) & 1 == 1), "{counts:?} {}", planned.code);
                    }
                }
                for pattern in 0..1u32 << nodes.len() {
                    if pattern.count_ones() as usize == planned.survives_nodes {
                        assert!(survives(&|shard| pattern >> shard & 1 == 1), "{counts:?} {}", planned.code);
                    }
                }
            }
        }
    }
}

#[test]
fn more_losses_than_claimed_of_mds_codes_lose_data() {
    for counts in [[2, 2, 2], [3, 3, 3], [1, 3, 3]] {
        for planned in layout(&counts).plan(&[], &specs()).codes {
            let beyond = [Wish::Units(planned.survives_units + 1)];
            let spread = Spread::new(&counts, planned.shard_count, planned.survives_nodes).expect("placed");
            assert!(
                !spread.meets(&beyond)
                    || spread.lost_with(planned.survives_units + 1) == spread.lost_with(planned.survives_units)
            );
        }
    }
}
