//! What is read in step, beside a reference that holds every table as a set: missing keys, and keys that belong to nothing.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::fsck::check;
use crate::kv::{Batch, Kv as _};
use crate::store::aliased;
use crate::store::fixture::*;
use crate::store::values::{self, Dirent};
use weft_format::records::{Attributes, Kind, Origin, RetainedRecord, SegmentRecord};
use weft_format::{Generation, ShardIndex};

/// Tables whose keys follow from others.
const DERIVED: [Table; 6] = [Table::Entry, Table::Symlink, Table::UsedBy, Table::OnNode, Table::Alias, Table::Damaged];

type Dump = BTreeMap<Vec<u8>, Vec<u8>>;

/// Some directories and files, segments, dead ones among them, and shards under other names.
fn filled(random: &mut Random) -> (Store, std::sync::Arc<StrictKv>) {
    let (store, kv) = volume();
    let (mut directories, mut files) = (vec![Ino::ROOT], vec![make(&store, Ino::ROOT, "file", Kind::File)]);
    for number in 0..30 {
        let (parent, name) = (*random.pick(&directories), format!("n{number}"));
        match random.below(5) {
            0 => directories.push(make(&store, parent, &name, Kind::Directory)),
            1 => drop(make(&store, parent, &name, Kind::Symlink)),
            2 => files.push(make(&store, parent, &name, Kind::File)),
            _ => write(&store, *random.pick(&files), random.below(8) * 500, 500 + random.below(900), 1 + number),
        }
    }
    // Of merged segments that are gone.
    let mut others = 100..;
    for (segment, mut record) in store.segments(None, usize::MAX).unwrap() {
        let mut name_another = || {
            let origin = Origin { segment: segment_id(others.next().expect("endless")), index: ShardIndex(0) };
            record.shards[0].as_mut().expect("placed").origin = Some(origin);
            put_all(&kv, aliased(segment, &record).map(|shard| (Key::Alias(shard), values::segment(segment))));
            record.clone()
        };
        if random.below(3) == 0 {
            let retained = RetainedRecord { record: name_another(), since_ms: 1, keep_ms: 1, is_going: false };
            put_all(&kv, [(Key::UnreferencedGeneration(segment, Generation(1)), retained.encode())]);
        }
        if random.below(3) == 0 {
            put_all(&kv, [(Key::Segment(segment), name_another().encode())]);
        }
    }
    (store, kv)
}

fn put_all<'k>(kv: &StrictKv, pairs: impl IntoIterator<Item = (Key<'k>, Vec<u8>)>) {
    let writes = pairs.into_iter().map(|(key, value)| (key.encode(), Some(value))).collect();
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
}

fn dump(kv: &StrictKv) -> Dump {
    kv.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap().into_iter().collect()
}

/// Removes a key of a table, or moves its value to another key.
fn damage(kv: &StrictKv, random: &mut Random) {
    let dump = dump(kv);
    let table =
        *random.pick(&[DERIVED.to_vec(), vec![Table::Dirent, Table::Extent, Table::Segment, Table::Inode]].concat());
    let of_table: Vec<&Vec<u8>> = dump.keys().filter(|key| key[0] == table as u8).collect();
    if of_table.is_empty() {
        return;
    }
    let (key, other) = ((*random.pick(&of_table)).clone(), (*random.pick(&of_table)).clone());
    let mut writes = vec![(key.clone(), None)];
    if random.below(2) == 0 && DERIVED.contains(&table) {
        // Of one the beginning, of the other the end.
        let cut = 1 + random.below(key.len() as u64) as usize;
        let mixed = [&key[..cut], &other[cut.min(other.len())..]].concat();
        writes = vec![(mixed, Some(dump[&key].clone()))];
    }
    kv.commit(Batch { writes, ..Batch::default() }).unwrap();
}

