use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use std::cell::Cell;

const GOLDEN: &str = r#"{"version":2,"started_ms":1700000000000,"updated_ms":1700000001000,"ended_ms":null,"cursor":"0000000000000000000000000000002a","segment_count":3,"bytes":4096,"finding_count":2,"failure_count":1}"#;

fn sample() -> JobRecord {
    JobRecord {
        updated_ms: 1_700_000_001_000,
        cursor: Some(weft_format::SegmentId(42).to_string()),
        segment_count: 3,
        bytes: 4096,
        finding_count: 2,
        failure_count: 1,
        ..JobRecord::begin(1_700_000_000_000)
    }
}

#[test]
fn golden_bytes() {
    assert_eq!(String::from_utf8_lossy(&encode(&sample())), GOLDEN);
    assert_eq!(decode(GOLDEN.as_bytes()), Ok(sample()));
}

#[test]
fn an_interrupted_job_is_resumed_and_an_ended_one_begins_anew() {
    let catalogue = MemoryCatalogue::default();
    assert_eq!(JobRecord::resume(&catalogue, SCRUB, 5), Ok(JobRecord::begin(5)));
    let mut record = sample();
    record.store(&catalogue, SCRUB).expect("stored");
    assert_eq!(JobRecord::resume(&catalogue, SCRUB, 5), Ok(sample()));
    record.ended_ms = Some(4);
    record.store(&catalogue, SCRUB).expect("stored");
    assert_eq!(JobRecord::resume(&catalogue, SCRUB, 5), Ok(JobRecord::begin(5)));
}

#[test]
fn foreign_bytes_are_refused_with_a_sentence() {
    let catalogue = MemoryCatalogue::default();
    for (bytes, says) in [
        (&b"\xff\x00"[..], "it is damaged"),
        (b"{}", "it is damaged"),
        (br#"{"version":3,"novel":true}"#, "it has version 3, this program reads version 2"),
        (br#"{"version":2,"started_ms":-1}"#, "it is damaged"),
    ] {
        catalogue.set_job(REPAIR, Some(bytes)).expect("set");
        let error = JobRecord::load(&catalogue, REPAIR).expect_err("refused").to_string();
        assert!(error.starts_with("the record of the last repair cannot be used: "), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn golden_bytes_of_the_worker() {
    let entry = HistoryEntry { task: "repair".into(), started_ms: 1, ended_ms: 2, is_well: true, what: "done".into() };
    let record = CareRecord {
        updated_ms: 3,
        doubted: vec![("n1".into(), Verdict::GivenUp)],
        history: vec![entry],
        ..CareRecord::new("process 1")
    };
    let golden = r#"{"version":2,"holder":"process 1","updated_ms":3,"has_ended":false,"is_paused":false,"now":null,"doubted":[["n1","given-up"]],"history":[{"task":"repair","started_ms":1,"ended_ms":2,"is_well":true,"what":"done"}]}"#;
    assert_eq!(String::from_utf8_lossy(&encode(&record)), golden);
    assert_eq!(decode(golden.as_bytes()), Ok(record));
    let requests = Requests { is_paused: true, cancel_count: 2, convert_count: 3, ..Requests::default() };
    let golden = r#"{"version":2,"is_paused":true,"cancel_count":2,"convert_count":3}"#;
    assert_eq!(String::from_utf8_lossy(&encode(&requests)), golden);
    assert_eq!(decode(golden.as_bytes()), Ok(requests));
}

#[test]
fn golden_bytes_of_the_conversion_and_its_resumption() {
    let catalogue = MemoryCatalogue::default();
    let begun = ConvertRecord::resume(&catalogue, 2, 5).expect("read");
    assert_eq!((begun.started_ms, begun.request_count, begun.ended_ms), (5, 2, None));
    let record = ConvertRecord { segment_count: 3, bytes_read: 4, bytes_written: 6, bytes_saved: 7, ..begun };
    let golden = r#"{"version":2,"started_ms":5,"updated_ms":5,"ended_ms":null,"request_count":2,"segment_count":3,"bytes_read":4,"bytes_verified":0,"bytes_written":6,"bytes_saved":7,"merged_count":0,"divided_count":0,"failure_count":0}"#;
    assert_eq!(String::from_utf8_lossy(&encode(&record)), golden);
    assert_eq!(decode(golden.as_bytes()), Ok(record.clone()));
    record.store(&catalogue).expect("stored");
    assert_eq!(ConvertRecord::resume(&catalogue, 4, 9), Ok(ConvertRecord { request_count: 4, ..record.clone() }));
    ConvertRecord { ended_ms: Some(8), ..record }.store(&catalogue).expect("stored");
    assert_eq!(ConvertRecord::resume(&catalogue, 4, 9).expect("read").segment_count, 0);
}

#[test]
fn what_was_done_before_stays_said() {
    let catalogue = MemoryCatalogue::default();
    let entry = |ended_ms: u64| {
        let what = format!("done at {ended_ms}");
        HistoryEntry { task: "repair".into(), started_ms: 0, ended_ms, is_well: true, what }
    };
    let mut first = CareRecord { history: vec![entry(5)], ..CareRecord::new("process 1") };
    first.store(&catalogue).expect("stored");
    // A worker that begins, beside another that goes on.
    let mut second = CareRecord::new("process 2");
    second.store(&catalogue).expect("stored");
    second.history.push(entry(7));
    second.store(&catalogue).expect("stored");
    first.history.push(entry(6));
    first.store(&catalogue).expect("stored");
    let said = CareRecord::load(&catalogue).expect("read").expect("said").history;
    assert_eq!(said, [entry(7), entry(6), entry(5)]);
    first.history.extend((10..40).map(entry));
    first.store(&catalogue).expect("stored");
    let said = CareRecord::load(&catalogue).expect("read").expect("said").history;
    assert_eq!((said.len(), said[0].ended_ms), (HISTORY_MAX, 39));
}

/// `weft care resume` beside `weft policy set`: neither takes the other's request back.
#[test]
fn requests_at_the_same_time_all_stay() {
    let catalogue = MemoryCatalogue::default();
    Requests::change(&catalogue, |requests| requests.is_paused = true).expect("requested");
    let attempts = Cell::new(0);
    let convert = |requests: &mut Requests| {
        attempts.set(attempts.get() + 1);
        if attempts.get() == 1 {
            Requests::change(&catalogue, |requests| requests.is_paused = false).expect("requested");
        }
        requests.convert_count += 1;
    };
    Requests::change(&catalogue, convert).expect("requested");
    let requests = Requests::load(&catalogue).expect("read");
    assert_eq!((requests.is_paused, requests.convert_count, attempts.get()), (false, 1, 2));
}
