//! Records of care, for `crates/fuzz`.

use super::{CareRecord, ConvertRecord, HistoryEntry, JobRecord, Requests, VERSION, decode, encode};
use crate::job::Progress;
use crate::watch::Verdict;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A record of a job, of the conversion, of a worker, or of requests to it: the first byte says which.
pub fn record(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match what % 4 {
        0 => same_again::<JobRecord>(bytes),
        1 => same_again::<ConvertRecord>(bytes),
        2 => same_again::<CareRecord>(bytes),
        _ => same_again::<Requests>(bytes),
    }
}

/// What is accepted is encoded to something that is read as the same.
fn same_again<T: DeserializeOwned + Serialize + PartialEq + Debug>(bytes: &[u8]) {
    match decode::<T>(bytes) {
        Ok(record) => assert_eq!(decode(&encode(&record)), Ok(record)),
        Err(why) => assert!(!why.is_empty()),
    }
}

/// One of each.
#[must_use]
pub fn record_seeds() -> Vec<Vec<u8>> {
    let job = JobRecord { cursor: Some("2a".into()), segment_count: 3, bytes: 4096, ..JobRecord::begin(5) };
    let conversion = ConvertRecord { version: VERSION, started_ms: 1, segment_count: 3, ..ConvertRecord::default() };
    let entry = HistoryEntry { task: "repair".into(), started_ms: 1, ended_ms: 2, is_well: true, what: "done".into() };
    let worker = CareRecord {
        now: Some(("scrub".into(), Progress { phase: "looking".into(), ..Progress::default() })),
        doubted: vec![("n1".into(), Verdict::GivenUp)],
        history: vec![entry],
        ..CareRecord::new("process 1")
    };
    let records = [encode(&job), encode(&conversion), encode(&worker), encode(&Requests::default())];
    (0..).zip(records).map(|(what, record): (u8, _)| [&[what][..], &record].concat()).collect()
}
