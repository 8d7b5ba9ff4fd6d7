//! The engine in the list of engines: what an address of it is, and how a store is made, found and copied.

use super::address::{self, Address};
use super::layout::{Layout, stored};
use super::plan::{delete, nested};
use super::protocol::{Compare, Operation, Put, Range, Request, Than, Transaction};
use super::server::Server;
use super::{EtcdKv, refused, runtime, session};
use crate::engines::remote::failure::{Failure, mend};
use crate::engines::remote::task::wait_for;
use crate::engines::remote::{backup, note};
use crate::engines::{EngineKind, OpenError, Pieces, behind};
use crate::kv::{Kv, Slot};
use crate::owner::{Holder, Session};
use crate::types::Access;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weft_env::{Clock, Env};

/// The version of the layout.
const FORMAT_VERSION: i32 = 3;
/// What the format's key has, with the version after it ...
const FORMAT: &str = "weft metadata ";
/// ... or this, while a store is written.
const IN_THE_MAKING: &[u8] = b"weft metadata, in the making";

/// What is loaded at once; a request takes 1.5 MiB.
const PAGE: usize = 1000;
const PAGE_BYTES: usize = 512 << 10;

/// A place is `//[USER@]HOST[:PORT][,HOST[:PORT]...][/NAME][?tls=on|off]`.
pub(crate) static KIND: EngineKind = EngineKind {
    scheme: "etcd",
    has_sessions: true,
    refuse: address::refuse,
    absolute: OsStr::to_owned,
    create,
    exists,
    remove,
    open,
    back_up,
    load,
    restore,
    current_owner,
    sessions,
    evict,
    note_file,
};

fn address_of(place: &OsStr) -> Result<Address, OpenError> {
    address::parse(place)
        .map_err(|why| OpenError::Refused { place: format!("etcd:{}", place.to_string_lossy()), why: why.into() })
}

/// What the servers' refusal means to who opens a store.
fn refusal(server: &Server, failure: Failure) -> OpenError {
    match failure {
        Failure::Lost(why) => {
            let mend = mend(
                &why,
                "see that more than half of its members run and can be reached, with TLS or without as the address says",
            );
            refused(&server.address, format!("{why}; {mend}"))
        }
        Failure::Failed(why) => refused(&server.address, why),
        failure => OpenError::Engine(failure.into_error(&server.address.shown)),
    }
}

/// Does one thing with the servers, on any thread.
fn at_servers<T, W>(place: &OsStr, work: impl FnOnce(Arc<Server>, Layout) -> W) -> Result<T, OpenError>
where
    T: Send + 'static,
    W: Future<Output = Result<T, OpenError>> + Send + 'static,
{
    let address = address_of(place)?;
    let runtime = runtime(&address)?;
    let layout = Layout::new(&address.prefix);
    let server = Arc::new(Server::new(address.clone(), &Env::system()));
    let done = wait_for(&runtime, work(server, layout));
    runtime.shutdown_background();
    done.ok_or_else(|| refused(&address, "its client ended in the middle of a request; try again".into()))?
}

fn format_text() -> Vec<u8> {
    format!("{FORMAT}{FORMAT_VERSION}").into_bytes()
}

/// Is it a store that this program knows?
pub(super) async fn recognise(server: &Server, layout: &Layout) -> Result<(), OpenError> {
    let place = server.address.shown.clone();
    let found = server.ask_for(Range::of(layout.format()), super::server::OPENING).await;
    let found = found.map_err(|failure| refusal(server, failure))?;
    let Some(row) = found.kvs.into_iter().next() else { return Err(OpenError::Missing(place)) };
    if row.value == IN_THE_MAKING {
        return Err(refused(&server.address, format!("a copy into it was not finished; {}", clear(layout))));
    }
    let version = std::str::from_utf8(&row.value).ok().and_then(|text| text.strip_prefix(FORMAT)?.parse::<i32>().ok());
    match version {
        Some(FORMAT_VERSION) => Ok(()),
        Some(found) if found > FORMAT_VERSION => Err(OpenError::Newer { place, found, known: FORMAT_VERSION }),
        Some(found) if found > 0 => Err(OpenError::Older { place, found, known: FORMAT_VERSION }),
        _ => Err(OpenError::NotOurs(place)),
    }
}

/// How a place is made free.
fn clear(layout: &Layout) -> String {
    let (prefix, _) = layout.everything();
    format!("make it free with `etcdctl del --prefix {}`", prefix.escape_ascii())
}

/// Takes a place that is free.
async fn make(server: &Server, layout: &Layout, text: &[u8]) -> Result<(), OpenError> {
    let (start, end) = layout.everything();
    let put = Put { key: layout.format(), value: text.to_vec(), lease: 0 };
    let outcome = server.transact_for(
        Transaction {
            compare: vec![Compare::is_empty(start, end)],
            success: vec![Request::Put(put).into()],
            failure: vec![Range::of(layout.format()).into()],
        },
        super::server::OPENING,
    );
    let outcome = outcome.await.map_err(|failure| refusal(server, failure))?;
    if outcome.succeeded {
        return Ok(());
    }
    let has_format = outcome.found().any(|found| !found.kvs.is_empty());
    match has_format {
        true => Err(OpenError::Exists(server.address.shown.clone())),
        false => Err(refused(&server.address, format!("other keys begin so; take another name, or {}", clear(layout)))),
    }
}

