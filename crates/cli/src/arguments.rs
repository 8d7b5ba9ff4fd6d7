//! Arguments that several commands share, each with one name, one help text and one parser.

use crate::amount;
use clap::builder::{OsStringValueParser, TypedValueParser};
use std::fmt;
use std::num::NonZeroU64;
use std::ops::Deref;
use std::path::PathBuf;
use weft_engine::MetaUrl;

/// What `META` is, for every command.
pub const META_HELP: &str = match cfg!(feature = "shared") {
    true => "Metadata of the volume: FILE, postgres://HOST/DATABASE or etcd://HOST/NAME",
    false => "Metadata of the volume: FILE (this program was built without postgres:// and etcd://)",
};

/// Reads `META`.
pub fn meta_url() -> impl TypedValueParser<Value = MetaUrl> {
    OsStringValueParser::new().try_map(|text| MetaUrl::parse(&text))
}

/// The volume that a command is about.
#[derive(Clone, Debug, clap::Args)]
pub struct Meta {
    #[arg(value_name = "META", help = META_HELP, value_parser = meta_url())]
    meta: MetaUrl,
}

impl Deref for Meta {
    type Target = MetaUrl;

    fn deref(&self) -> &MetaUrl {
        &self.meta
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.meta.fmt(f)
    }
}

/// Who reads the output.
#[derive(Clone, Copy, Debug, clap::Args)]
pub struct Output {
    /// Print JSON, for programs (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

/// How much a command may move.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Bandwidth {
    /// Send and receive at most this many bytes per second, all nodes together, as in 10M
    #[arg(long, value_name = "RATE", value_parser = amount::parse_rate)]
    pub bwlimit: Option<NonZeroU64>,
}

/// What a node asks of its users.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyFile {
    /// Key file of the node: for a daemon the key file that it was started with, for s3:// and others a file of lines `name = value`
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}
