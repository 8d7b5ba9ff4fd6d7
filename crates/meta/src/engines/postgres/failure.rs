//! What an error of the server, or of the way to it, means.

use super::address::Address;
use crate::engines::OpenError;
use crate::engines::remote::failure::{Failure, MISSING, mend};
use tokio_postgres::error::SqlState;

impl Failure {
    pub fn of(error: &tokio_postgres::Error) -> Self {
        let Some(code) = error.code() else {
            let is_of_the_way = error.is_closed() || is_io(error);
            return if is_of_the_way { Self::Lost(sentence(error)) } else { Self::Failed(sentence(error)) };
        };
        let is = |codes: &[SqlState]| codes.contains(code);
        if is(&[SqlState::DIVISION_BY_ZERO, SqlState::UNIQUE_VIOLATION])
            || is(&[SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED, SqlState::LOCK_NOT_AVAILABLE])
        {
            Self::Conflict
        } else if code.code().starts_with("08")
            || code.code().starts_with("57P")
            // A standby that is not promoted yet; a snapshot that a standby gave up; a transaction that the server ended.
            || is(&[SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::TOO_MANY_CONNECTIONS])
            || is(&[SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT])
        {
            Self::Lost(sentence(error))
        } else if is(&[SqlState::DISK_FULL]) {
            Self::Full
        } else if code.code().starts_with("XX00") {
            Self::Damaged(sentence(error))
        } else {
            Self::Failed(sentence(error))
        }
    }

    /// Of the request that names the attempt.
    pub fn of_attempt(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if *code == SqlState::UNIQUE_VIOLATION => Self::Done,
            Some(code) if *code == SqlState::FOREIGN_KEY_VIOLATION => Self::Fenced,
            _ => Self::of(error),
        }
    }

    /// Of the statement that is a whole commit.
    pub fn of_commit(error: &tokio_postgres::Error) -> Self {
        let constraint = error.as_db_error().and_then(|error| error.constraint());
        match error.code() {
            Some(code) if *code == SqlState::UNIQUE_VIOLATION && constraint == Some("attempt_pkey") => Self::Done,
            Some(code) if *code == SqlState::FOREIGN_KEY_VIOLATION => Self::Fenced,
            Some(code) if *code == SqlState::INVALID_TEXT_REPRESENTATION => Self::Damaged(MISSING.into()),
            _ => Self::of(error),
        }
    }

    /// Of the request that leaves deltas.
    pub fn of_delta(error: &tokio_postgres::Error) -> Self {
        match error.code() {
            Some(code) if *code == SqlState::DIVISION_BY_ZERO => Self::Damaged(MISSING.into()),
            _ => Self::of(error),
        }
    }
}

/// What a server's refusal means to who opens a store.
pub(super) fn refusal(address: &Address, error: &tokio_postgres::Error) -> OpenError {
    let user = address.config.get_user().unwrap_or("this user");
    let database = address.config.get_dbname().unwrap_or(user);
    let code = error.code().map(SqlState::code);
    let why = match code {
        Some("28P01") => format!("the server refuses the password of {user}; give it by PGPASSWORD or ~/.pgpass"),
        Some("28000") => {
            format!("the server does not let {user} in from here ({}); see its pg_hba.conf", sentence(error))
        }
        Some("3D000") => format!("the server has no database {database}; make it with `createdb {database}`"),
        Some("42501") => {
            format!("{user} may not do that there ({}); grant it the rights, or use another user", sentence(error))
        }
        Some("53300") => {
            format!(
                "the server has no connection left ({}); end other programs, or raise its limits of connections",
                sentence(error)
            )
        }
        Some(_) => format!("{}; see the server's log", sentence(error)),
        None if sentence(error).contains("password missing") => {
            format!("the server wants a password of {user}; give it by PGPASSWORD or ~/.pgpass")
        }
        None => {
            let why = sentence(error);
            let mend = mend(&why, "see that the server runs and can be reached, and correct the address if not");
            format!("{why}; {mend}")
        }
    };
    OpenError::Refused { place: address.shown.clone(), why }
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if error.is::<std::io::Error>() {
            return true;
        }
        cause = error.source();
    }
    // Its own time limit has no cause.
    error.to_string().contains("timeout")
}

/// The last cause, which says most.
fn sentence(error: &tokio_postgres::Error) -> String {
    if let Some(error) = error.as_db_error() {
        return error.message().to_owned();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}
