use super::*;
use crate::engines::memtable::Shared;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::BTreeMap;

fn table() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection
        .execute_batch("CREATE TABLE kv (k BLOB PRIMARY KEY NOT NULL, v BLOB NOT NULL) WITHOUT ROWID, STRICT")
        .unwrap();
    close_table(&connection).unwrap();
    connection
}

fn scan(connection: &Connection, start: &[u8], end: &[u8]) -> Result<Vec<Pair>, Fault> {
    let mut statement = connection.prepare(SCAN)?;
    Scan::new(connection, &mut statement, start, end)?.collect()
}

fn edit(connection: &Connection, changes: &[(&[u8], Option<&[u8]>)]) {
    let mut editor = Editor::new(connection);
    changes.iter().for_each(|(key, value)| editor.set(key, *value).unwrap());
    editor.finish().unwrap();
}

fn is_damaged<T>(answer: Result<T, Fault>) -> bool {
    matches!(answer, Err(Fault::Damaged(_)))
}

/// Random changes in random order, beside a plain map.
#[test]
fn an_editor_leaves_the_rows_of_a_map_and_an_unbroken_chain() {
    let mut random = ChaCha8Rng::seed_from_u64(10);
    for _ in 0..60 {
        let connection = table();
        let mut map = BTreeMap::new();
        for _ in 0..random.random_range(1..6) {
            let mut editor = Editor::new(&connection);
            let ascending = random.random_bool(0.5);
            let mut keys: Vec<u8> = (0..random.random_range(1..20)).map(|_| random.random_range(0..24)).collect();
            if ascending {
                keys.sort_unstable();
            }
            for key in keys {
                let value = random.random_bool(0.6).then(|| vec![random.random::<u8>(); 3]);
                editor.set(&[key], value.as_deref()).unwrap();
                match value {
                    Some(value) => map.insert(vec![key], value),
                    None => map.remove([key].as_slice()),
                };
            }
            editor.finish().unwrap();
            assert_eq!(verify(&connection, &mut |_| {}).unwrap(), [""; 0]);
            let all: Vec<_> = map.clone().into_iter().collect();
            assert_eq!(scan(&connection, b"", b"\xff").unwrap(), all);
            for key in 0..24 {
                let found = read(&connection, &[key]).unwrap();
                assert_eq!(found, map.get([key].as_slice()).map(|value| Shared::from(value.as_slice())));
            }
        }
    }
}

/// Changes are promised before they are filed: a damaged or lost row beside them must not keep them out of the file, and is noticed after
/// them as before.
#[test]
fn finding_10_a_damaged_row_hinders_no_change_beside_it_and_stays_damaged() {
    let mut random = ChaCha8Rng::seed_from_u64(11);
    for round in 0..200u32 {
        let (connection, is_lost) = (table(), round % 2 == 1);
        let mut map: BTreeMap<u8, [u8; 1]> = (0..12).map(|key| (key, [key])).collect();
        let all: Vec<_> = map.iter().map(|(key, value)| ([*key], *value)).collect();
        edit(&connection, &all.iter().map(|(key, value)| (&key[..], Some(&value[..]))).collect::<Vec<_>>());
        let victim = random.random_range(0..12u8);
        let damage = if is_lost { "DELETE FROM kv WHERE k = ?1" } else { "UPDATE kv SET v = x'0102' WHERE k = ?1" };
        assert_eq!(connection.execute(damage, [&[victim][..]]).unwrap(), 1);
        map.remove(&victim);
        for _ in 0..random.random_range(1..4) {
            let mut editor = Editor::new(&connection);
            for _ in 0..random.random_range(1..12) {
                let (key, value) = (random.random_range(0..12u8), [random.random::<u8>()]);
                if key == victim {
                    continue;
                }
                let is_set = random.random_bool(0.5);
                editor.set(&[key], is_set.then_some(&value[..])).unwrap();
                if is_set {
                    map.insert(key, value)
                } else {
                    map.remove(&key)
                };
            }
            editor.finish().unwrap();
            // What was inserted beside a lost row may take over that rows are missing.
            assert!(is_lost || is_damaged(read(&connection, &[victim])), "round {round}");
            assert!(is_damaged(scan(&connection, b"", b"\xff")), "round {round}");
            for (key, value) in &map {
                assert_eq!(read(&connection, &[*key]).unwrap().as_deref(), Some(&value[..]), "round {round}");
            }
        }
        if !is_lost {
            edit(&connection, &[(&[victim], round.is_multiple_of(4).then_some(&[1][..]))]);
            assert_eq!(verify(&connection, &mut |_| {}).unwrap(), [""; 0], "round {round}");
        }
    }
}

