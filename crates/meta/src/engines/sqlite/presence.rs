//! Who has the store open beside its owner.
//!
//! An owner whose flushes go to the intent log is seen by nobody else, since others read the file. So others say that they are there, by a
//! shared lock of the log's file, before they read; and they wait until the file has what is in the log. The owner looks after
//! each record, before it acknowledges it: if somebody is there, the file gets what was logged first. What was acknowledged before
//! somebody came is in the log that he looks at, and all that is acknowledged later is in the file. Start reading at [`await_filed`].

use super::file;
use super::home::{Home, State};
use super::intents::{Found, log_path, open_log};
use super::reading::NOT_CLOSED;
use super::rows::Fault;
use super::{Failure, OpenError};
use crate::descriptor::Descriptor;
use crate::owner::{Holder, OwnerError, OwnerLock};
use crate::types::Access;
use rusqlite::Connection;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::path::Path;
use std::time::Duration;
use weft_env::Clock;

/// An owner files ten times a second what it has logged.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// An owner that takes longer is stopped, or its disk hangs.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Says that somebody is there, for as long as it lives.
#[derive(Debug)]
pub(super) struct Presence(#[expect(dead_code, reason = "it has the lock")] File);

impl Presence {
    /// Where no log is, no owner is, and `None` is the answer.
    pub fn announce(path: &Path, clock: &dyn Clock) -> io::Result<Option<Self>> {
        match File::open(log_path(path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => Self::of(opened?, clock).map(Some),
        }
    }

    /// Makes the log's file if it has to.
    pub fn insist(path: &Path, clock: &dyn Clock) -> io::Result<Self> {
        Self::of(open_log(path)?, clock)
    }

    fn of(file: File, clock: &dyn Clock) -> io::Result<Self> {
        let deadline = clock.now() + TIMEOUT;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockShared) {
                Ok(()) => return Ok(Self(file)),
                // The owner's look takes less than a microsecond.
                Err(Errno::WOULDBLOCK) if clock.now() < deadline => clock.block(LOOK_EVERY),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Waits until the file has what an owner had logged when this began. What one left that has died is filed here. False: the owner
/// does not do it, and what it flushed last is not in the file.
pub(super) fn await_filed(
    path: &Path,
    connection: &Connection,
    store: &Descriptor,
    clock: &dyn Clock,
) -> Result<bool, OpenError> {
    let read = || State::read(connection).map_err(|fault| file::open_error(path, fault));
    let found = Found::read(path).map_err(|error| file::io_error(path, error))?;
    let Some(last) = found.last(read()?.log) else { return Ok(true) };
    let deadline = clock.now() + TIMEOUT;
    while read()?.intents < last {
        if store.is_free() && file_alone(path, connection, clock)? {
            break;
        }
        if clock.now() > deadline {
            return Ok(false);
        }
        clock.block(LOOK_EVERY);
    }
    Ok(true)
}

/// Files what the log has, as its owner. False: there is a new owner, who does that.
fn file_alone(path: &Path, connection: &Connection, clock: &dyn Clock) -> Result<bool, OpenError> {
    if !file::may_write(path) {
        return Err(file::open_error(path, Fault::Refused(NOT_CLOSED.into())));
    }
    let owner = match OwnerLock::acquire(path, &Holder::short_lived(clock), clock) {
        Ok(owner) => owner,
        Err(OwnerError::InUse { .. }) => return Ok(false),
        Err(error) => return Err(error.into()),
    };
    // Of what is not at home nothing is written: it is read as it is, and that is said when it is looked at.
    if let Err(failure) = Home::enter(path, connection, Access::ShortLived)
        && !matches!(failure, Failure::Displaced(_))
    {
        return Err(file::failure(path, failure).into());
    }
    drop(owner);
    Ok(true)
}
