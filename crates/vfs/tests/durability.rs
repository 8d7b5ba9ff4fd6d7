//! What an fsync that returned has promised, whatever else went on, and what is said of nodes that fail.

mod support;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use support::{CALLER, World};
use weft_format::Ino;
use weft_nodes::NodeErrorKind;
use weft_nodes::wrappers::Operation;
use weft_nodes::wrappers::fault::{Call, Fault, FaultNode};
use weft_vfs::{AttributeChange, Volume};

/// What is in the only file after a crash that keeps what is flushed by now.
fn after_crash(world: &World, ino: Ino) -> Vec<u8> {
    let again = World::open(world.kv.after(world.kv.flushed_count()), world.nodes.clone());
    let handle = again.volume.open(ino, 0).expect("opens");
    let bytes = again.volume.read(handle, 0, 64 << 20).expect("reads").to_vec();
    again.volume.release(handle);
    bytes
}

fn truncate(volume: &Volume, ino: Ino, size: u64) {
    volume.set_attributes(ino, &AttributeChange { size: Some(size), ..AttributeChange::default() }).expect("truncates");
}

/// A volume whose nodes do what `fault` says of each put.
fn world_with(fault: impl Fn(&Call) -> Fault + Clone + Send + 'static) -> World {
    let plain = World::new("rs:4+2", 6);
    plain.volume.shut_down().expect("shuts down");
    let nodes = plain.nodes.iter().map(|(id, record, node)| {
        let fault = fault.clone();
        let script = move |call: &Call| if call.operation == Operation::Put { fault(call) } else { Fault::None };
        (*id, record.clone(), Arc::new(FaultNode::new(node.clone(), &record.name, Box::new(script))) as _)
    });
    World::open(plain.kv.clone(), nodes.collect())
}

#[test]
fn bytes_below_a_truncation_are_synced() {
    let world = World::new("rs:4+2", 6);
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, 0).expect("creates");
    world.volume.write(handle, 0, &[1; 1000], false).expect("writes");
    world.volume.sync().expect("syncs");
    world.volume.write(handle, 0, &[2; 100], false).expect("writes");
    truncate(&world.volume, attributes.ino, 500);
    world.volume.fsync(handle).expect("syncs");
    let expected: Vec<u8> = [vec![2; 100], vec![1; 400]].concat();
    assert!(after_crash(&world, attributes.ino) == expected);
}

/// An fsync waits for a segment; the bytes written after it grow old meanwhile and set off.
#[test]
fn bytes_that_depart_during_an_fsync_are_synced() {
    let first = Arc::new(OnceLock::new());
    let world = world_with(move |call| {
        let segment = call.key.expect("a put has a key").segment;
        Fault::Delay(Duration::from_millis(if *first.get_or_init(|| segment) == segment { 1500 } else { 3000 }))
    });
    let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, 0).expect("creates");
    let data: Vec<u8> = (0..(8 << 20) + 1000).map(|i| (i % 251) as u8 + 1).collect();
    world.volume.write(handle, 0, &data[..8 << 20], false).expect("writes");
    world.volume.write(handle, 8 << 20, &data[8 << 20..], false).expect("writes");
    world.volume.fsync(handle).expect("syncs");
    assert!(after_crash(&world, attributes.ino) == data);
}

#[test]
fn what_the_journal_holds_is_no_failure() {
    let is_away = Arc::new(AtomicBool::new(true));
    let world = world_with({
        let is_away = is_away.clone();
        move |_| if is_away.load(Ordering::SeqCst) { Fault::Fail(NodeErrorKind::Unavailable) } else { Fault::None }
    });
    let volume = &world.volume;
    let (attributes, handle) = volume.create(&CALLER, Ino::ROOT, b"file", 0o644, 0).expect("creates");
    volume.write(handle, 0, b"small", false).expect("writes");
    volume.fsync(handle).expect("the journal needs no node");
    volume.sync().expect("it is durable all the same");
    volume.flush(handle).expect("nothing was lost");
    assert_eq!(after_crash(&world, attributes.ino), b"small");

    volume.write(handle, 0, &[1; 100_000], false).expect("writes");
    assert!(volume.fsync(handle).is_err(), "no node takes them");
    is_away.store(false, Ordering::SeqCst);
    volume.fsync(handle).expect("the nodes are back");
    assert!(after_crash(&world, attributes.ino) == vec![1; 100_000]);
}

/// After every fsync a crash leaves the very file, whatever was written, cut and punched before it.
#[test]
fn an_fsync_makes_the_whole_file_durable() {
    for seed in 0..8 {
        println!("seed {seed}");
        let mut random = StdRng::seed_from_u64(seed);
        let world = World::new("rs:2+1", 3);
        let (attributes, handle) = world.volume.create(&CALLER, Ino::ROOT, b"file", 0o644, 0).expect("creates");
        let mut model: Vec<u8> = Vec::new();
        for _ in 0..120 {
            let (offset, length) = (random.random_range(0..60_000usize), random.random_range(1..6000usize));
            match random.random_range(0..10) {
                0..=3 => {
                    let byte = random.random();
                    world.volume.write(handle, offset as u64, &vec![byte; length], false).expect("writes");
                    model.resize(model.len().max(offset + length), 0);
                    model[offset..offset + length].fill(byte);
                }
                4 => {
                    truncate(&world.volume, attributes.ino, offset as u64);
                    model.resize(offset, 0);
                }
                5 => {
                    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
                    world.volume.allocate(handle, offset as u64, length as u64, mode).expect("punches");
                    let end = model.len().min(offset + length);
                    model[offset.min(end)..end].fill(0);
                }
                6 => world.volume.sync().expect("syncs"),
                _ => {
                    world.volume.fsync(handle).expect("syncs");
                    assert!(after_crash(&world, attributes.ino) == model);
                }
            }
        }
        world.fsck();
    }
}
