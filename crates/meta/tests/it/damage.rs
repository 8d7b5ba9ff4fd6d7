//! A store of which one bit has flipped answers truly or says that it is damaged, whatever is asked; and then its check says so as well.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;
use std::path::Path;
use weft_env::Env;
use weft_meta::Access;
use weft_meta::engines::SqliteKv;
use weft_meta::kv::{Batch, Kv, KvError, Snapshot};

const FLIPS: u32 = 100;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A key and its value.
type Pair = (Vec<u8>, Vec<u8>);

/// Some pages of rows like those of files, and some with longer values.
fn fill(path: &Path, random: &mut ChaCha8Rng) -> Map {
    SqliteKv::create(path).unwrap();
    let kv = SqliteKv::open(path, Access::Owner, &[], None, &Env::system()).unwrap();
    let mut map = Map::new();
    for number in 0..900_u64 {
        let key =
            [&[random.random_range(2..12_u8)][..], &number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()].concat();
        let bytes = if number % 50 == 0 { random.random_range(500..9000) } else { random.random_range(0..60) };
        let value: Vec<u8> = (0..bytes).map(|_| random.random()).collect();
        kv.commit(Batch { writes: vec![(key.clone(), Some(value.clone()))], ..Batch::default() }).unwrap();
        map.insert(key, value);
    }
    map
}

/// Was anything refused? Panics where an answer is not true.
fn ask(snapshot: &dyn Snapshot, map: &Map, random: &mut ChaCha8Rng, place: &str) -> bool {
    let mut refused = false;
    let mut judge = |answer: Result<Vec<Pair>, KvError>, truth: Vec<(&Vec<u8>, &Vec<u8>)>| match answer {
        Ok(found) => {
            let found: Vec<_> = found.iter().map(|(key, value)| (key, value)).collect();
            assert!(found == truth, "{place}: {} rows of {} are told, or wrong ones", found.len(), truth.len());
        }
        Err(KvError::Damaged { .. }) => refused = true,
        Err(error) => panic!("{place}: {error}"),
    };
    for (key, value) in map {
        let found = snapshot.get(key).map(|found| found.map(|found| (key.clone(), found)).into_iter().collect());
        judge(found, vec![(key, value)]);
        let absent = [&key[..], b"x"].concat();
        judge(snapshot.get(&absent).map(|found| found.map(|found| (absent, found)).into_iter().collect()), vec![]);
    }
    for _ in 0..20 {
        let mut ends = [(); 2].map(|()| vec![random.random_range(1..13_u8), random.random()]);
        ends.sort();
        let limit = if random.random() { 30 } else { usize::MAX };
        let truth = map.range(ends[0].clone()..ends[1].clone()).take(limit).collect();
        judge(snapshot.scan(&ends[0], &ends[1], limit), truth);
    }
    judge(snapshot.scan(b"", b"\xff", usize::MAX), map.iter().collect());
    refused
}

#[test]
fn finding_10_a_flipped_bit_anywhere_is_never_a_wrong_answer() {
    let seed = weft_meta::conformance::seed();
    println!("WEFT_SEED={seed}");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("volume");
    let map = fill(&path, &mut random);
    let sound = std::fs::read(&path).unwrap();
    let (mut refused_count, mut unopened_count) = (0, 0);
    for number in 0..FLIPS {
        let damaged = folder.path().join(format!("damaged-{number}"));
        let mut bytes = sound.clone();
        // Every fourth in the first bytes of a page, where a flip moves most.
        let page_start = random.random_range(0..bytes.len() / 4096) * 4096;
        let within = if number % 4 == 0 { random.random_range(0..64) } else { random.random_range(0..4096) };
        let (at, bit) = (page_start + within, random.random_range(0..8));
        bytes[at] ^= 1 << bit;
        let place = format!("bit {bit} of byte {at}, flip {number}");
        std::fs::write(&damaged, &bytes).unwrap();
        match SqliteKv::open(&damaged, Access::Shared, &[], None, &Env::system()) {
            Err(_) => unopened_count += 1,
            Ok(kv) => {
                let refused = match kv.snapshot() {
                    Ok(snapshot) => ask(&*snapshot, &map, &mut random, &place),
                    Err(_) => true,
                };
                let faults = kv.verify(&mut |_| {});
                assert!(
                    !refused || !matches!(&faults, Ok(faults) if faults.is_empty()),
                    "{place}: nothing is found wrong"
                );
                refused_count += u32::from(refused);
            }
        }
        std::fs::remove_file(&damaged).unwrap();
    }
    println!("{unopened_count} not opened, {refused_count} refused something, of {FLIPS}");
    assert!(refused_count > FLIPS / 8, "most of a store is rows");
}
