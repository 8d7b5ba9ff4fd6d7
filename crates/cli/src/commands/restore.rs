//! `weft restore FILE META`: the volume goes on from a copy of its metadata.

use crate::care::{self, PATHS_SHOWN, count, moment};
use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use tokio::task::JoinSet;
use weft_care::{Catalogue, Roster, glance};
use weft_engine::Keeper;
use weft_format::SegmentId;
use weft_format::records::{Opening, SegmentRecord, Succession};
use weft_meta::engines::SqliteKv;
use weft_meta::{Access, MetaError, Store};
use weft_transfer::{ShardHealth, Transfer};
use weft_vfs::open::open_store;

/// Segments read at once.
const PAGE: usize = 512;
/// Segments looked for at one time.
const LOOKS: usize = 16;

/// Make a copy of its metadata the volume's metadata from now on
///
/// FILE is of `weft backup`, or any copy of a metadata file. Files are as they were then; what was written since is lost, and so is
/// what was removed from the nodes since, which is looked for and named. Whoever has the volume by other metadata changes nothing any
/// more. Status: as of `weft status`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The copy
    file: PathBuf,
    /// The metadata file to make
    meta: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let Arguments { file, meta } = arguments;
    SqliteKv::restore(file, meta)?;
    let outcome = take_over(arguments);
    if outcome.is_err() {
        // It is no volume's metadata yet, and must not be taken for it.
        let _ = std::fs::remove_file(meta);
    }
    outcome
}

fn take_over(arguments: &Arguments) -> Result<ExitCode> {
    let meta = &arguments.meta;
    let store = open_store(meta, Access::Owner, None)?;
    let keeper = Keeper::open(meta)?;
    let before = store.openings()?.latest.map(|latest| latest.opening);
    let known = keeper.runtime.block_on(keeper.transfer.look_for_openings(None));
    let newest = known.newer;
    let number = newest.map_or(0, |newest| newest.number);
    let opening = store.restore_opening(number, rand::random(), weft_engine::now_ms()?)?;
    if let Some(other) = keeper.runtime.block_on(keeper.transfer.publish_opening(opening, &known.held)) {
        return Err(MetaError::Superseded(other.refuses(Some(opening))).into());
    }
    println!("{} is the volume's metadata from now on: {}", meta.display(), distance(before, newest));
    let silent = keeper.store.nodes()?.len() - known.held.len();
    if silent > 0 {
        println!("{} did not answer: what it knows newer is found out when it does", count(silent as u64, "node"));
    }
    let gone = keeper.runtime.block_on(note_what_is_gone(&store, &keeper.transfer))?;
    store.flush()?;
    if gone > 0 {
        println!("{} that it names are gone from the nodes", count(gone, "shard"));
    }
    let catalogue: &dyn Catalogue = &*keeper.catalogue;
    let roster = keeper.runtime.block_on(Roster::probe(catalogue, &keeper.transfer))?;
    let tally = glance(catalogue, &roster)?;
    println!("{}", care::survival(&tally));
    care::troubles(&tally, PATHS_SHOWN).iter().for_each(|line| println!("{line}"));
    Ok(care::exit_code(&tally))
}

/// How far the copy is behind what nodes have seen.
fn distance(before: Option<Opening>, newest: Option<Opening>) -> String {
    let (Some(before), Some(newest)) = (before, newest) else {
        return "no opening of the volume is known, to it or to the nodes".into();
    };
    let began = moment(before.began_ms);
    match newest.number.saturating_sub(before.number) {
        0 => format!("it is of the newest opening that nodes know, begun {began}"),
        behind => {
            let by = care::duration(newest.began_ms.saturating_sub(before.began_ms));
            let openings = count(behind.into(), "opening");
            format!("it is {openings} and {by} behind the newest that nodes know; its own was begun {began}")
        }
    }
}

/// Looks for every shard of living segments at the nodes that answer, and notes which are not there; how many.
async fn note_what_is_gone(store: &Store, transfer: &Transfer) -> Result<u64, MetaError> {
    let mut gone = 0;
    let mut after: Option<SegmentId> = None;
    loop {
        let page = store.segments(after, PAGE)?;
        let Some((last, _)) = page.last() else { return Ok(gone) };
        after = Some(*last);
        for some in page.chunks(LOOKS) {
            let mut looks = JoinSet::new();
            for (segment, record) in some.iter().cloned() {
                if store.live_bytes(segment)? > 0 {
                    looks.spawn(look(transfer.clone(), segment, Arc::new(record)));
                }
            }
            for (segment, record, missing) in looks.join_all().await {
                let mut found = SegmentRecord::clone(&record);
                missing.iter().for_each(|index| found.shards[*index] = None);
                if found != *record {
                    gone += missing.len() as u64;
                    store.replace_segment(segment, &record, &found, &Succession::default(), None)?;
                }
            }
        }
    }
}

/// Which shards are not where the record says.
async fn look(
    transfer: Transfer,
    segment: SegmentId,
    record: Arc<SegmentRecord>,
) -> (SegmentId, Arc<SegmentRecord>, Vec<usize>) {
    let health = transfer.census(segment, &record).await;
    let is_gone = |index: &usize| record.shards[*index].is_some() && health.shards[*index] == ShardHealth::Missing;
    let gone = (0..record.shards.len()).filter(is_gone).collect();
    (segment, record, gone)
}
