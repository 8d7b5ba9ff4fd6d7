use super::*;
use crate::estimator::Health;
use weft_format::NodeId;

/// Each is one disk for so many domains of one node.
fn disks(room: &[(u64, u64)]) -> Vec<Pool> {
    room.iter().map(|(bytes, count)| Pool { stores: vec![(*bytes, *count)], shard_count: *count }).collect()
}

/// The slow, obvious way: one byte more in each place, as long as there is room for all of them.
fn reference(pools: &[Pool], width: usize) -> u64 {
    let fits = |each: u64| {
        let stores = |pool: &Pool| pool.stores.iter().map(|(bytes, nodes)| *bytes.min(&(each * nodes))).sum::<u64>();
        let sum: u64 = pools.iter().map(|pool| stores(pool).min(each * pool.shard_count)).sum();
        sum >= each * width as u64
    };
    (1..).take_while(|each| fits(*each)).last().unwrap_or(0) * width as u64
}

#[test]
fn finding_07_room_is_what_the_width_can_use() {
    for (room, width, wanted) in [
        // As many domains as shards: the smallest decides.
        (vec![(100, 1); 6], 6, 600),
        (vec![(100, 1), (100, 1), (100, 1), (100, 1), (100, 1), (10, 1)], 6, 60),
        (vec![(100, 1), (100, 1), (100, 1), (100, 1), (100, 1), (0, 1)], 6, 0),
        // One more: the two small ones stand in for one another.
        (vec![(100, 1), (100, 1), (100, 1), (100, 1), (100, 1), (10, 1), (10, 1)], 6, 120),
        // Two copies: the large one is of use as far as the others are.
        (vec![(1000, 1), (10, 1), (10, 1)], 2, 40),
        // All folders on one disk.
        (vec![(600, 6)], 6, 600),
        (vec![(600, 5)], 6, 0),
        // Three domains on one disk, three on others.
        (vec![(30, 3), (100, 1), (100, 1), (100, 1)], 6, 60),
        (vec![], 1, 0),
        (vec![(7, 1)], 1, 7),
    ] {
        assert_eq!(fill(&disks(&room), width), wanted, "{room:?} for {width}");
    }
}

#[test]
fn finding_07_room_is_what_trying_finds() {
    let mut random = 7u64;
    let mut die = |sides: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % sides
    };
    for _ in 0..20_000 {
        let mut pool = || Pool {
            stores: (0..1 + die(2)).map(|_| (die(40), 1 + die(3) * die(2))).collect(),
            shard_count: 1 + die(3),
        };
        let pools: Vec<Pool> = (0..7).map(|_| pool()).collect();
        let width = 1 + die(7) as usize;
        assert_eq!(fill(&pools, width), reference(&pools, width), "{pools:?} for {width}");
    }
    // Sums of many large disks do not overflow.
    assert_eq!(fill(&disks(&[(u64::MAX, 1); 9]), 3), u64::MAX);
}

fn member(domain: &str, total_bytes: u64, free_bytes: u64, disk: Option<u64>) -> Member {
    Member {
        name: domain.into(),
        domain: domain.into(),
        locality: String::new(),
        weight: 1,
        state: NodeState::Active,
        health: Health::Sound,
        total_bytes: Some(total_bytes),
        free_bytes: Some(free_bytes),
        disk,
    }
}

fn view(members: Vec<Member>) -> View {
    let members = (1..).map(NodeId).zip(members).collect();
    View { members, epoch: 0, rule: Default::default() }
}

#[test]
fn finding_07_nodes_of_one_disk_or_domain_count_together() {
    // 64 bytes: the reserve is one.
    let on_one_disk = view((0..3).map(|i| member(&format!("d{i}"), 64, 31, Some(9))).collect());
    assert_eq!(usable_room(&on_one_disk, 3, 1), Room { total_bytes: 63, free_bytes: 30 });
    let of_one_domain =
        view(vec![member("a", 64, 31, Some(1)), member("a", 64, 31, Some(2)), member("b", 64, 31, None)]);
    assert_eq!(usable_room(&of_one_domain, 2, 1), Room { total_bytes: 128, free_bytes: 60 });
    let full = view(vec![member("a", 64, 0, None), member("b", 64, 33, None), member("c", 64, 33, None)]);
    assert_eq!(usable_room(&full, 3, 1), Room { total_bytes: 192, free_bytes: 0 });
    assert_eq!(usable_room(&full, 2, 1), Room { total_bytes: 192, free_bytes: 64 });
}

#[test]
fn finding_07_nodes_that_take_nothing_new_have_no_room() {
    let mut members: Vec<Member> = (0..4).map(|i| member(&format!("d{i}"), 64, 33, None)).collect();
    members[3].state = NodeState::ReadOnly;
    assert_eq!(usable_room(&view(members), 4, 1), Room { total_bytes: 31 * 4, free_bytes: 0 });
    let mut unknown = member("d", 0, 0, None);
    (unknown.total_bytes, unknown.free_bytes) = (None, None);
    assert_eq!(usable_room(&view(vec![unknown.clone()]), 1, 1), Room::default());
    // One that was away when the volume was opened is no reason to call it full.
    let mut members: Vec<Member> = (0..3).map(|i| member(&format!("d{i}"), 64, 33, None)).collect();
    members.push(unknown);
    members[3].domain = "d3".into();
    assert_eq!(usable_room(&view(members), 4, 1), Room { total_bytes: 256, free_bytes: 128 });
}

#[test]
fn room_where_a_domain_holds_several_shards() {
    let sites = |bytes: [u64; 6]| {
        let member = |(i, bytes): (usize, u64)| member(&format!("site{}", i / 2), 64, bytes + 1, None);
        view(bytes.into_iter().enumerate().map(member).collect())
    };
    let free = |view: &View, width, unit_shards| usable_room(view, width, unit_shards).free_bytes;
    assert_eq!(free(&sites([30; 6]), 6, 2), 180);
    assert_eq!(free(&sites([30; 6]), 6, 1), 0, "three sites have no room for six shards of one each");
    // A node never has two shards of a segment, so that the smallest decides.
    assert_eq!(free(&sites([30, 30, 30, 30, 30, 5]), 6, 2), 30);
    // Four shards on three sites of two: what one node has more is of use in other segments.
    assert_eq!(free(&sites([30, 30, 30, 30, 30, 5]), 4, 2), 152);
    assert_eq!(free(&sites([30, 0, 30, 0, 30, 0]), 3, 2), 90);
}
