//! The schema, and every statement. Plain SQL without procedures of the server.
//!
//! A statement that compares divides by zero where the comparison fails, which ends the transaction: so all statements of a commit can
//! be sent together, and the later ones do nothing.

use super::plan::GUARDS;
use crate::deltas::Directory;

/// The version of the tables.
pub(super) const FORMAT_VERSION: i32 = 5;

/// Makes the tables of a store in a schema that must not exist. Attempts are found by their number first: a session has thousands of dead ones, until they
/// are vacuumed.
pub(super) fn create(schema: &str) -> String {
    let last = GUARDS - 1;
    format!(
        "CREATE SCHEMA {schema};
         SET LOCAL search_path TO {schema};
         CREATE TABLE store (format integer NOT NULL, made timestamptz NOT NULL DEFAULT now());
         INSERT INTO store (format) VALUES ({FORMAT_VERSION});
         CREATE TABLE kv (k bytea PRIMARY KEY, v bytea NOT NULL) WITH (fillfactor = 90);
         CREATE TABLE delta (k bytea NOT NULL, id bigint GENERATED ALWAYS AS IDENTITY, d bytea NOT NULL, PRIMARY KEY (k, id))
             WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);
         CREATE TABLE guard (id integer PRIMARY KEY);
         INSERT INTO guard SELECT generate_series(0, {last});
         CREATE TABLE session (
             id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, role smallint NOT NULL, holder bytea NOT NULL,
             machine text NOT NULL, process_began text NOT NULL, seen timestamptz NOT NULL DEFAULT clock_timestamp());
         CREATE UNIQUE INDEX one_owner ON session (role) WHERE role = 2;
         CREATE TABLE attempt (
             session bigint NOT NULL REFERENCES session (id) ON DELETE CASCADE, number bigint NOT NULL,
             given_up boolean NOT NULL DEFAULT false, PRIMARY KEY (number, session))
             WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000);"
    )
}

/// The first statements of each connection. Every access is by key, whatever the planner believes of tables that nobody has analysed yet. A
/// client that stops in the middle of a transaction does not keep its locks.
pub(super) fn prepare(schema: &str) -> String {
    format!(
        "SET search_path TO {schema};
         SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off; SET jit = off;
         SET plan_cache_mode = force_generic_plan; SET idle_in_transaction_session_timeout = '300s';
         SET client_min_messages = error; SET default_transaction_isolation = 'read committed';"
    )
}

pub(super) const BEGIN_VIEW: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
/// A client that is stopped, or cut off, between two requests of a transaction loses it, and its locks, soon.
pub(super) const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '3s'";
pub(super) const COMMIT: &str = "COMMIT";

/// The deltas that wait for the row `kv`, in order.
const WAITING: &str = "(SELECT array_agg(delta.d ORDER BY delta.id) FROM delta WHERE delta.k = kv.k)";

/// $1 keys -> index, value, deltas.
pub(super) fn get() -> String {
    format!("SELECT a.i, kv.v, {WAITING} FROM unnest($1::bytea[]) WITH ORDINALITY AS a (k, i) JOIN kv ON kv.k = a.k")
}

/// $1 start, $2 end, $3 limit -> key, value, deltas.
pub(super) fn scan() -> String {
    format!("SELECT kv.k, kv.v, {WAITING} FROM kv WHERE kv.k >= $1 AND kv.k < $2 ORDER BY kv.k LIMIT $3")
}

/// $1 keys; for each $2 the table of its link or null, $3 where in the value the link is, from 1 on, $4 its bytes; $5 start, $6 end, $7
/// limit, $8 $9 $10 the link of the range.
/// -> part (0 key, 1 what a key names, 2 pair, 3 what a pair names), key, value, deltas, and of part 3 the key of the pair.
pub(super) fn fetch() -> String {
    format!(
        "WITH asked AS MATERIALIZED (
             SELECT a.k, a.t, a.s, a.n, kv.v, {WAITING} AS d
             FROM unnest($1::bytea[], $2::int4[], $3::int4[], $4::int4[]) AS a (k, t, s, n) LEFT JOIN kv ON kv.k = a.k),
         pairs AS MATERIALIZED (
             SELECT kv.k, kv.v, {WAITING} AS d FROM kv WHERE kv.k >= $5 AND kv.k < $6 ORDER BY kv.k LIMIT $7)
         SELECT 0, k, v, d, NULL::bytea FROM asked
         UNION ALL
         SELECT 1, kv.k, kv.v, {WAITING}, NULL FROM asked JOIN kv
             ON kv.k = set_byte('\\x00', 0, asked.t) || substring(asked.v FROM asked.s FOR asked.n)
             WHERE asked.t IS NOT NULL AND length(asked.v) >= asked.s + asked.n - 1
         UNION ALL
         SELECT 2, k, v, d, NULL FROM pairs
         UNION ALL
         SELECT 3, kv.k, kv.v, {WAITING}, pairs.k FROM pairs JOIN kv
             ON kv.k = set_byte('\\x00', 0, $8::int4) || substring(pairs.v FROM $9::int4 FOR $10::int4)
             WHERE length(pairs.v) >= $9::int4 + $10::int4 - 1"
    )
}

