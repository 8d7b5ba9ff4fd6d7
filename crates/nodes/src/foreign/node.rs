//! The seven methods of a node, by an operator of OpenDAL.

use super::answer::{Checked, DEADLINE, deadline};
use super::credentials::Credentials;
use super::datanode::{DataNode, Place};
use super::failure::{broke_off, meaning, too_long};
use super::list::{self, Found, LIST_DEADLINE, modified_ms};
use super::places::Places;
use super::service::{Authority, Layout};
use super::url::ForeignUrl;
use super::used::Used;
use crate::error::{NodeError, NodeErrorKind};
use crate::folder::{IDENTITY_FILE, TEMPORARY_PREFIX, subfolder};
use crate::node::{Capability, Node, NodeIdentity, Page, SHARD_BYTES_MAX, ShardStat, Space};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use opendal::options::WriteOptions;
use opendal::{Buffer, ErrorKind, HttpTransporter, Metadata, OperationContext, Operator};
use parking_lot::Mutex;
use std::future::Future;
use std::ops::Range;
use std::sync::Once;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use weft_format::ShardKey;
use weft_format::identity::MAX_IDENTITY_BYTES;

/// A bucket does not turn into another one unseen as a mount point does: who it is, is asked again after this long, before it
/// is believed that something is absent, and before a put into a folder is acknowledged.
const VERIFIED_FOR: Duration = Duration::from_secs(30);

/// What a node without a quota says that it has: as much as one large disk, so that weights and `df` stay sensible.
const ROOM_WITHOUT_QUOTA_BYTES: u64 = 1 << 40;

/// A reader who asks for more than this may not get it: room is made as it comes.
const READ_AT_ONCE_BYTES: u64 = 8 << 20;

/// No put takes a day.
const GIVEN_UP_AFTER: Duration = Duration::from_secs(24 * 3600);

/// Puts of one key wait for one another, and for few others.
const TURNS: usize = 256;

/// A node on storage of others.
pub struct ForeignNode {
    name: String,
    /// As it may be shown.
    place: String,
    expected: NodeIdentity,
    operator: Operator,
    /// If it is bound to a DataNode.
    places: Option<Places>,
    layout: Layout,
    reads_to_end: bool,
    capability: &'static Capability,
    quota_bytes: Option<u64>,
    verified_at: Mutex<Option<Instant>>,
    turns: Vec<tokio::sync::Mutex<()>>,
    /// What is left of the last scan, for the pages that follow.
    scan: Mutex<Option<Scan>>,
    used: Used,
}

/// The keys after one key, as one scan found them.
struct Scan {
    after: Option<ShardKey>,
    /// Ascending.
    keys: Vec<ShardKey>,
}

impl ForeignNode {
    /// The node `identity` at `url`. Does no I/O: while it is away every call is `Unavailable`.
    ///
    /// # Errors
    /// `Unavailable`: this program was built without that kind; `Denied`: the settings cannot be right.
    pub fn open(
        url: &ForeignUrl,
        name: &str,
        identity: NodeIdentity,
        credentials: &Credentials,
    ) -> Result<Self, NodeError> {
        let unusable = |error: opendal::Error| {
            let (_, detail) = meaning(&error);
            NodeError::new(NodeErrorKind::Denied, name, format!("{url} cannot be used: {detail}"))
        };
        let operator = operator(url, credentials).map_err(unusable)?;
        let places = DataNode::of(url).map(|datanode| Places::new(datanode, url, credentials)).transpose();
        let places = places.map_err(|error| unusable(no_client(error)))?;
        Ok(Self { places, ..Self::with_operator(url, operator, name, identity) })
    }

    /// The same by an operator that is there.
    pub(super) fn with_operator(url: &ForeignUrl, operator: Operator, name: &str, identity: NodeIdentity) -> Self {
        let about = super::about::KINDS.iter().find(|about| about.name == url.kind());
        Self {
            name: name.to_owned(),
            place: url.to_string(),
            expected: identity,
            operator,
            places: None,
            layout: url.service.layout,
            reads_to_end: url.service.reads_to_end,
            capability: about.expect("each service has a kind").capability,
            quota_bytes: url.quota_bytes(),
            verified_at: Mutex::default(),
            turns: (0..TURNS).map(|_| tokio::sync::Mutex::default()).collect(),
            scan: Mutex::default(),
            used: Used::default(),
        }
    }