fn create(place: &OsStr) -> Result<(), OpenError> {
    at_servers(place, async |server: Arc<Server>, layout: Layout| make(&server, &layout, &format_text()).await)
}

fn exists(place: &OsStr) -> bool {
    at_servers(place, async |server: Arc<Server>, layout: Layout| recognise(&server, &layout).await).is_ok()
}

fn remove(place: &OsStr) -> io::Result<()> {
    let removed = at_servers(place, async |server: Arc<Server>, layout: Layout| {
        recognise(&server, &layout).await?;
        let (start, end) = layout.everything();
        let success = vec![Operation::from(delete(start, end))];
        let removed = server.transact(Transaction { success, ..Transaction::default() }).await;
        removed.map(drop).map_err(|failure| refusal(&server, failure))
    });
    removed.map_err(io::Error::other)
}

fn open(place: &OsStr, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Arc<dyn Kv>, OpenError> {
    let address = address_of(place)?;
    let shown = address.shown.clone();
    behind::of_owner(Arc::new(EtcdKv::open(address, access, mountpoint, env)?), access, shown, env)
}

fn back_up(place: &OsStr, to: &Path, _clock: &dyn Clock) -> Result<(), OpenError> {
    backup::write(&*open(place, Access::Shared, None, &Env::system())?, to)
}

fn restore(from: &Path, place: &OsStr, _clock: &dyn Clock) -> Result<(), OpenError> {
    backup::read(from, |pieces| load(place, pieces))
}

/// In pieces: it is no store before the last one.
fn load(place: &OsStr, pieces: &mut Pieces<'_>) -> Result<(), OpenError> {
    at_servers(place, async |server: Arc<Server>, layout: Layout| make(&server, &layout, IN_THE_MAKING).await)?;
    while let Some(slots) = pieces().map_err(|why| OpenError::Refused { place: shown(place), why })? {
        at_servers(place, async |server: Arc<Server>, layout: Layout| put(&server, &layout, slots).await)?;
    }
    at_servers(place, async |server: Arc<Server>, layout: Layout| {
        let key = layout.format();
        let put = Put { key: key.clone(), value: format_text(), lease: 0 };
        let finished = server.transact(Transaction {
            compare: vec![Compare::is(key, Than::Value(IN_THE_MAKING.to_vec()))],
            success: vec![Request::Put(put).into()],
            failure: Vec::new(),
        });
        finished.await.map(drop).map_err(|failure| refusal(&server, failure))
    })
}

/// A later value of a key takes the place of an earlier one.
async fn put(server: &Server, layout: &Layout, slots: Vec<Slot>) -> Result<(), OpenError> {
    let slots: std::collections::BTreeMap<_, _> = slots.into_iter().collect();
    let (mut changes, mut bytes) = (Vec::new(), 0);
    let mut slots = slots.into_iter().peekable();
    while let Some((key, value)) = slots.next() {
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let at = layout.value(&key);
        changes.push(match value {
            Some(value) => Request::Put(Put { key: at, value: stored(&value), lease: 0 }),
            None => delete(at, Vec::new()),
        });
        if bytes >= PAGE_BYTES || changes.len() >= PAGE || slots.peek().is_none() {
            let success = nested(std::mem::take(&mut changes)).into_iter().map(Operation::from).collect();
            bytes = 0;
            let done = server.transact(Transaction { success, ..Transaction::default() }).await;
            done.map_err(|failure| refusal(server, failure))?;
        }
    }
    Ok(())
}

fn current_owner(place: &OsStr, _clock: &dyn Clock) -> io::Result<Option<Holder>> {
    let found = at_servers(place, async |server: Arc<Server>, layout: Layout| {
        recognise(&server, &layout).await?;
        session::current_owner(&server, &layout).await.map_err(|failure| refusal(&server, failure))
    });
    found.map_err(io::Error::other)
}

fn sessions(place: &OsStr, _clock: &dyn Clock) -> Result<Vec<Session>, OpenError> {
    at_servers(place, async |server: Arc<Server>, layout: Layout| {
        recognise(&server, &layout).await?;
        session::sessions(&server, &layout).await.map_err(|failure| refusal(&server, failure))
    })
}

fn evict(place: &OsStr, id: i64) -> Result<bool, OpenError> {
    at_servers(place, async move |server: Arc<Server>, layout: Layout| {
        recognise(&server, &layout).await?;
        session::evict(&server, &layout, id).await.map_err(|failure| refusal(&server, failure))
    })
}

fn shown(place: &OsStr) -> String {
    format!("etcd:{}", place.to_string_lossy())
}

fn note_file(place: &OsStr, suffix: &str) -> PathBuf {
    note::file(&shown(place), suffix)
}
