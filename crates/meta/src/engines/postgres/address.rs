//! Where a store is: `//[USER@]HOST[:PORT]/DATABASE[?schema=NAME&...]`, and how its server is reached.
//!
//! An address is shown in lists of processes, tables of mounts and messages, so it has no password: that comes from `PGPASSWORD`, or
//! from the password file, as with PostgreSQL's own programs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

/// What a store's schema is called if the address has no name for it.
const SCHEMA: &str = "weft";
/// PostgreSQL cuts longer names.
const SCHEMA_BYTES_MAX: usize = 63;
/// Nobody listens there, or a packet is lost: try again.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A server that is cut off is noticed after so long, also in the middle of a request.
const SILENCE: Duration = Duration::from_secs(15);

/// A store, and the server that has it.
#[derive(Clone, Debug)]
pub(super) struct Address {
    /// All its hosts, and no password.
    pub config: Config,
    /// To be tried one after the other. A configuration has one password, so hosts with passwords of their own have one each.
    pub servers: Vec<Config>,
    pub schema: String,
    /// As commands take it.
    pub shown: String,
}

/// Why a place is none.
pub(super) fn refuse(place: &OsStr) -> Option<&'static str> {
    parse(place).err()
}

/// # Errors
/// A clause that ends in the mend.
pub(super) fn parse(place: &OsStr) -> Result<Address, &'static str> {
    let place = place.to_str().ok_or("it is not UTF-8; write postgres://USER@HOST/DATABASE")?;
    if !place.starts_with("//") {
        return Err("it names no server; write postgres://USER@HOST/DATABASE");
    }
    let shown = format!("postgres:{place}");
    let (base, query) = place.split_once('?').unwrap_or((place, ""));
    let (ours, theirs): (Vec<&str>, Vec<&str>) =
        query.split('&').filter(|part| !part.is_empty()).partition(|part| part.starts_with("schema="));
    let schema = ours.last().map_or(SCHEMA, |part| &part["schema=".len()..]);
    if !is_name(schema) {
        return Err("a schema's name has small letters, digits and `_`, at most 63; write ?schema=NAME");
    }
    let url =
        if theirs.is_empty() { format!("postgres:{base}") } else { format!("postgres:{base}?{}", theirs.join("&")) };
    let mut config: Config = url.parse().map_err(|_| {
        "PostgreSQL's client cannot read it; write postgres://USER@HOST:PORT/DATABASE?schema=NAME, and see the page of the engine"
    })?;
    if config.get_password().is_some() {
        return Err("everybody can read an address; leave the password out, and give it by PGPASSWORD or ~/.pgpass");
    }
    if config.get_hosts().is_empty() {
        return Err("it names no server; write postgres://USER@HOST/DATABASE");
    }
    if !theirs.iter().any(|part| part.starts_with("sslmode=")) {
        config.ssl_mode(if is_local(&config) { SslMode::Disable } else { SslMode::Require });
    }
    // A standby answers with what it has got so far.
    config.target_session_attrs(TargetSessionAttrs::ReadWrite);
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_application_name().is_none() {
        config.application_name("weft");
    }
    config
        .keepalives_idle(SILENCE / 3)
        .keepalives_interval(SILENCE / 3)
        .keepalives_retries(2)
        .tcp_user_timeout(SILENCE);
    Ok(Address { servers: vec![config.clone()], config, schema: schema.to_owned(), shown })
}

fn is_name(schema: &str) -> bool {
    let is_start = |c: char| c.is_ascii_lowercase() || c == '_';
    schema.len() <= SCHEMA_BYTES_MAX
        && schema.starts_with(is_start)
        && schema.chars().all(|c| is_start(c) || c.is_ascii_digit())
        && !schema.starts_with("pg_")
}

/// All its servers are on this machine.
fn is_local(config: &Config) -> bool {
    config.get_hosts().iter().all(|host| match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    })
}

impl Address {
    /// With the passwords that this user has for its hosts, as far as there are any.
    pub fn with_password(mut self) -> Self {
        if let Some(password) = std::env::var_os("PGPASSWORD") {
            for server in &mut self.servers {
                server.password(password.as_encoded_bytes());
            }
        } else if let Some(text) = password_file() {
            self.servers = with_passwords_of(&self.config, &text);
        }
        self
    }
}

fn password_file() -> Option<String> {
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".pgpass"));
    let path = std::env::var_os("PGPASSFILE").map(PathBuf::from).or_else(home)?;
    let others_may = path.metadata().ok()?.permissions().mode() & 0o077;
    if others_may != 0 {
        tracing::warn!(file = %path.display(), "the password file is not used: others may read it (chmod 0600)");
        return None;
    }
    std::fs::read_to_string(path).ok()
}

/// The hosts, each with the password that this file has for it.
fn with_passwords_of(config: &Config, text: &str) -> Vec<Config> {
    let user = config.get_user().unwrap_or_default();
    let database = config.get_dbname().unwrap_or(user);
    let server = |(index, host): (usize, &Host)| {
        let ports = config.get_ports();
        let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
        let name = match host {
            Host::Tcp(name) => name.as_str(),
            Host::Unix(_) => "localhost",
        };
        let mut server = of_host(config, index, port);
        if let Some(password) = password_in(text, [name, &port.to_string(), database, user]) {
            server.password(password);
        }
        server
    };
    config.get_hosts().iter().enumerate().map(server).collect()
}

/// The same with one of its hosts. A configuration cannot lose a host, so this one gets everything else.
fn of_host(config: &Config, index: usize, port: u16) -> Config {
    let mut one = Config::new();
    match &config.get_hosts()[index] {
        Host::Tcp(name) => one.host(name),
        Host::Unix(path) => one.host_path(path),
    };
    if let Some(address) = config.get_hostaddrs().get(index) {
        one.hostaddr(*address);
    }
    if let Some(user) = config.get_user() {
        one.user(user);
    }
    if let Some(name) = config.get_dbname() {
        one.dbname(name);
    }
    if let Some(options) = config.get_options() {
        one.options(options);
    }
    if let Some(name) = config.get_application_name() {
        one.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        one.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        one.tcp_user_timeout(*timeout);
    }
    if let Some(interval) = config.get_keepalives_interval() {
        one.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        one.keepalives_retries(retries);
    }
    one.port(port)
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .target_session_attrs(config.get_target_session_attrs())
        .load_balance_hosts(config.get_load_balance_hosts());
    one
}

/// The password of the first line that fits: `host:port:database:user:password`, in which `*` fits everything.
fn password_in(text: &str, wanted: [&str; 4]) -> Option<String> {
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = split_fields(line);
        let password = fields.pop()?;
        let fits =
            fields.len() == 4 && fields.iter().zip(wanted).all(|(field, wanted)| field == "*" || field == wanted);
        fits.then_some(password)
    })
}

/// The first four colons divide; one after a backslash does not.
fn split_fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        let is_last = fields.len() == 5;
        let field = fields.last_mut().expect("there is one");
        match c {
            '\\' => field.extend(chars.next()),
            ':' if !is_last => fields.push(String::new()),
            c => field.push(c),
        }
    }
    fields
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