    /// Makes an empty place into the node `identity`, and opens it.
    ///
    /// # Errors
    /// `Exists`: something is there, or a node of this volume; `WrongNode`: a node of another volume; and whatever asking
    /// meets.
    pub async fn create(
        url: &ForeignUrl,
        name: &str,
        identity: NodeIdentity,
        credentials: &Credentials,
    ) -> Result<Self, NodeError> {
        let node = Self::open(url, name, identity, credentials)?;
        node.claim().await?;
        Ok(node)
    }

    pub(super) async fn claim(&self) -> Result<(), NodeError> {
        self.within(DEADLINE, self.claim_at_leisure()).await
    }

    async fn claim_at_leisure(&self) -> Result<(), NodeError> {
        match self.read_identity().await {
            Ok(found) => return Err(self.already_a_node(found)),
            Err(Absence::Absent) => {}
            Err(Absence::Unknown(error)) => return Err(error),
        }
        // A bucket that does not exist, or that may not be listed, is told here.
        let there = self.operator.list_with("/").limit(10).await.map_err(|error| self.failure(&error, "listing it"))?;
        let is_something = |path: &str| !matches!(path, "/" | "" | "lost+found/");
        if let Some(entry) = there.iter().find(|entry| is_something(entry.path())) {
            let detail = format!("{} is not empty (it has `{}`): give an empty place", self.place, entry.path());
            return Err(self.error(NodeErrorKind::Exists, detail));
        }
        let options = WriteOptions { if_not_exists: self.capability.puts_conditionally, ..Default::default() };
        let written = self.operator.write_options(IDENTITY_FILE, self.expected.encode(), options).await;
        match written.as_ref().map_err(meaning) {
            // Somebody else was faster, which the check below tells.
            Ok(_) | Err((NodeErrorKind::Exists, _)) => {}
            Err(_) => written.map(drop).map_err(|error| self.failure(&error, "writing its identity"))?,
        }
        match self.read_identity().await {
            Ok(found) if found == self.expected => {}
            Ok(found) => return Err(self.already_a_node(found)),
            Err(Absence::Absent) => return Err(self.not_kept("its identity")),
            Err(Absence::Unknown(error)) => return Err(error),
        }
        self.keep_in_place(IDENTITY_FILE, "its identity").await?;
        // What cannot be listed cannot be cared for.
        let found = list::everything(&self.operator, self.layout).await;
        self.used.is_counted(&found.map_err(|error| self.failure(&error, "listing it"))?);
        Ok(())
    }

    fn already_a_node(&self, found: NodeIdentity) -> NodeError {
        let place = &self.place;
        if found.volume == self.expected.volume {
            let detail = format!("{place} is node {} of this volume already: give another place", found.node);
            self.error(NodeErrorKind::Exists, detail)
        } else {
            let detail = format!("{place} is a node of volume {}: give another place", found.volume);
            self.error(NodeErrorKind::WrongNode, detail)
        }
    }

    fn error(&self, kind: NodeErrorKind, detail: impl Into<String>) -> NodeError {
        NodeError::new(kind, &self.name, detail)
    }

    /// For all but what is said to be absent.
    fn failure(&self, error: &opendal::Error, doing: &str) -> NodeError {
        let (kind, detail) = match meaning(error) {
            // Of a place as a whole: nothing is known of its shards.
            (NodeErrorKind::NotFound, detail) => (NodeErrorKind::Unavailable, detail),
            meant => meant,
        };
        if kind.is_transient() {
            *self.verified_at.lock() = None;
        }
        self.error(kind, format!("{}: {doing}: {detail}", self.place))
    }

    fn not_kept(&self, what: &str) -> NodeError {
        let detail = format!("{} said that it stored {what}, and does not have it: see what answers there", self.place);
        self.error(NodeErrorKind::Io, detail)
    }

    async fn within<T>(
        &self,
        deadline: Duration,
        call: impl Future<Output = Result<T, NodeError>>,
    ) -> Result<T, NodeError> {
        match tokio::time::timeout(deadline, call).await {
            Ok(answered) => answered,
            Err(_) => {
                *self.verified_at.lock() = None;
                let detail = format!("{} does not answer: see whether it and the network are up", self.place);
                Err(self.error(NodeErrorKind::TimedOut, detail))
            }
        }
    }

