//! How fast the engine is over six folder nodes: `cargo run --release -p weft-transfer --example transfer_bench -- DIR`.
//!
//! DIR is best on a memory file system (`/dev/shm`), so that what is measured is this program and the kernel's copies, not a
//! disk. Prints GB/s of data and microseconds; medians of reads, best of writes (first touch of memory is slow).

use bytes::Bytes;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use weft_env::Env;
use weft_format::records::{NodeRecord, NodeState, SegmentRecord};
use weft_format::{NodeId, SegmentId, ShardIndex, VolumeId};
use weft_nodes::{FolderNode, Node, NodeIdentity};
use weft_transfer::{BLOCK_BYTES, Fleet, Settings, Transfer, WriteRequest};

const VOLUME: VolumeId = VolumeId(1);
const SEGMENT_BYTES: usize = 16 << 20;
const SEGMENT_COUNT: u64 = 16;
const ROUNDS: usize = 11;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).ok_or("name a folder to make six nodes in, e.g. /dev/shm")?;
    let root = Path::new(&folder).join(format!("transfer-bench-{}", std::process::id()));
    std::fs::create_dir(&root)?;
    let outcome = measure(&root);
    std::fs::remove_dir_all(&root)?;
    outcome
}

fn measure(root: &Path) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut members = Vec::new();
    for i in 0..6 {
        let id = NodeId(i);
        let node =
            FolderNode::create(&root.join(i.to_string()), &format!("n{i}"), NodeIdentity { volume: VOLUME, node: id })?;
        let record = NodeRecord {
            name: format!("n{i}"),
            url: String::new(),
            state: NodeState::Active,
            domain: format!("d{i}"),
            weight: 1,
            secret: Default::default(),
            limits: Default::default(),
        };
        members.push((id, record, Arc::new(node) as Arc<dyn Node>));
    }
    let fleet = Arc::new(Fleet::new(members, Default::default(), &Env::system()));
    let transfer = Transfer::new(VOLUME, fleet, Settings::default(), runtime.handle().clone());
    // As a FUSE worker does: its own thread blocks on the runtime's handle.
    let handle = runtime.handle();
    let data: Bytes = (0..SEGMENT_BYTES).map(|i| (i * 31 + (i >> 8)) as u8).collect::<Vec<u8>>().into();

    let mut records: Vec<Arc<SegmentRecord>> = Vec::new();
    let mut write_gbs: f64 = 0.0;
    for round in 0..ROUNDS {
        let (started, mut written) = (Instant::now(), Vec::new());
        for i in 0..SEGMENT_COUNT {
            let request = request(segment(round as u64, i), vec![data.clone()]);
            written.push(Arc::new(handle.block_on(transfer.write(request))?.record));
        }
        write_gbs = write_gbs.max(gbs(SEGMENT_BYTES as u64 * SEGMENT_COUNT, started));
        if round + 1 == ROUNDS {
            records = written;
        } else {
            for (i, record) in written.iter().enumerate() {
                handle.block_on(transfer.withdraw(segment(round as u64, i as u64), record));
            }
        }
    }
    println!("write, 16 MiB segments:              {write_gbs:6.2} GB/s");
    let id = |i: usize| segment(ROUNDS as u64 - 1, i as u64);

    let without = |lost: &[usize]| -> Vec<Arc<SegmentRecord>> {
        let degrade = |record: &Arc<SegmentRecord>| {
            let mut record = (**record).clone();
            lost.iter().for_each(|index| record.shards[*index] = None);
            Arc::new(record)
        };
        records.iter().map(degrade).collect()
    };
    let mut out = vec![0; BLOCK_BYTES as usize];
    // In turns, so that what else the machine does falls on all alike.
    let kinds = [("healthy", records.clone()), ("1 lost", without(&[1])), ("2 lost", without(&[1, 2]))];
    let mut rates = vec![Vec::new(); kinds.len()];
    for _ in 0..ROUNDS {
        for ((_, records), rates) in kinds.iter().zip(&mut rates) {
            let started = Instant::now();
            for (i, record) in records.iter().enumerate() {
                for at in (0..SEGMENT_BYTES as u64).step_by(BLOCK_BYTES as usize) {
                    handle.block_on(transfer.read(id(i), record, at..at + BLOCK_BYTES, &mut out))?;
                }
            }
            rates.push(gbs(SEGMENT_BYTES as u64 * SEGMENT_COUNT, started));
        }
    }
    let rates: Vec<f64> = rates.into_iter().map(middle).collect();
    for ((what, _), rate) in kinds.iter().zip(&rates) {
        println!("read, 1 MiB in order, {what:8}:       {rate:6.2} GB/s, {:4.2} of healthy", rate / rates[0]);
    }

    for (what, records) in [("healthy", &records), ("degraded", &without(&[0, 1]))] {
        let latency_us = median(|| {
            const READS: u64 = 20_000;
            let started = Instant::now();
            for i in 0..READS {
                let place = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let which = (place % SEGMENT_COUNT) as usize;
                let at = (place >> 20) % (SEGMENT_BYTES as u64 / 4096) * 4096;
                handle.block_on(transfer.read(id(which), &records[which], at..at + 4096, &mut out[..4096]))?;
            }
            Ok(started.elapsed().as_micros() as f64 / READS as f64)
        })?;
        println!("read, 4 KiB at random, {what:8}:      {latency_us:6.2} us");
    }
    let node_us = median(|| {
        const READS: u64 = 20_000;
        let started = Instant::now();
        for i in 0..READS {
            let place = i.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let which = (place % SEGMENT_COUNT) as usize;
            let key = records[which].shard_key(id(which), ShardIndex(0)).ok_or("every shard is placed")?;
            let node =
                transfer.fleet().get(records[which].shards[0].as_ref().ok_or("placed")?.node).ok_or("a member")?;
            let at = 256 + (place >> 20) % 1024 * 4104;
            handle.block_on(node.get(key, at..at + 4104))?;
        }
        Ok(started.elapsed().as_micros() as f64 / READS as f64)
    })?;
    println!("  of which the node's get:           {node_us:6.2} us");

    let small = data.slice(..5 << 10);
    let mut round = ROUNDS as u64;
    let writes = median(|| {
        const WRITES: u64 = 1_000;
        round += 1;
        let (started, mut written) = (Instant::now(), Vec::new());
        for i in 0..WRITES {
            written.push(handle.block_on(transfer.write(request(segment(round, i), vec![small.clone()])))?.record);
        }
        let rate = WRITES as f64 / started.elapsed().as_secs_f64();
        for (i, record) in written.iter().enumerate() {
            handle.block_on(transfer.withdraw(segment(round, i as u64), record));
        }
        Ok(rate)
    })?;
    println!("write, 5 KiB segments, one by one:   {writes:6.0} a second");

    let rebuild = median(|| {
        let started = Instant::now();
        let mut bytes = 0;
        for (i, record) in records.iter().enumerate() {
            let rebuilt = handle.block_on(transfer.rebuild(id(i), record, &[ShardIndex(1)]))?;
            bytes += rebuilt.bytes_written;
            let mut only_new = rebuilt.record;
            only_new.shards.iter_mut().enumerate().filter(|(i, _)| *i != 1).for_each(|(_, shard)| *shard = None);
            handle.block_on(transfer.withdraw(id(i), &only_new));
        }
        Ok(gbs(bytes, started))
    })?;
    println!("rebuild of one shard, 16 MiB segments: {rebuild:4.2} GB/s of rebuilt bytes");
    Ok(())
}

fn segment(round: u64, i: u64) -> SegmentId {
    SegmentId::new(round, u128::from(i) << 8 | u128::from(i & 0xff))
}

fn request(segment: SegmentId, data: Vec<Bytes>) -> WriteRequest {
    WriteRequest { segment, code: "rs:4+2".into(), write_margin: Some(1), cell_bytes: None, data }
}

fn gbs(bytes: u64, since: Instant) -> f64 {
    bytes as f64 / 1e9 / since.elapsed().as_secs_f64()
}

fn median(mut once: impl FnMut() -> Result<f64, Failure>) -> Result<f64, Failure> {
    Ok(middle((0..ROUNDS).map(|_| once()).collect::<Result<_, _>>()?))
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
