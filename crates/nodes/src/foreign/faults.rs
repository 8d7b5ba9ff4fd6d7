//! A store with the faults of services, for tests.

use opendal::raw::{
    Layer, OpCopy, OpCreateDir, OpList, OpPresign, OpRead, OpRename, OpStat, OpWrite, RpCreateDir, RpPresign, RpRead,
    RpRename, RpStat, Service, ServiceInfo, Servicer, Timestamp, oio,
};
use opendal::{Buffer, BytesRange, Capability, OperationContext, Result};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::RwLock;

/// The faults of a store, which may change while it is used.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    /// Lists wait while this is held for writing.
    pub(super) lists: Arc<RwLock<()>>,
    pub(super) lists_begun: Arc<AtomicUsize>,
    /// Each list gives all its names so often again.
    pub(super) list_rounds: Arc<AtomicUsize>,
    /// When all that is listed was stored, if not when it was.
    pub(super) listed_time: Arc<Mutex<Option<Timestamp>>>,
    /// Reads end after this number of bytes, as if there were no more.
    pub(super) read_bytes_max: Arc<Mutex<Option<usize>>>,
}

impl Layer for Faults {
    fn apply_service(&self, service: Servicer) -> Servicer {
        Arc::new(Faulty { service, faults: self.clone() })
    }
}

#[derive(Clone, Debug)]
struct Faulty {
    service: Servicer,
    faults: Faults,
}

impl Service for Faulty {
    type Reader = Reader;
    type Writer = oio::Writer;
    type Lister = Lister;
    type Deleter = oio::Deleter;
    type Copier = oio::Copier;
    type Composer = oio::Composer;

    fn info(&self) -> ServiceInfo {
        self.service.info()
    }

    fn capability(&self) -> Capability {
        self.service.capability()
    }

    async fn create_dir(&self, context: &OperationContext, path: &str, how: OpCreateDir) -> Result<RpCreateDir> {
        self.service.create_dir(context, path, how).await
    }

    async fn stat(&self, context: &OperationContext, path: &str, how: OpStat) -> Result<RpStat> {
        self.service.stat(context, path, how).await
    }

    fn read(&self, context: &OperationContext, path: &str, how: OpRead) -> Result<Reader> {
        let inner = self.service.read(context, path, how)?;
        Ok(Reader { inner, bytes_max: self.faults.read_bytes_max.lock().unwrap_or(usize::MAX) })
    }

    fn write(&self, context: &OperationContext, path: &str, how: OpWrite) -> Result<oio::Writer> {
        self.service.write(context, path, how)
    }

    fn delete(&self, context: &OperationContext) -> Result<oio::Deleter> {
        self.service.delete(context)
    }

    fn list(&self, context: &OperationContext, path: &str, how: OpList) -> Result<Lister> {
        self.faults.lists_begun.fetch_add(1, Ordering::Relaxed);
        Ok(Lister {
            inner: self.service.list(context, path, how.clone())?,
            rounds_left: self.faults.list_rounds.load(Ordering::Relaxed),
            asked: (self.clone(), context.clone(), path.to_owned(), how),
        })
    }

    fn copy(&self, context: &OperationContext, from: &str, to: &str, how: OpCopy) -> Result<oio::Copier> {
        self.service.copy(context, from, to, how)
    }

    async fn rename(&self, context: &OperationContext, from: &str, to: &str, how: OpRename) -> Result<RpRename> {
        self.service.rename(context, from, to, how).await
    }

    async fn presign(&self, context: &OperationContext, path: &str, how: OpPresign) -> Result<RpPresign> {
        self.service.presign(context, path, how).await
    }
}

struct Lister {
    inner: oio::Lister,
    rounds_left: usize,
    asked: (Faulty, OperationContext, String, OpList),
}

impl oio::List for Lister {
    async fn next(&mut self) -> Result<Option<oio::Entry>> {
        let (Faulty { service, faults }, context, path, how) = &self.asked;
        drop(faults.lists.read().await);
        let mut entry = self.inner.next().await?;
        if entry.is_none() && self.rounds_left > 0 {
            self.rounds_left -= 1;
            self.inner = service.list(context, path, how.clone())?;
            entry = self.inner.next().await?;
        }
        let Some(time) = *faults.listed_time.lock() else { return Ok(entry) };
        Ok(entry.map(|entry| {
            let (path, metadata) = entry.into_parts();
            let mut metadata = metadata.into_builder();
            metadata.last_modified(time);
            oio::Entry::with(path, metadata.build())
        }))
    }
}

struct Reader {
    inner: oio::Reader,
    bytes_max: usize,
}

impl oio::Read for Reader {
    async fn open(&self, range: BytesRange) -> Result<(RpRead, Box<dyn oio::ReadStreamDyn>)> {
        let (answer, bytes) = self.read(range).await?;
        Ok((answer, Box::new(bytes)))
    }

    async fn read(&self, range: BytesRange) -> Result<(RpRead, Buffer)> {
        let (answer, mut stream) = self.inner.open(range).await?;
        let mut bytes = oio::ReadStream::read_all(&mut stream).await?;
        bytes.truncate(self.bytes_max.min(bytes.len()));
        Ok((answer, bytes))
    }
}