/// A whole commit in one statement, for a batch whose checks are of rows that are there. All of it sees one moment, but a row that is locked
/// is compared as it is when it is locked. It is named first: an attempt that comes again must meet its name before what it has changed. Then
/// what is selected is done before what is changed; were it not, the checks would fail.
///
/// $1 session, $2 number, $3 numbers that nobody asks about any more; $4 guards; $5 keys and $6 values of rows that are changed, $7 $8 of
/// others; $9 keys, $10 masked values, $11 lack of links of directories; $12 keys without deltas; $13 removed keys; $14 keys and $15
/// values that are made, $16 $17 that are set; $18 keys, $19 deltas.
pub(super) fn commit() -> String {
    format!(
        "WITH named AS (INSERT INTO attempt (session, number) VALUES ($1, $2) RETURNING 1),
         done AS (DELETE FROM attempt WHERE session = $1 AND number = ANY($3::bigint[])),
         forgotten AS (DELETE FROM delta WHERE k = ANY($12::bytea[])),
         removed AS (DELETE FROM kv WHERE k = ANY($13::bytea[])),
         made AS (INSERT INTO kv (k, v) SELECT n.k, n.v FROM unnest($14::bytea[], $15::bytea[]) AS n (k, v)),
         changed AS (INSERT INTO kv (k, v) SELECT n.k, n.v FROM unnest($16::bytea[], $17::bytea[]) AS n (k, v)
             ON CONFLICT (k) DO UPDATE SET v = excluded.v),
         added AS (INSERT INTO delta (k, d) SELECT n.k, n.d FROM unnest($18::bytea[], $19::bytea[]) AS n (k, d))
         SELECT (SELECT count(*) FROM (SELECT 1 FROM guard WHERE id = ANY($4::int4[]) ORDER BY id FOR SHARE) AS shared),
             1 / ({} = cardinality($5::bytea[]) AND {} = cardinality($7::bytea[])
                 AND {} = cardinality($9::bytea[]))::int4,
             CASE WHEN (SELECT count(*) FROM kv WHERE k = ANY($18::bytea[])) = cardinality($18::bytea[]) THEN 1
                 ELSE ('a record is missing' || $2::bigint)::int4 END
         FROM named",
        rows(5, 6, lock(true)),
        rows(7, 8, lock(false)),
        directories(9, lock(false)),
    )
}

/// How many of the rows with these parameters are as they should be, without deltas that wait.
fn rows(keys: u32, values: u32, lock: &str) -> String {
    format!(
        "(SELECT count(*) FROM (
             SELECT 1 FROM unnest(${keys}::bytea[], ${values}::bytea[]) AS c (k, v) JOIN kv ON kv.k = c.k AND kv.v = c.v
             WHERE NOT EXISTS (SELECT 1 FROM delta WHERE delta.k = c.k) ORDER BY kv.k {lock} OF kv) AS held)"
    )
}

/// How many of the directories with these parameters are what they were.
fn directories(first: u32, lock: &str) -> String {
    let (masked, gone) = (first + 1, first + 2);
    let value = Directory::VARIABLE.iter().fold("kv.v".to_owned(), |value, range| {
        let (from, length) = (range.start + 1, range.len());
        format!("overlay({value} PLACING '\\x{}' FROM {from} FOR {length})", "00".repeat(length))
    });
    let (links, length) = (Directory::LINKS.start + 1, Directory::LINKS.len());
    let none = "00".repeat(length);
    format!(
        "(SELECT count(*) FROM (
             SELECT 1 FROM unnest(${first}::bytea[], ${masked}::bytea[], ${gone}::bool[]) AS c (k, v, gone) JOIN kv ON kv.k = c.k
             WHERE length(kv.v) = length(c.v) AND {value} = c.v
                 AND (substring(kv.v FROM {links} FOR {length}) = '\\x{none}') = c.gone
             ORDER BY kv.k {lock} OF kv) AS held)"
    )
}

/// $1 session, $2 number of the attempt, $3 numbers that nobody asks about any more. Twice the same: it was committed. No such session:
/// another took its place.
pub(super) const ATTEMPT: &str = "WITH done AS (DELETE FROM attempt WHERE session = $1 AND number = ANY($3::bigint[]))
    INSERT INTO attempt (session, number) VALUES ($1, $2)";

/// $1 session, $2 number: nothing under this name is committed from now on. -> false: it was committed before. It may be asked again.
pub(super) const SETTLE: &str = "INSERT INTO attempt (session, number, given_up) VALUES ($1, $2, true)
    ON CONFLICT (session, number) DO UPDATE SET given_up = attempt.given_up RETURNING given_up";

/// $1 guards.
pub(super) fn guard(alone: bool) -> String {
    format!("SELECT count(*) FROM (SELECT 1 FROM guard WHERE id = ANY($1::int4[]) ORDER BY id {}) AS held", lock(alone))
}

fn lock(alone: bool) -> &'static str {
    if alone { "FOR UPDATE" } else { "FOR SHARE" }
}

