//! What a history of a store of objects has: drawn by its seed, so that in each some things happen often, and others never. Pure.

use super::promise::Kind;

/// What may happen in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// A client puts, gets or removes.
    Operation,
    /// Many read one object at once.
    Rush,
    /// A member gets into trouble.
    StrikeMember,
    /// A client is killed or paused.
    StrikeClient,
    /// A client or a member is killed or stops at a certain step.
    Ambush,
    /// Messages are lost and come twice, and disks are slow; or no longer.
    Noise,
    /// Images are made of disks.
    Image,
    /// A put ends so late that members have given it up, and some of them have lost what they had; then a member is struck.
    LatePut,
    /// A member is away until others have what it had, comes back, and is struck as it removes what is there twice now.
    Return,
    /// What is read much has copies, until a member has another shard beside one and then the only one of both.
    Crowd,
    /// A new member comes, with an empty disk.
    Join,
    /// A member leaves for good, with its disk: it says so or dies. Another may come in its place.
    Leave,
    /// Nothing, for up to a time that is longer than each grace time.
    Rest,
}

/// What happens to a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is killed, and comes back.
    Kill,
    /// It stops for a while. Messages wait for it.
    Stop,
    /// It answers, and its keeper does nothing for a while.
    Hang,
    /// It is killed, and comes back with an empty disk.
    Empty,
    /// It is killed, and comes back with an old image of its disk.
    RollBack,
    /// It is killed, and comes back with rot on its disk.
    Rot,
}

/// With the number of shards of a segment. Of the first one any two decode; with the others most members are free for copies.
const CODES: [(&str, u64); 3] = [("rs:2+3", 5), ("rs:2+1", 3), ("replica:3", 3)];
/// Data bytes of a segment: objects have one, two or many.
const SEGMENT_BYTES: [usize; 3] = [100_000, 30_000, 9_000];
const TURNS_MAX: u64 = 50;
/// Turns follow each other after up to so long.
const TURN_MS: [u64; 3] = [10_000, 40_000, 200_000];

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The code of all objects.
    pub code: &'static str,
    /// Shards of a segment.
    pub shard_count: u64,
    /// Data bytes of a segment.
    pub segment_bytes: usize,
    /// How many names there are.
    pub names: usize,
    /// How many turns.
    pub turns: u64,
    /// In the first ones clients put and remove, in later ones they read only: what strikes then finds nothing that is about to be replaced.
    pub changes: u64,
    /// What clients do, by weight.
    pub does: [(Kind, u64); 4],
    /// A turn follows another after up to so long.
    pub turn_ms_max: u64,
    /// What happens in them, by weight.
    pub happens: Vec<(Turn, u64)>,
    /// What happens to members, by weight.
    pub troubles: Vec<(Trouble, u64)>,
}

impl Plan {
    /// `below(end)` is a random number below `end`.
    pub fn of(mut below: impl FnMut(u64) -> u64) -> Self {
        let mut weight = |usual: u64| usual * [0, 1, 4][below(3) as usize];
        let mut happens = vec![
            (Turn::Operation, 4 + weight(2)),
            (Turn::Rush, weight(1)),
            (Turn::StrikeMember, weight(1)),
            (Turn::StrikeClient, weight(1)),
            (Turn::Ambush, weight(1)),
            (Turn::Noise, weight(1)),
            (Turn::Image, 1),
            (Turn::LatePut, weight(1)),
            (Turn::Return, weight(1)),
            (Turn::Join, weight(1)),
            (Turn::Leave, weight(1)),
            (Turn::Rest, weight(1)),
        ];
        let troubles = vec![
            (Trouble::Kill, 1 + weight(1)),
            (Trouble::Stop, weight(1)),
            (Trouble::Hang, weight(1)),
            (Trouble::Empty, weight(1)),
            (Trouble::RollBack, weight(1)),
            (Trouble::Rot, weight(1)),
        ];
        let does = [(Kind::Put, 4), (Kind::Make, 2), (Kind::Remove, 1 + weight(1)), (Kind::Get, 4)];
        let turns = 10 + below(TURNS_MAX - 9);
        let (code, shard_count) = CODES[below(CODES.len() as u64) as usize];
        let segment_bytes = SEGMENT_BYTES[below(SEGMENT_BYTES.len() as u64) as usize];
        let names = 1 + below(super::NAMES.len() as u64) as usize;
        let changes = if below(2) == 0 { turns } else { 1 + below(turns) };
        let turn_ms_max = TURN_MS[below(TURN_MS.len() as u64) as usize];
        happens.push((Turn::Crowd, [0, 1, 4][below(3) as usize]));
        Self { code, shard_count, segment_bytes, names, turns, changes, does, turn_ms_max, happens, troubles }
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
