//! Packets of gossip.

use weft_cluster::gossip::{Facts, Gossip, Heard, PACKET_BYTES_MAX};

fn member(name: &str) -> Gossip {
    let facts =
        Facts { address: format!("weft://{name}:1"), started_ms: 5, domain: name.to_owned(), ..Facts::default() };
    Gossip::new(facts, 1, 0)
}

/// Packets, each after its length, one after the other to one member; what it says then is sensible.
pub(super) fn packets(bytes: &[u8]) {
    let (mut member, mut rest, mut now_ms) = (member("a"), bytes, 100);
    while let Some((length, after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes(*length)).min(after.len());
        let (packet, after) = after.split_at(length);
        // A daemon takes no longer ones.
        if packet.len() <= PACKET_BYTES_MAX {
            let _ = member.receive(packet, now_ms);
        }
        now_ms += 700;
        member.tick(now_ms);
        for (_, packet) in member.take_outgoing() {
            assert!(packet.len() <= PACKET_BYTES_MAX);
        }
        rest = after;
    }
    for heard in member.members(now_ms) {
        let Heard { facts, phi, .. } = heard;
        assert!(phi.is_finite(), "{}: {phi}", facts.address);
    }
    member.leave(now_ms);
}

/// What two members tell each other when one joins.
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (mut a, mut b) = (member("a"), member("b"));
    let facts = a.members(0).into_iter().map(|heard| heard.facts).collect();
    b.join(facts, 0);
    let mut told = Vec::new();
    for now_ms in (0..8_000).step_by(500) {
        for (speaker, listener, is_to_a) in [(true, false, false), (false, true, true)] {
            let (speaker, listener) = match (speaker, listener) {
                (true, _) => (&mut a, &mut b),
                _ => (&mut b, &mut a),
            };
            speaker.tick(now_ms);
            for (_, packet) in speaker.take_outgoing() {
                let _ = listener.receive(&packet, now_ms);
                if is_to_a {
                    told.push([&(packet.len() as u16).to_le_bytes()[..], &packet].concat());
                }
            }
        }
    }
    told.truncate(6);
    let all = told.concat();
    told.into_iter().chain([all]).collect()
}