/// $1 keys, $2 values, $3 how many: each has its value, and no delta waits for it.
pub(super) fn hold(to_change: bool) -> String {
    format!("SELECT 1 / ({} = $3::bigint)::int4", rows(1, 2, lock(to_change)))
}

/// $1 keys, $2 values without what may vary, $3 which have no links, $4 how many.
pub(super) fn hold_directories(to_change: bool) -> String {
    format!("SELECT 1 / ({} = $4::bigint)::int4", directories(1, lock(to_change)))
}

/// $1 keys: none is there.
pub(super) const ABSENT: &str = "SELECT 1 / (NOT EXISTS (SELECT 1 FROM kv WHERE k = ANY($1::bytea[])))::int4";

/// $1 start, $2 end, $3 limit, $4 keys, $5 values: these are the first, and no delta waits for any.
pub(super) const RANGE: &str = "SELECT 1 / (coalesce(array_agg(k ORDER BY k), '{}') = $4::bytea[]
        AND coalesce(array_agg(v ORDER BY k), '{}') = $5::bytea[]
        AND NOT EXISTS (SELECT 1 FROM delta WHERE delta.k >= $1 AND delta.k < $2))::int4
    FROM (SELECT k, v FROM kv WHERE k >= $1 AND k < $2 ORDER BY k LIMIT $3 FOR SHARE) AS found";

/// $1 keys.
pub(super) const REMOVE: &str = "DELETE FROM kv WHERE k = ANY($1::bytea[])";
/// $1 keys, $2 values.
pub(super) const MAKE: &str = "INSERT INTO kv (k, v) SELECT n.k, n.v FROM unnest($1::bytea[], $2::bytea[]) AS n (k, v)";
/// $1 keys, $2 values.
pub(super) const SET: &str = "INSERT INTO kv (k, v) SELECT n.k, n.v FROM unnest($1::bytea[], $2::bytea[]) AS n (k, v)
    ON CONFLICT (k) DO UPDATE SET v = excluded.v";
/// $1 keys.
pub(super) const FORGET: &str = "DELETE FROM delta WHERE k = ANY($1::bytea[])";
/// $1 keys, $2 deltas, $3 how many: each key is there.
pub(super) const ADD: &str =
    "WITH base AS (SELECT 1 / (count(*) = $3::bigint)::int4 AS ok FROM kv WHERE k = ANY($1::bytea[]))
    INSERT INTO delta (k, d) SELECT n.k, n.d FROM unnest($1::bytea[], $2::bytea[]) AS n (k, d), base WHERE base.ok = 1";

/// $1 keys -> key, value; nobody else changes them until the end of the transaction.
pub(super) const LOCK: &str = "SELECT k, v FROM kv WHERE k = ANY($1::bytea[]) ORDER BY k FOR UPDATE";
/// $1 keys -> key, id, delta: they are taken away.
pub(super) const TAKE: &str = "DELETE FROM delta WHERE k = ANY($1::bytea[]) RETURNING k, id, d";
/// $1 limit -> keys for which deltas wait.
pub(super) const WAITED_FOR: &str = "SELECT DISTINCT k FROM delta LIMIT $1";
/// $1 keys -> those for which deltas wait.
pub(super) const WAITED_FOR_AMONG: &str = "SELECT DISTINCT k FROM delta WHERE k = ANY($1::bytea[])";
/// $1 start, $2 end, $3 limit -> keys for which deltas wait.
pub(super) const WAITED_FOR_WITHIN: &str = "SELECT DISTINCT k FROM delta WHERE k >= $1 AND k < $2 LIMIT $3";

/// $1 session -> it is still there.
pub(super) const HEARTBEAT: &str = "UPDATE session SET seen = clock_timestamp() WHERE id = $1";
/// Until the end of the transaction nobody else enters.
pub(super) const GATE: &str = "SELECT 1 FROM store FOR UPDATE";
/// $1 role, $2 holder, $3 machine, $4 process_began -> id; nothing: another is in the way.
pub(super) const ENTER: &str = "INSERT INTO session (role, holder, machine, process_began)
    SELECT $1::int2, $2::bytea, $3::text, $4::text
    WHERE $1::int2 = 0 OR NOT EXISTS (SELECT 1 FROM session WHERE role = 2 OR ($1::int2 = 2 AND role = 1)) RETURNING id";
/// $1 session, $2 the moment of its last sign of life.
pub(super) const DISPLACE: &str = "DELETE FROM session WHERE id = $1 AND seen::text = $2";
/// $1 session.
pub(super) const LEAVE: &str = "DELETE FROM session WHERE id = $1";
/// -> id, holder, machine, process_began, seconds since its last sign of life, role, the moment of that sign.
pub(super) const SESSIONS: &str = "SELECT id, holder, machine, process_began,
    extract(epoch FROM clock_timestamp() - seen)::float8, role, seen::text FROM session ORDER BY id";
/// $1 seconds: sessions that gave no sign of life for so long.
pub(super) const SWEEP: &str =
    "DELETE FROM session WHERE role = 0 AND seen < clock_timestamp() - make_interval(secs => $1)";
