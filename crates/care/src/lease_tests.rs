use super::*;
use crate::catalogue::memory::MemoryCatalogue;
use parking_lot::Mutex;
use std::sync::Arc;
use weft_env::Env;
use weft_format::geometry::Geometry;
use weft_format::records::SegmentRecord;
use weft_format::{Generation, SegmentId};

/// One look at the lease, as `renew` does it.
fn look(tenant: &mut Tenant, lease: &mut Option<LeaseRecord>, now_ms: u64) -> Option<u64> {
    if let Some(new) = tenant.claim(lease.as_ref(), now_ms) {
        *lease = Some(new.clone());
        tenant.granted(new, now_ms);
    }
    tenant.term(now_ms)
}

#[test]
fn a_lease_is_the_holders_while_it_gives_signs_of_life() {
    let (mut first, mut second, mut lease) = (Tenant::new("first"), Tenant::new("second"), None);
    for now_ms in (0..60_000).step_by(3_000) {
        assert_eq!(look(&mut first, &mut lease, now_ms), Some(1));
        // Another process: its clock began elsewhere.
        assert_eq!(look(&mut second, &mut lease, now_ms + 1_000_000), None, "at {now_ms}");
    }
}

#[test]
fn a_silent_holder_loses_it_after_the_ttl_and_knows() {
    let (mut first, mut second, mut lease) = (Tenant::new("first"), Tenant::new("second"), None);
    assert_eq!(look(&mut first, &mut lease, 0), Some(1));
    assert_eq!(look(&mut second, &mut lease, 5_000), None);
    assert_eq!(look(&mut second, &mut lease, 14_999), None, "ten seconds of its own, whatever was before");
    assert_eq!(first.term(9_999), Some(1));
    assert_eq!(first.term(10_000), None, "it stops before another begins");
    assert_eq!(look(&mut second, &mut lease, 15_000), Some(2));
    assert_eq!(look(&mut first, &mut lease, 16_000), None);
}

#[test]
fn what_is_given_back_is_free_at_once_and_terms_never_fall() {
    let (mut first, mut lease) = (Tenant::new("first"), None);
    assert_eq!(look(&mut first, &mut lease, 0), Some(1));
    let (own, free) = first.farewell().unwrap();
    assert_eq!(Some(own), lease);
    lease = Some(free);
    assert_eq!(look(&mut Tenant::new("second"), &mut lease, 1), Some(2));
}

#[tokio::test]
async fn two_work_one_after_the_other() {
    let catalogue = Arc::new(MemoryCatalogue::default());
    let log = Mutex::new(Vec::new());
    let work = |name: &'static str| {
        let (catalogue, log) = (&catalogue, &log);
        async move {
            let job = Job::new(&Env::system().clock);
            let work = async {
                log.lock().push(format!("{name} begins"));
                tokio::task::yield_now().await;
                log.lock().push(format!("{name} ends"));
                Ok(())
            };
            alone(&**catalogue, name, &job, |other| log.lock().push(format!("{name} waits for {other}")), work).await
        }
    };
    let (first, second) = tokio::join!(work("a"), work("b"));
    assert_eq!((first, second), (Ok(()), Ok(())));
    assert_eq!(log.into_inner(), ["a begins", "b waits for a", "a ends", "b begins", "b ends"]);
    let lease = catalogue.lease().unwrap().unwrap();
    assert_eq!((lease.holder.as_str(), lease.term), ("", 2));
}

#[tokio::test]
async fn who_loses_the_lease_is_cancelled_and_fenced() {
    let catalogue = Arc::new(MemoryCatalogue::default());
    let job = Job::new(&Env::system().clock);
    let work = async {
        let found = catalogue.lease()?.expect("taken");
        let thief = LeaseRecord { term: found.term + 1, holder: "thief".into(), ..found.clone() };
        assert!(catalogue.replace_lease(Some(&found), &thief)?);
        let segment = SegmentId(1);
        let record = SegmentRecord {
            code: "rs:4+2".into(),
            geometry: Geometry::new(100, 4, 1, 1, 4096).expect("a geometry"),
            generation: Generation(0),
            shards: Vec::new(),
        };
        assert_eq!(
            catalogue.replace_segment(segment, &record, &record, &Default::default()),
            Err(CatalogueError::Fenced)
        );
        loop {
            job.checkpoint().await?;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let outcome: Result<(), CareError> = alone(&*catalogue, "first", &job, |_| {}, work).await;
    assert_eq!(outcome, Err(CatalogueError::Fenced.into()));
    assert_eq!(catalogue.lease().unwrap().unwrap().holder, "thief");
}

#[tokio::test]
async fn finding_32_an_abandoned_job_gives_the_lease_back_at_once() {
    let catalogue = Arc::new(MemoryCatalogue::default());
    let job = Job::new(&Env::system().clock);
    let work = async {
        assert_eq!(catalogue.lease()?.expect("taken").holder, "first");
        // A segment in hand whose nodes do not answer.
        job.abandon();
        std::future::pending::<Result<(), CareError>>().await
    };
    assert_eq!(alone(&*catalogue, "first", &job, |_| {}, work).await, Err(Cancelled.into()));
    assert_eq!(catalogue.lease().unwrap().unwrap().holder, "");
    let next = async { Ok(catalogue.lease()?.expect("taken").holder) };
    assert_eq!(
        alone(&*catalogue, "second", &Job::new(&Env::system().clock), |_| {}, next).await,
        Ok("second".to_owned())
    );
}
