//! A campaign against the running system: rounds of `kill -9`, SIGSTOP and SIGCONT at random moments, and power cuts of
//! mounts, workers, daemons and disks, under a load of overwrites, appends, truncations and renames. A manifest outside of the
//! volume says what every fsync acknowledged; after each round every file is compared with it.
//!
//! CI runs a few rounds. The long run, which asks for some hours of a quiet machine:
//! `WEFT_CAMPAIGN_ROUNDS=500 cargo test -p weft --test it campaign -- --nocapture`; `WEFT_SEED` repeats the choices of one run.
//! Needs root (loop devices), xfsprogs and e2fsprogs.

pub mod disk;
mod load;
mod manifest;
mod world;

use load::Load;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::Duration;
use world::World;

/// What strikes in a round.
#[derive(Clone, Copy, Debug)]
enum Strike {
    KillMount,
    StopMount,
    KillDaemon,
    StopDaemon,
    KillWorker,
    /// For longer than the lease of a worker lasts without a sign of life.
    StopWorker,
    /// The disk of the daemons.
    CutDaemons,
    /// Metadata, all nodes and all processes at once.
    CutAll,
    /// Only another code for everything, and a clean end.
    Convert,
}

impl Strike {
    fn draw(random: &mut StdRng) -> Self {
        match random.random_range(0..100) {
            0..30 => Strike::KillMount,
            30..42 => Strike::StopMount,
            42..52 => Strike::KillDaemon,
            52..60 => Strike::StopDaemon,
            60..68 => Strike::KillWorker,
            68..70 => Strike::StopWorker,
            70..78 => Strike::CutDaemons,
            78..95 => Strike::CutAll,
            _ => Strike::Convert,
        }
    }
}

const CODES: [&str; 3] = ["rs:4+2", "raid6:6", "replica:3"];

#[test]
fn nothing_that_was_synced_is_lost_whatever_is_killed_stopped_or_cut_off() {
    let number = |name: &str, default: u64| std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default);
    let rounds = number("WEFT_CAMPAIGN_ROUNDS", 6);
    let seed = number("WEFT_SEED", 1);
    println!("WEFT_SEED={seed} WEFT_CAMPAIGN_ROUNDS={rounds}");
    let mut random = StdRng::seed_from_u64(seed);
    let mut world = World::new(CODES[0]);
    let mut load = Load::new();
    for round in 0..rounds {
        let strike = Strike::draw(&mut random);
        let before = Duration::from_millis(random.random_range(5..700));
        let pause = Duration::from_millis(random.random_range(20..1_500));
        let converts = random.random_bool(0.2) || matches!(strike, Strike::StopWorker | Strike::Convert);
        let code = converts.then(|| CODES[random.random_range(0..CODES.len())]);
        let index = random.random_range(0..1_000);
        println!("round {round}: {strike:?} after {before:?}, pause {pause:?}, code {code:?}; {}", load.tally());
        world.mount();
        load.check(&world.mountpoint());
        if let Some(code) = code {
            world.convert(code);
        }
        let running = load.start(&world.mountpoint(), random.random());
        std::thread::sleep(before);
        match strike {
            Strike::KillMount => world.kill_mount(),
            Strike::StopMount => world.stop_mount(pause),
            Strike::KillDaemon => world.kill_daemon(index, pause),
            Strike::StopDaemon => world.stop_daemon(index, pause),
            Strike::KillWorker => world.kill_worker(pause),
            Strike::StopWorker => world.stop_worker(Duration::from_secs(13)),
            Strike::CutDaemons => world.cut_daemons(pause),
            Strike::CutAll => world.cut_all(),
            Strike::Convert => std::thread::sleep(pause),
        }
        // What was only stopped goes on under load, then half of the mounts die and half end as they should.
        if world.is_mounted() {
            std::thread::sleep(before);
            if random.random_bool(0.5) {
                world.kill_mount();
            }
        }
        load.end(running);
        if world.is_mounted() {
            world.umount();
            load.all_is_durable();
        }
        world.check_metadata();
        if round % 10 == 9 {
            world.collect();
        }
        if round % 25 == 24 {
            world.mount();
            load.check(&world.mountpoint());
            world.becomes_whole();
            world.umount();
        }
    }
    world.mount();
    load.check(&world.mountpoint());
    world.becomes_whole();
    world.umount();
    world.check_metadata();
    world.scrub();
    println!("{rounds} rounds: {}", load.tally());
}