/// What must be there of the derived tables, as far as nothing but these speaks of it; and what is there and must not be.
fn expected(dump: &Dump) -> (BTreeSet<String>, BTreeSet<String>) {
    let keys: Vec<(Key<'_>, &Vec<u8>)> =
        dump.iter().map(|(key, value)| (Key::parse(key).expect("a key"), value)).collect();
    let (mut inodes, mut segments, mut named) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut wanted, mut lives) = (BTreeSet::new(), BTreeSet::new());
    for (key, value) in &keys {
        match *key {
            Key::Inode(ino) => drop(inodes.insert(ino, Attributes::decode(value).unwrap().kind)),
            Key::Segment(segment) => {
                let record = SegmentRecord::decode(value).unwrap();
                wanted.extend(record.nodes().map(|node| Key::OnNode(node, segment).to_string()));
                named.extend(aliased(segment, &record).map(|shard| ((shard, segment), ())));
                segments.insert(segment, record);
            }
            Key::UnreferencedGeneration(segment, _) => {
                let record = RetainedRecord::decode(value).unwrap().record;
                named.extend(aliased(segment, &record).map(|shard| ((shard, segment), ())));
            }
            Key::Dirent(parent, _) => {
                wanted.insert(Key::Entry(parent, Dirent::decode(key, value).unwrap().cookie).to_string());
            }
            _ => {}
        }
    }
    for (key, value) in &keys {
        if let Key::Extent(ino, _) = *key
            && inodes.contains_key(&ino)
        {
            let segment = values::decode_extent(key, value).unwrap().segment;
            if segments.contains_key(&segment) {
                lives.insert(segment);
                wanted.insert(Key::UsedBy(segment, ino).to_string());
            }
        }
    }
    let symlinks = inodes.iter().filter(|(_, kind)| **kind == Kind::Symlink);
    wanted.extend(symlinks.map(|(ino, _)| Key::Symlink(*ino).to_string()));
    let of_living = named.keys().filter(|(_, owner)| lives.contains(owner));
    wanted.extend(of_living.map(|(shard, _)| Key::Alias(*shard).to_string()));
    let is_stray = |(key, value): &&(Key<'_>, &Vec<u8>)| match *key {
        Key::Entry(parent, cookie) => {
            let (_, name) = values::decode_entry(key, value).unwrap();
            let name = Key::Dirent(parent, name);
            dump.get(&name.encode()).is_none_or(|found| Dirent::decode(&name, found).unwrap().cookie != cookie)
        }
        Key::UsedBy(segment, _) => !lives.contains(&segment),
        Key::Damaged(segment) => !segments.contains_key(&segment),
        Key::Alias(shard) => !named.contains_key(&(shard, values::decode_segment(key, value).unwrap())),
        Key::OnNode(..) | Key::Symlink(_) => !wanted.contains(&key.to_string()),
        _ => false,
    };
    let strays = keys.iter().filter(is_stray).map(|(key, _)| key.to_string()).collect();
    let is_there: BTreeSet<String> = keys
        .iter()
        .filter(|(key, value)| match *key {
            // One of another owner is none.
            Key::Alias(shard) => {
                let owner = values::decode_segment(key, value).unwrap();
                named.keys().all(|(named, of)| *named != shard || !lives.contains(of) || *of == owner)
            }
            _ => true,
        })
        .map(|(key, _)| key.to_string())
        .collect();
    (wanted.difference(&is_there).cloned().collect(), strays)
}

#[test]
fn what_is_read_in_step_is_what_sets_say() {
    let (mut missing_count, mut stray_count) = (0, 0);
    for seed in 0..400 {
        let mut random = Random(seed);
        let (store, kv) = filled(&mut random);
        for _ in 0..random.below(6) {
            damage(&kv, &mut random);
        }
        let (missing, strays) = expected(&dump(&kv));
        let (mut said_missing, mut said_strays) = (Vec::new(), Vec::new());
        let is_derived = |key: &str| {
            let tables = ["entry/", "symlink/", "used-by/", "on-node/", "alias/", "damaged/"];
            tables.iter().any(|table| key.starts_with(table))
        };
        for (finding, _) in check(&store, &mut |_| {}).unwrap().findings {
            match finding {
                Finding::Missing { key } if is_derived(&key) => said_missing.push(key),
                Finding::Stray { key } if is_derived(&key) => said_strays.push(key),
                _ => {}
            }
        }
        said_missing.sort();
        said_strays.sort();
        assert_eq!(said_missing, missing.into_iter().collect::<Vec<_>>(), "seed {seed}");
        assert_eq!(said_strays, strays.into_iter().collect::<Vec<_>>(), "seed {seed}");
        (missing_count, stray_count) = (missing_count + said_missing.len(), stray_count + said_strays.len());
    }
    assert!(missing_count > 100 && stray_count > 100, "{missing_count} {stray_count}");
}

/// No page is left out or read twice, and what is no key is said once, wherever it lies.
#[test]
fn every_record_is_read_once() {
    let (store, kv) = filled(&mut Random(7));
    let records = dump(&kv).len() as u64;
    let mut told: Vec<Progress> = Vec::new();
    assert!(check(&store, &mut |progress| told.push(progress)).unwrap().is_clean());
    assert!(told.windows(2).all(|two| two[0].records <= two[1].records));
    let last = told.last().expect("some");
    // Of tables with one record each, and of none of the tables of jobs and rules, it reads no page.
    // It looks again at previous generations that name a shard.
    assert!(last.records + 12 > records && last.records < records + 40, "{last:?} of {records}");
    assert!(last.records_total >= last.records);

    for (key, _) in dump(&kv).iter().filter(|(key, _)| key.len() > 8) {
        let (store, kv) = filled(&mut Random(7));
        // Names and extended attributes have keys of any length.
        let is_key = |key: &[u8]| Key::parse(key).is_some();
        let longer = [key.as_slice(), &[0]].concat();
        if is_key(&longer) {
            continue;
        }
        kv.commit(Batch { writes: vec![(longer.clone(), Some(Vec::new()))], ..Batch::default() }).unwrap();
        let unknown = Finding::UnknownKey { key: printable(&longer) };
        let found = check(&store, &mut |_| {}).unwrap().findings;
        assert_eq!(found.iter().filter(|(finding, _)| *finding == unknown).count(), 1, "{}: {found:?}", printable(key));
    }
}
