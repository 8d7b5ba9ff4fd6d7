//! Many threads at once, each with files of its own and an array of bytes to compare them with, over nodes that fail now and
//! then, while everything is synced and compacted all the time.

use crate::support::{CALLER, World};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use weft_format::Ino;
use weft_meta::RenameFlags;
use weft_nodes::wrappers::fault::{Call, Fault, Rates, seeded};
use weft_nodes::wrappers::{FaultNode, Operation};
use weft_vfs::{AttributeChange, Demand, Handle, Volume};

const SPAN: usize = 400_000;

struct Model {
    name: String,
    ino: Ino,
    handle: Handle,
    bytes: Vec<u8>,
}

fn make(volume: &Volume, name: String) -> Model {
    let (attributes, handle) =
        volume.create(&CALLER, Ino::ROOT, name.as_bytes(), 0o644, libc::O_RDWR).expect("creates");
    Model { name, ino: attributes.ino, handle, bytes: Vec::new() }
}

fn check(volume: &Volume, model: &Model) {
    assert_eq!(volume.attributes(model.ino).expect("stats").size, model.bytes.len() as u64, "size of {}", model.name);
    let read = volume.read(model.handle, 0, 2 * SPAN as u32).expect("reads");
    let wrong = || read.iter().zip(&model.bytes).position(|(found, expected)| found != expected);
    assert!(read == model.bytes, "{} differs at {:?}", model.name, wrong());
}

fn step(volume: &Volume, model: &mut Model, random: &mut StdRng, number: usize) {
    let (offset, length) = (random.random_range(0..SPAN / 2), random.random_range(1..SPAN / 2));
    let length = if random.random_bool(0.7) { length % 5000 + 1 } else { length };
    match random.random_range(0..20) {
        0..=7 => {
            let byte = random.random();
            volume.write(model.handle, offset as u64, &vec![byte; length], false).expect("writes");
            model.bytes.resize(model.bytes.len().max(offset + length), 0);
            model.bytes[offset..offset + length].fill(byte);
        }
        8 | 9 => {
            let size = if random.random_bool(0.3) { 0 } else { offset };
            let change = AttributeChange { size: Some(size as u64), ..AttributeChange::default() };
            volume.set_attributes(model.ino, &change).expect("truncates");
            model.bytes.resize(size, 0);
        }
        10 => {
            let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
            volume.allocate(model.handle, offset as u64, length as u64, mode, false).expect("punches");
            let end = model.bytes.len().min(offset + length);
            model.bytes[offset.min(end)..end].fill(0);
        }
        // Nodes fail: an fsync may say so.
        11..=13 => drop(volume.fsync(model.handle)),
        14 => {
            volume.release(model.handle);
            model.handle = volume.open(model.ino, 0).expect("opens");
        }
        15 => {
            volume.unlink(Ino::ROOT, model.name.as_bytes()).expect("unlinks");
            check(volume, model);
            volume.release(model.handle);
            volume.forget(model.ino, 1);
            *model = make(volume, model.name.clone());
        }
        16 => {
            let mut new = make(volume, format!("{}.{number}", model.name));
            volume.write(new.handle, 0, &[7; 1000], false).expect("writes");
            new.bytes = vec![7; 1000];
            let renamed =
                volume.rename(Ino::ROOT, new.name.as_bytes(), Ino::ROOT, model.name.as_bytes(), RenameFlags::default());
            // It may tell that the bytes could not be written.
            let old =
                if renamed.is_ok() { std::mem::replace(model, Model { name: model.name.clone(), ..new }) } else { new };
            if renamed.is_err() {
                volume.unlink(Ino::ROOT, old.name.as_bytes()).expect("unlinks");
            }
            volume.release(old.handle);
            volume.forget(old.ino, 1);
        }
        _ => check(volume, model),
    }
}

fn run(seed: u64, fail_per_mille: u64) {
    println!("seed {seed}, failures {fail_per_mille}");
    let plain = World::new("rs:2+1", 4);
    plain.volume.shut_down().expect("shuts down");
    let faulty =
        |(i, (id, record, node)): (usize, &(_, weft_format::records::NodeRecord, Arc<dyn weft_nodes::Node>))| {
            let rates = Rates { fail_per_mille, ..Rates::default() };
            let mut decide = seeded(seed * 10 + i as u64, rates);
            let puts = move |call: &Call| if call.operation == Operation::Put { decide(call) } else { Fault::None };
            let fault = FaultNode::new(node.clone(), &record.name, Box::new(puts));
            (*id, record.clone(), Arc::new(fault) as _)
        };
    let world = World::open(plain.kv.clone(), plain.nodes.iter().enumerate().map(faulty).collect());
    let volume = &world.volume;
    let is_done = AtomicBool::new(false);
    let models: Vec<Model> = std::thread::scope(|scope| {
        let synced = scope.spawn(|| {
            while !is_done.load(Ordering::SeqCst) {
                drop(volume.sync());
                drop(volume.compact(Demand::Any, &mut HashSet::new()));
            }
        });
        let threads: Vec<_> = (0..6)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed * 100 + thread);
                    let mut model = make(volume, format!("t{thread}"));
                    for number in 0..150 {
                        step(volume, &mut model, &mut random, number);
                    }
                    model
                })
            })
            .collect();
        let ended: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        is_done.store(true, Ordering::SeqCst);
        synced.join().expect("ends");
        ended.into_iter().map(|model| model.expect("its files were right")).collect()
    });
    models.iter().for_each(|model| check(volume, model));
    for _ in 0..100 {
        if volume.sync().is_ok() {
            break;
        }
    }
    volume.shut_down().expect("shuts down");
    world.fsck();
    let again = World::open(world.kv.clone(), plain.nodes.clone());
    for mut model in models {
        model.handle = again.volume.open(model.ino, 0).expect("opens");
        check(&again.volume, &model);
    }
    again.volume.shut_down().expect("shuts down");
}

#[test]
fn files_are_what_their_threads_wrote() {
    for seed in 0..6 {
        run(seed, 0);
    }
}

#[test]
fn nodes_that_fail_now_and_then_change_nothing() {
    for seed in 0..6 {
        run(seed, 100);
    }
}
