use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use weft_format::geometry::Geometry;
use weft_format::records::ShardLocation;
use weft_format::shard::Digest;
use weft_format::{Generation, NodeId};
use weft_nodes::NodeErrorKind;

const SEGMENT: SegmentId = SegmentId(5);

fn record() -> SegmentRecord {
    let location =
        |node| ShardLocation { node: NodeId(node), generation: Generation(1), digest: Digest([0; 32]), origin: None };
    SegmentRecord {
        code: "rs:4+2".into(),
        geometry: Geometry::new(100_000, 4, 1, 1, 4096).expect("a geometry"),
        generation: Generation(1),
        shards: (1..=6).map(|node| Some(location(node))).collect(),
    }
}

fn damaged(frame: u64) -> ShardHealth {
    let run = frame..frame + 1;
    ShardHealth::Damaged(Damage { how: "a frame is damaged".into(), frames: Some(vec![run]) })
}

fn found(shards: &[(usize, ShardHealth)]) -> Vec<Option<ShardHealth>> {
    let mut found = vec![Some(ShardHealth::Sound); 6];
    shards.iter().for_each(|(index, health)| found[*index] = Some(health.clone()));
    found
}

#[test]
fn finding_09_what_was_found_is_believed_until_the_whole_shard_is_read() {
    let record = record();
    let seen = found(&[(1, damaged(3)), (2, ShardHealth::Missing)]);
    let noted = to_note(SEGMENT, &record, &DamageRecord::default(), &seen, Look::Everything);
    assert_eq!(noted.shards().len(), 2);
    // Nobody looks, or at lengths only.
    let believed_then = believed(SEGMENT, &record, &noted, &[], Look::Record);
    assert_eq!(believed_then[1..3], [Some(damaged(3)), Some(ShardHealth::Missing)]);
    let by_length = believed(SEGMENT, &record, &noted, &found(&[]), Look::Lengths);
    assert_eq!(by_length[1], Some(damaged(3)));
    assert_eq!(to_note(SEGMENT, &record, &noted, &found(&[]), Look::Lengths), noted);
    // Somebody read all of it.
    assert_eq!(believed(SEGMENT, &record, &noted, &found(&[]), Look::Everything), found(&[]));
    assert_eq!(to_note(SEGMENT, &record, &noted, &found(&[]), Look::Everything), DamageRecord::default());
    // Who is silent says nothing.
    let silent = found(&[(1, ShardHealth::Unknown(NodeErrorKind::TimedOut))]);
    let after = to_note(SEGMENT, &record, &noted, &silent, Look::Everything);
    assert_eq!(after.shards(), &noted.shards()[..1]);
}

#[test]
fn what_others_noted_since_a_look_began_stays() {
    let (record, catalogue) = (record(), MemoryCatalogue::default());
    let note = |noted: Option<&DamageRecord>, shards: &[(usize, ShardHealth)]| {
        note(&catalogue, SEGMENT, &record, noted, &found(shards), Look::Everything).expect("noted")
    };
    let Noted::As(first) = note(None, &[(1, damaged(3))]) else { panic!("nothing was in the way") };
    assert_eq!(catalogue.damage(SEGMENT), Ok(first.clone()));
    // A look that began before it saw nothing.
    assert!(matches!(note(None, &[]), Noted::As(None)), "it changes nothing");
    assert!(matches!(note(None, &[(2, damaged(4))]), Noted::Otherwise));
    assert_eq!(catalogue.damage(SEGMENT), Ok(first.clone()));
    assert!(matches!(note(first.as_ref(), &[]), Noted::As(None)));
    assert_eq!(catalogue.damage(SEGMENT), Ok(None));
    assert!(matches!(note(first.as_ref(), &[(2, damaged(4))]), Noted::Otherwise));
}

#[test]
fn finding_09_what_was_found_of_a_place_says_nothing_of_another() {
    let mut record = record();
    let noted = to_note(SEGMENT, &record, &DamageRecord::default(), &found(&[(1, damaged(3))]), Look::Everything);
    let mut moved = record.clone();
    moved.shards[1].as_mut().unwrap().node = NodeId(9);
    assert_eq!(believed(SEGMENT, &moved, &noted, &[], Look::Record), vec![None; 6]);
    record.shards[1].as_mut().unwrap().generation = Generation(0);
    assert_eq!(believed(SEGMENT, &record, &noted, &[], Look::Record), vec![None; 6]);
}