#[test]
fn finding_10_rows_that_are_gone_doubled_swapped_or_old_are_noticed_when_read() {
    let fresh = || {
        let connection = table();
        edit(&connection, &[(b"a", Some(b"1")), (b"b", Some(b"2")), (b"c", Some(b"3"))]);
        connection
    };
    let run = |sql: &str| {
        let connection = fresh();
        connection.execute_batch(sql).unwrap();
        connection
    };
    let lost = run("DELETE FROM kv WHERE k = x'62'");
    assert!(is_damaged(read(&lost, b"b")), "an absence is not believed");
    assert!(is_damaged(scan(&lost, b"a", b"c")), "nor is a gap in a range");
    assert!(is_damaged(scan(&lost, b"b", b"bb")), "nor an empty range");
    assert_eq!(read(&lost, b"a").unwrap().as_deref(), Some(&b"1"[..]), "the others are well");
    assert!(
        verify(&lost, &mut |_| {}).unwrap()[0].contains("records before c are missing"),
        "{:?}",
        verify(&lost, &mut |_| {})
    );

    let end = run("DELETE FROM kv WHERE k > x'62'");
    assert!(is_damaged(scan(&end, b"a", b"\xff")) && is_damaged(read(&end, b"d")));
    assert!(!verify(&end, &mut |_| {}).unwrap().is_empty());
    let none = run("DELETE FROM kv");
    assert!(is_damaged(scan(&none, b"", b"\xff")) && is_damaged(read(&none, b"a")), "an empty table is no empty store");

    let swapped = run("UPDATE kv SET v = (SELECT v FROM kv WHERE k = x'61') WHERE k = x'62'");
    assert!(is_damaged(read(&swapped, b"b")), "a sound value under another key");
    let doubled = run("INSERT INTO kv SELECT x'6161', v FROM kv WHERE k = x'61'");
    assert!(is_damaged(read(&doubled, b"aa")));
    let flipped = run("UPDATE kv SET v = CAST(x'33' || SUBSTR(v, 2) AS BLOB) WHERE k = x'62'");
    assert!(is_damaged(read(&flipped, b"b")) && is_damaged(scan(&flipped, b"a", b"c")));
    assert!(verify(&flipped, &mut |_| {}).unwrap()[0].contains("the checksum of record b is wrong"));
    for sql in ["UPDATE kv SET v = x'' WHERE k = x'62'", "UPDATE kv SET v = x'0102' WHERE k = x'62'"] {
        assert!(is_damaged(read(&run(sql), b"b")), "too short");
    }
}

/// The bytes that outlive the process.
#[test]
fn finding_10_golden_row() {
    let connection = table();
    edit(&connection, &[(b"a", Some(b"1")), (b"b", Some(b"22"))]);
    let stored = |key: &[u8]| -> String {
        connection.query_row("SELECT hex(v) FROM kv WHERE k = ?1", [key], |row| row.get(0)).unwrap()
    };
    assert_eq!([stored(b"a"), stored(b"b"), stored(LAST)], GOLDEN);
}

const GOLDEN: [&str; 3] =
    ["3100000000000000008F832EED6516A32F", "3232C0D8EC1CEF9315DF15072B9285962974", "4B43B24CB782A65E6EC230EC917C731F"];
