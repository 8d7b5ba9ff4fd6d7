//! The engine in the list of engines: what an address of it is, and how a store is made, found and copied.

use super::address::{self, Address};
use super::failure::refusal;
use super::plan::{Columns, columns_of};
use super::server::Server;
use super::{PostgresKv, refused, runtime, server, session, sql};
use crate::engines::remote::failure::Failure;
use crate::engines::remote::task::wait_for;
use crate::engines::remote::{backup, note};
use crate::engines::{EngineKind, OpenError, Pieces, behind};
use crate::kv::Kv;
use crate::owner::{Holder, Session};
use crate::types::Access;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_postgres::Client;
use weft_env::{Clock, Env};

/// A place is `//[USER@]HOST[:PORT]/DATABASE[?schema=NAME]`.
pub(crate) static KIND: EngineKind = EngineKind {
    scheme: "postgres",
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
    let parsed = address::parse(place).map(Address::with_password);
    parsed.map_err(|why| OpenError::Refused { place: format!("postgres:{}", place.to_string_lossy()), why: why.into() })
}

/// Does one thing with a connection, on any thread.
fn at_server<T, W>(place: &OsStr, work: impl FnOnce(Arc<Client>, Address) -> W + Send + 'static) -> Result<T, OpenError>
where
    T: Send + 'static,
    W: Future<Output = Result<T, OpenError>> + Send,
{
    let address = address_of(place)?;
    let (runtime, server) = (runtime(&address)?, server(&address, &Env::system())?);
    let done = wait(&runtime, &address, async move {
        match server.connect().await {
            Ok(client) => work(Arc::new(client), server.address.clone()).await,
            Err(error) => Err(refusal(&server.address, &error)),
        }
    });
    runtime.shutdown_background();
    done
}

fn create(place: &OsStr) -> Result<(), OpenError> {
    at_server(place, async |client: Arc<Client>, address: Address| {
        make_tables(&client, &address).await?;
        client.batch_execute(sql::COMMIT).await.map_err(|error| refusal(&address, &error))
    })
}

/// Begins a transaction, and makes the tables in it.
async fn make_tables(client: &Client, address: &Address) -> Result<(), OpenError> {
    let made = client.batch_execute(&format!("BEGIN; {}", sql::create(&address.schema))).await;
    made.map_err(|error| match error.code().map(tokio_postgres::error::SqlState::code) {
        // The schema, or a part of it, made by another at the same moment.
        Some("42P06" | "23505") => OpenError::Exists(address.shown.clone()),
        _ => refusal(address, &error),
    })
}

fn exists(place: &OsStr) -> bool {
    at_server(place, async |client: Arc<Client>, address: Address| session::recognise(&client, &address).await).is_ok()
}

fn remove(place: &OsStr) -> io::Result<()> {
    let removed = at_server(place, async |client: Arc<Client>, address: Address| {
        session::recognise(&client, &address).await?;
        let dropped = client.batch_execute(&format!("DROP SCHEMA {} CASCADE", address.schema)).await;
        dropped.map_err(|error| refusal(&address, &error))
    });
    removed.map_err(io::Error::other)
}

fn open(place: &OsStr, access: Access, mountpoint: Option<&Path>, env: &Env) -> Result<Arc<dyn Kv>, OpenError> {
    let address = address_of(place)?;
    let shown = address.shown.clone();
    behind::of_owner(Arc::new(PostgresKv::open(address, access, mountpoint, env)?), access, shown, env)
}

fn back_up(place: &OsStr, to: &Path, _clock: &dyn Clock) -> Result<(), OpenError> {
    backup::write(&*open(place, Access::Shared, None, &Env::system())?, to)
}

fn restore(from: &Path, place: &OsStr, _clock: &dyn Clock) -> Result<(), OpenError> {
    backup::read(from, |pieces| load(place, pieces))
}

/// In one transaction: a store is there whole, or not at all.
fn load(place: &OsStr, pieces: &mut Pieces<'_>) -> Result<(), OpenError> {
    let address = address_of(place)?;
    let (runtime, server) = (runtime(&address)?, server(&address, &Env::system())?);
    let loaded = load_with(&runtime, server, &address, pieces);
    runtime.shutdown_background();
    loaded
}

fn load_with(
    runtime: &tokio::runtime::Runtime,
    server: Arc<Server>,
    address: &Address,
    pieces: &mut Pieces<'_>,
) -> Result<(), OpenError> {
    let begun = wait(runtime, address, {
        let (server, address) = (server.clone(), address.clone());
        async move {
            let client = server.connect().await.map_err(|error| refusal(&address, &error))?;
            make_tables(&client, &address).await?;
            Ok(client)
        }
    });
    let client = Arc::new(begun?);
    while let Some(slots) = pieces().map_err(|why| refused(address, why))? {
        let (client, address, columns) = (client.clone(), address.clone(), columns_of(slots));
        wait(runtime, &address.clone(), async move { put(&client, &address, columns).await })?;
    }
    let (client, address) = (client.clone(), address.clone());
    wait(runtime, &address.clone(), async move {
        client.batch_execute(sql::COMMIT).await.map_err(|error| refusal(&address, &error))
    })
}

async fn put(client: &Client, address: &Address, (set, removed): (Columns, Vec<Vec<u8>>)) -> Result<(), OpenError> {
    let failed = |error: tokio_postgres::Error| OpenError::Engine(Failure::of(&error).into_error(&address.shown));
    client.execute(sql::REMOVE, &[&removed]).await.map_err(failed)?;
    client.execute(sql::SET, &[&set.0, &set.1]).await.map_err(failed)?;
    Ok(())
}

fn wait<T: Send + 'static>(
    runtime: &tokio::runtime::Runtime,
    address: &Address,
    work: impl Future<Output = Result<T, OpenError>> + Send + 'static,
) -> Result<T, OpenError> {
    let done = wait_for(runtime, work);
    done.ok_or_else(|| refused(address, "its client ended in the middle of a request; try again".into()))?
}

fn current_owner(place: &OsStr, _clock: &dyn Clock) -> io::Result<Option<Holder>> {
    let found = at_server(place, async |client: Arc<Client>, address: Address| {
        session::recognise(&client, &address).await?;
        session::current_owner(&client, &address).await.map_err(|error| refusal(&address, &error))
    });
    found.map_err(io::Error::other)
}

fn sessions(place: &OsStr, _clock: &dyn Clock) -> Result<Vec<Session>, OpenError> {
    at_server(place, async |client: Arc<Client>, address: Address| {
        session::recognise(&client, &address).await?;
        session::sessions(&client, &address).await.map_err(|error| refusal(&address, &error))
    })
}

fn evict(place: &OsStr, id: i64) -> Result<bool, OpenError> {
    at_server(place, async move |client: Arc<Client>, address: Address| {
        session::recognise(&client, &address).await?;
        session::evict(&client, &address, id).await.map_err(|error| refusal(&address, &error))
    })
}

fn note_file(place: &OsStr, suffix: &str) -> PathBuf {
    note::file(&format!("postgres:{}", place.to_string_lossy()), suffix)
}