    /// Who is there, read afresh.
    async fn read_identity(&self) -> Result<NodeIdentity, Absence> {
        let mut bytes = Vec::new();
        let bytes = match self.read_into(&mut bytes, IDENTITY_FILE, 0, None, MAX_IDENTITY_BYTES).await {
            Ok(()) => bytes,
            Err(error) if meaning(&error).0 == NodeErrorKind::NotFound => return Err(Absence::Absent),
            Err(error) => return Err(Absence::Unknown(self.failure(&error, "asking which node it is"))),
        };
        let error = match NodeIdentity::decode(&bytes) {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        if self.reads_to_end
            && self.stored_bytes(IDENTITY_FILE).await.is_ok_and(|stored| stored > Some(bytes.len() as u64))
        {
            return Err(Absence::Unknown(self.failure(&broke_off(), "asking which node it is")));
        }
        let detail = format!("{}: {IDENTITY_FILE}: {error}", self.place);
        Err(Absence::Unknown(self.error(NodeErrorKind::WrongNode, detail)))
    }

    /// Appends an object's bytes from `start` to `end`, or to its own end, piece by piece: what came before a failure is kept. More
    /// than `bytes_max` is not believed.
    async fn read_into(
        &self,
        bytes: &mut Vec<u8>,
        path: &str,
        start: u64,
        end: Option<u64>,
        bytes_max: usize,
    ) -> opendal::Result<()> {
        let reader = self.operator.reader(path).await?;
        let mut pieces = match end {
            Some(end) if !self.reads_to_end => reader.into_stream(start..end).await?,
            _ => reader.into_stream(start..).await?,
        };
        let is_cut = self.reads_to_end && end.is_some();
        while let Some(mut piece) = pieces.try_next().await? {
            let room = bytes_max.saturating_sub(bytes.len());
            if piece.len() > room && !is_cut {
                return Err(too_long());
            }
            piece.truncate(room.min(piece.len()));
            piece.for_each(|slice| bytes.extend_from_slice(&slice));
        }
        // A transfer of FTP that breaks off ends as one that is whole: the object's length tells them apart.
        if is_cut && bytes.len() < bytes_max { Err(broke_off()) } else { Ok(()) }
    }

    /// That it is this node, asked just now.
    async fn verify_now(&self) -> Result<NodeIdentity, NodeError> {
        let asked_at = Instant::now();
        let found = self.read_identity().await;
        let is_this = found.as_ref().is_ok_and(|found| *found == self.expected);
        // Only once there is an answer: until then the calls beside this one need not ask, too.
        *self.verified_at.lock() = is_this.then_some(asked_at);
        match found {
            Ok(found) if is_this => Ok(found),
            Ok(found) => {
                let detail =
                    format!("{} is node {} of volume {}: it was swapped", self.place, found.node, found.volume);
                Err(self.error(NodeErrorKind::WrongNode, detail))
            }
            Err(Absence::Absent) => {
                let detail = format!("{} has no {IDENTITY_FILE}: the place is not there, or is no node", self.place);
                Err(self.error(NodeErrorKind::Unavailable, detail))
            }
            Err(Absence::Unknown(error)) => Err(error),
        }
    }

    /// That it is this node, asked not long ago.
    async fn verify(&self) -> Result<(), NodeError> {
        if self.verified_at.lock().is_some_and(|at| at.elapsed() < VERIFIED_FOR) {
            return Ok(());
        }
        self.verify_now().await.map(drop)
    }

    /// What a failure at one shard means: that it is absent, only if the node itself is there.
    async fn failure_at(&self, key: ShardKey, error: &opendal::Error, doing: &str) -> NodeError {
        if meaning(error).0 != NodeErrorKind::NotFound {
            return self.failure(error, &format!("{doing} shard {key}"));
        }
        match self.verify_now().await {
            Ok(_) => self.error(NodeErrorKind::NotFound, format!("there is no shard {key}")),
            Err(error) => error,
        }
    }

    fn path(&self, key: ShardKey) -> String {
        match self.layout {
            Layout::Flat => key.to_string(),
            Layout::Folders { .. } => format!("{}/{key}", subfolder(key)),
        }
    }

    async fn stored_bytes(&self, path: &str) -> opendal::Result<Option<u64>> {
        match self.operator.stat(path).await {
            Ok(metadata) => Ok(Some(metadata.content_length())),
            Err(error) if meaning(&error).0 == NodeErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn put_at_leisure(&self, key: ShardKey, body: Buffer) -> Result<(), NodeError> {
        self.verify().await?;
        self.refuse_beyond_quota(body.len() as u64).await?;
        self.store(key, body).await?;
        if matches!(self.layout, Layout::Folders { .. }) {
            // A disk may be taken away while its mount point stays, and takes what is put. The file stays there: a removal could meet the
            // disk that is back, and an older shard of this name on it.
            self.verify_now().await?;
        }
        Ok(())
    }

    async fn store(&self, key: ShardKey, body: Buffer) -> Result<(), NodeError> {
        let bytes = body.len() as u64;
        let path = self.path(key);
        let failed = |error: &opendal::Error| self.failure(error, &format!("storing shard {key}"));
        if !self.capability.puts_conditionally
            && let Some(stored_bytes) = self.stored_bytes(&path).await.map_err(|error| failed(&error))?
            && !self.is_beginning(&path, stored_bytes, &body).await.map_err(|error| failed(&error))?
        {
            return self.same_or_exists(key, &path, &body).await;
        }
        let written = match self.layout {
            Layout::Flat => {
                let if_not_exists = self.capability.puts_conditionally;
                let options = WriteOptions { if_not_exists, ..Default::default() };
                self.operator.write_options(&path, body.clone(), options).await
            }
            Layout::Folders { renames: false, .. } => self.operator.write(&path, body.clone()).await,
            Layout::Folders { renames: true, .. } => self.write_and_rename(key, &path, body.clone()).await,
        };
        match written {
            Ok(metadata) => {
                self.check_stored(key, &path, &metadata, bytes).await?;
                self.keep_in_place(&path, &format!("shard {key}")).await?;
            }
            Err(error) if matches!(error.kind(), ErrorKind::Conflict) || meaning(&error).0 == NodeErrorKind::Exists => {
                return self.same_or_exists(key, &path, &body).await;
            }
            Err(error) => return Err(failed(&error)),
        }
        self.used.add(key, bytes);
        Ok(())
    }

    /// Is what is stored a beginning of `body`, left by a put that was cut off where puts are not atomic?
    async fn is_beginning(&self, path: &str, stored_bytes: u64, body: &Buffer) -> opendal::Result<bool> {
        if self.capability.puts_atomically || stored_bytes >= body.len() as u64 {
            return Ok(false);
        }
        let stored = self.operator.read(path).await?;
        Ok(stored.to_bytes() == body.slice(..stored.len()).to_bytes())
    }

    async fn same_or_exists(&self, key: ShardKey, path: &str, body: &Buffer) -> Result<(), NodeError> {
        let failed =
            |error: opendal::Error| self.failure(&error, &format!("comparing shard {key} with the stored one"));
        let is_same = match self.stored_bytes(path).await.map_err(failed)? {
            Some(bytes) if bytes == body.len() as u64 => {
                let stored = self.operator.read(path).await.map_err(failed)?;
                if stored.len() < body.len() {
                    return Err(failed(broke_off()));
                }
                stored.to_bytes() == body.to_bytes()
            }
            _ => false,
        };
        match is_same {
            // It may be named by a record: it stays, wherever it is.
            true => self.check_place(path, &format!("shard {key}")).await,
            false => {
                let detail = format!("shard {key} exists with other bytes; names are never used twice");
                Err(self.error(NodeErrorKind::Exists, detail))
            }
        }
    }

    async fn write_and_rename(&self, key: ShardKey, path: &str, body: Buffer) -> opendal::Result<Metadata> {
        let temporary = format!("{}/{TEMPORARY_PREFIX}{:016x}-{key}", subfolder(key), rand::random::<u64>());
        let moved = async {
            let metadata = self.operator.write(&temporary, body).await?;
            self.operator.rename(&temporary, path).await?;
            Ok(metadata)
        };
        let moved: opendal::Result<Metadata> = moved.await;
        if moved.is_err() {
            // A later list removes it, if this does not.
            let _ = self.operator.delete(&temporary).await;
        }
        moved
    }

    /// What answers well may not be the service: what it stored has an ETag, or can be asked for.
    async fn check_stored(&self, key: ShardKey, path: &str, metadata: &Metadata, bytes: u64) -> Result<(), NodeError> {
        if metadata.etag().is_some() {
            return Ok(());
        }
        match self.stored_bytes(path).await {
            Ok(Some(stored_bytes)) if stored_bytes == bytes => Ok(()),
            Ok(_) => Err(self.not_kept(&format!("shard {key}"))),
            Err(error) => Err(self.failure(&error, &format!("looking for shard {key} once stored"))),
        }
    }

    /// That HDFS has a file on the DataNode that this node is bound to.
    async fn check_place(&self, path: &str, what: &str) -> Result<(), NodeError> {
        self.elsewhere(path, what).await?.map_or(Ok(()), Err)
    }

    /// As [`Self::check_place`], of a file that was stored just now; it is removed if it is elsewhere.
    async fn keep_in_place(&self, path: &str, what: &str) -> Result<(), NodeError> {
        // A file whose place is not known stays, for a later put to find or the collector. HDFS may come late to a removal: the put may have
        // been repeated and acknowledged by then.
        let Some(elsewhere) = self.elsewhere(path, what).await? else { return Ok(()) };
        match self.operator.delete(path).await {
            Ok(()) => Err(elsewhere),
            // For the same reason it is of a kind that is not repeated here at once.
            Err(error) => {
                let failure = self.failure(&error, &format!("removing {what}, which HDFS has on another DataNode"));
                Err(NodeError { kind: NodeErrorKind::Io, ..failure })
            }
        }
    }

    /// The error of a file that HDFS has on another DataNode than this node is bound to; `None`: it is there.
    async fn elsewhere(&self, path: &str, what: &str) -> Result<Option<NodeError>, NodeError> {
        let Some(places) = &self.places else { return Ok(None) };
        let asked = places.of(path).await;
        let found = match asked.map_err(|error| self.failure(&error, &format!("asking where HDFS has {what}")))? {
            Place::Here => return Ok(None),
            Place::Elsewhere(found) => found.join(", "),
        };
        let (place, datanode) = (&self.place, &places.datanode);
        let detail = format!(
            "{place}: HDFS has {what} on `{found}` and not on {datanode}: see whether that DataNode is in service and has room, and name it as \
             HDFS does"
        );
        Ok(Some(self.error(NodeErrorKind::Full, detail)))
    }

    async fn get_at_leisure(&self, key: ShardKey, start: u64, length: u64) -> Result<Bytes, NodeError> {
        self.verify().await?;
        let path = self.path(key);
        // No shard is so long that it could have such bytes, and some services take such numbers for others.
        if length > 0 && start < SHARD_BYTES_MAX {
            let mut bytes = Vec::with_capacity(length.min(READ_AT_ONCE_BYTES) as usize);
            let mut end = start.saturating_add(length);
            let failed = |error: &opendal::Error| self.failure(error, &format!("reading shard {key}"));
            loop {
                let from = start + bytes.len() as u64;
                match self.read_into(&mut bytes, &path, from, Some(end), (end - start) as usize).await {
                    Ok(()) => return Ok(bytes.into()),
                    // OpenDAL and the services have many ways to say that a range goes beyond the end, or begins there. So has
                    // a connection that breaks off: the object's length tells them apart.
                    Err(error) if matches!(meaning(&error).0, NodeErrorKind::Io | NodeErrorKind::Denied) => {
                        let stored_bytes = self.stored_bytes(&path).await.map_err(|_| failed(&error))?;
                        let Some(stored_bytes) = stored_bytes else { return Err(failed(&error)) };
                        if start + bytes.len() as u64 == stored_bytes.clamp(start, end) {
                            return Ok(bytes.into());
                        }
                        if stored_bytes >= end {
                            return Err(failed(&error));
                        }
                        end = stored_bytes;
                    }
                    Err(error) => return Err(self.failure_at(key, &error, "reading").await),
                }
            }
        }
        match self.operator.stat(&path).await {
            Ok(_) => Ok(Bytes::new()),
            Err(error) => Err(self.failure_at(key, &error, "looking for").await),
        }
    }

    async fn list_at_leisure(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        let failed = |error: opendal::Error| self.failure(&error, "listing it");
        self.verify().await?;
        if self.layout == Layout::Flat && self.capability.lists_in_order {
            let (found, more) = list::flat(&self.operator, after, limit).await.map_err(failed)?;
            let mut keys: Vec<ShardKey> = found.shards.into_iter().map(|shard| shard.key).collect();
            keys.sort_unstable();
            let more = more || keys.len() > limit;
            keys.truncate(limit);
            return Ok(Page { keys, foreign: found.foreign, more });
        }
        // Only a page that goes on where the last one ended: whoever begins anew wants to see what is there now.
        let continued = self.scan.lock().take_if(|scan| after.is_some() && scan.after == after);
        let (mut keys, foreign) = match continued {
            Some(scan) => (scan.keys, Vec::new()),
            None => {
                let found = list::everything(&self.operator, self.layout).await.map_err(failed)?;
                self.remove_given_up(&found).await;
                let wanted =
                    found.shards.iter().map(|shard| shard.key).filter(|key| after.is_none_or(|after| *key > after));
                let mut keys: Vec<ShardKey> = wanted.collect();
                keys.sort_unstable();
                // Once for the whole listing, not with every scan of it.
                (keys, if after.is_none() { found.foreign } else { Vec::new() })
            }
        };
        let rest = keys.split_off(limit.min(keys.len()));
        let more = !rest.is_empty();
        if more && !keys.is_empty() {
            *self.scan.lock() = Some(Scan { after: keys.last().copied(), keys: rest });
        }
        Ok(Page { keys, foreign, more })
    }

    /// Puts that a crash cut off leave their files. Should the clock be wrong and the put be under way, that put fails and
    /// nothing else.
    async fn remove_given_up(&self, found: &Found) {
        let now_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as u64);
        for (path, modified_ms) in &found.unfinished {
            if *modified_ms > 0 && now_ms.saturating_sub(*modified_ms) > GIVEN_UP_AFTER.as_millis() as u64 {
                // Next time, if not now.
                let _ = self.operator.delete(path).await;
            }
        }
    }

    async fn remove_at_leisure(&self, key: ShardKey) -> Result<(), NodeError> {
        self.verify().await?;
        let path = self.path(key);
        // Few services tell whether there was anything to remove.
        let bytes = match self.operator.stat(&path).await {
            Ok(metadata) => metadata.content_length(),
            Err(error) => return Err(self.failure_at(key, &error, "looking for").await),
        };
        self.operator.delete(&path).await.map_err(|error| self.failure(&error, &format!("removing shard {key}")))?;
        self.used.subtract(key, bytes);
        Ok(())
    }

    /// Bytes stored; `None`: they are being counted, and were not before.
    async fn used_bytes(&self) -> Result<Option<u64>, NodeError> {
        let used = self.used.bytes(&self.operator, self.layout).await;
        used.map_err(|error| self.failure(&error, "counting the stored bytes"))
    }

    async fn refuse_beyond_quota(&self, bytes: u64) -> Result<(), NodeError> {
        let Some(quota_bytes) = self.quota_bytes else { return Ok(()) };
        let Some(used_bytes) = self.used_bytes().await? else {
            let detail = format!("{}: the stored bytes are being counted for the quota: try again later", self.place);
            return Err(self.error(NodeErrorKind::Busy, detail));
        };
        if used_bytes.saturating_add(bytes) <= quota_bytes {
            return Ok(());
        }
        let detail = format!("its quota of {quota_bytes} bytes is used up: free some space, or state a larger one");
        Err(self.error(NodeErrorKind::Full, detail))
    }

    async fn space_at_leisure(&self) -> Result<Space, NodeError> {
        self.verify_now().await?;
        let (total_bytes, free_bytes) = match self.quota_bytes {
            None => (ROOM_WITHOUT_QUOTA_BYTES, ROOM_WITHOUT_QUOTA_BYTES),
            // Until there is a count it may be empty: a full one would be passed over. Puts wait for the count and keep within the quota.
            Some(quota_bytes) => (quota_bytes, quota_bytes.saturating_sub(self.used_bytes().await?.unwrap_or(0))),
        };
        Ok(Space { total_bytes, free_bytes, disk: None })
    }
}

/// Why an identity was not read.
enum Absence {
    /// The service says that there is none.
    Absent,
    Unknown(NodeError),
}

#[async_trait]
impl Node for ForeignNode {
    fn capability(&self) -> &Capability {
        self.capability
    }

    async fn put(&self, key: ShardKey, parts: &[Bytes]) -> Result<(), NodeError> {
        let body: Buffer = parts.iter().filter(|part| !part.is_empty()).cloned().collect();
        let deadline = deadline(body.len() as u64);
        let turn = (key.segment.0 as usize).wrapping_add(usize::from(key.index.0)) % TURNS;
        // Not every service refuses what exists, and those that do may do so a moment late.
        let _turn = self.turns[turn].lock().await;
        self.within(deadline, self.put_at_leisure(key, body)).await
    }

    async fn get(&self, key: ShardKey, range: Range<u64>) -> Result<Bytes, NodeError> {
        let length = range.end.saturating_sub(range.start).min(SHARD_BYTES_MAX);
        self.within(deadline(length), self.get_at_leisure(key, range.start, length)).await
    }

    async fn stat(&self, key: ShardKey) -> Result<ShardStat, NodeError> {
        let asked = async {
            self.verify().await?;
            match self.operator.stat(&self.path(key)).await {
                Ok(metadata) => Ok(ShardStat { bytes: metadata.content_length(), modified_ms: modified_ms(&metadata) }),
                Err(error) => Err(self.failure_at(key, &error, "looking for").await),
            }
        };
        self.within(DEADLINE, asked).await
    }

    async fn list(&self, after: Option<ShardKey>, limit: usize) -> Result<Page, NodeError> {
        self.within(LIST_DEADLINE, self.list_at_leisure(after, limit)).await
    }

    async fn remove(&self, key: ShardKey) -> Result<(), NodeError> {
        self.within(DEADLINE, self.remove_at_leisure(key)).await
    }

    async fn space(&self) -> Result<Space, NodeError> {
        self.within(DEADLINE, self.space_at_leisure()).await
    }

    async fn identity(&self) -> Result<NodeIdentity, NodeError> {
        self.within(DEADLINE, self.verify_now()).await
    }
}

/// The operator for a place.
fn operator(url: &ForeignUrl, credentials: &Credentials) -> opendal::Result<Operator> {
    static REGISTERED: Once = Once::new();
    REGISTERED.call_once(|| {
        opendal::init_default_registry();
        // FTP's TLS brings a second cryptography with it, and whoever says nothing of which is refused. One that was chosen stays.
        #[cfg(feature = "ftp")]
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    });
    let mut settings = vec![("root".to_owned(), format!("/{}", url.path))];
    match url.service.authority {
        Authority::Bucket(setting) => settings.push((setting.to_owned(), url.authority.clone())),
        Authority::Host { setting, prefix, .. } => {
            settings.push((setting.to_owned(), format!("{prefix}{}", url.authority)));
        }
        Authority::Account => {}
    }
    for option in url.service.options {
        if let Some(value) = url.options.get(option.name) {
            settings.push((option.opendal.to_owned(), value.clone()));
        }
    }
    // Stores of one's own have no regions, and take the first that ever was.
    if url.service.scheme == "s3" && url.options.contains_key("endpoint") && !url.options.contains_key("region") {
        settings.push(("region".to_owned(), "us-east-1".to_owned()));
    }
    for secret in url.service.secrets {
        if let Some(value) = credentials.get(secret.name) {
            settings.push((secret.opendal.to_owned(), value.to_owned()));
        }
    }
    let transport = Checked::new(url.service.follows_redirects, DataNode::of(url)).map_err(no_client)?;
    let context = OperationContext::new().with_http_transport(HttpTransporter::new(transport));
    Ok(Operator::via_iter(url.service.opendal, settings)?.with_context(context))
}

fn no_client(error: reqwest::Error) -> opendal::Error {
    opendal::Error::new(ErrorKind::Unexpected, "making an HTTP client").set_source(error)
}
