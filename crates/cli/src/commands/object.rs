//! `weft object put|get|ls|stat|rm`: objects on the daemons of a cluster, without a volume.

use crate::arguments::{Bandwidth, Output};
use crate::care::count;
use crate::compose;
use crate::render;
use crate::unfinished::{Unfinished, already_there, sync_folder};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weft_engine::Env;
use weft_engine::objects::{Got, GrantRequest, ListedName, Objects, PutRequest, Stat, Stored};

/// A cluster that keeps objects.
#[derive(Debug, clap::Args)]
pub struct Cluster {
    /// Daemons to learn all others from; one that answers is enough
    #[arg(long, value_name = "HOST:PORT|URL", value_delimiter = ',', required = true)]
    from: Vec<String>,
    /// Key of the cluster, or a file with what `weft object grant` printed
    #[arg(long, value_name = "FILE")]
    cluster_key: PathBuf,
}

impl Cluster {
    fn open(&self, bandwidth: Bandwidth) -> Result<Objects> {
        Ok(Objects::open(&self.from, &self.cluster_key, bandwidth.bwlimit, &Env::system())?)
    }
}

#[derive(Debug, clap::Subcommand)]
pub enum Arguments {
    /// Store a file as an object
    #[command(after_help = "Examples:
  weft object put events.root run7/events.root --from n1,n2 --cluster-key all.key
  weft object put - backup.tar --from n1 --cluster-key all.key --code rs:4+2 --replace")]
    Put {
        /// The file; `-` is standard input
        #[arg(value_name = "FILE")]
        source: PathBuf,
        /// Name of the object
        name: String,
        /// Erasure code (`weft codes list`); a shard goes to each of as many members
        #[arg(long, value_name = "CODE", default_value = "ldpc:cube-8-6")]
        code: String,
        /// Store a newer version if the object exists
        #[arg(long)]
        replace: bool,
        #[command(flatten)]
        cluster: Cluster,
        #[command(flatten)]
        bandwidth: Bandwidth,
        #[command(flatten)]
        printed: Output,
    },
    /// Read an object into a file
    #[command(after_help = "Example:
  weft object get run7/events.root events.root --from n1,n2 --cluster-key all.key")]
    Get {
        /// Name of the object
        name: String,
        /// File to write, which must not exist; `-` is standard output
        #[arg(value_name = "FILE")]
        target: PathBuf,
        #[command(flatten)]
        cluster: Cluster,
        #[command(flatten)]
        bandwidth: Bandwidth,
    },
    /// List objects, by asking all members
    #[command(after_help = "Example:
  weft object ls run7/ --from n1 --cluster-key all.key")]
    Ls {
        /// Only names that begin with this
        #[arg(default_value = "")]
        prefix: String,
        #[command(flatten)]
        cluster: Cluster,
        #[command(flatten)]
        printed: Output,
    },
    /// Show an object's version, code and shards
    #[command(after_help = "Example:
  weft object stat run7/events.root --from n1 --cluster-key all.key")]
    Stat {
        /// Name of the object
        name: String,
        #[command(flatten)]
        cluster: Cluster,
        #[command(flatten)]
        printed: Output,
    },
    /// Print a key for names that begin with PREFIX only; save it in a file with mode 0600
    #[command(after_help = "Example:
  weft object grant run7/ --read --list --days 30 --cluster-key all.key")]
    Grant {
        /// What the names begin with; empty for all names
        prefix: String,
        /// Allow reading
        #[arg(long)]
        read: bool,
        /// Allow putting and removing
        #[arg(long)]
        write: bool,
        /// Allow listing
        #[arg(long)]
        list: bool,
        /// For how many days
        #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=3650))]
        days: u32,
        /// Key of the cluster
        #[arg(long, value_name = "FILE")]
        cluster_key: PathBuf,
    },
    /// Remove objects
    #[command(after_help = "Example:
  weft object rm run7/events.root --from n1 --cluster-key all.key")]
    Rm {
        /// Names of the objects
        #[arg(required = true)]
        names: Vec<String>,
        #[command(flatten)]
        cluster: Cluster,
    },
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Put { name, source, code, replace, cluster, bandwidth, printed } => {
            let request =
                PutRequest { name: name.clone(), code: compose::code(code)?.spec().to_owned(), replace: *replace };
            put(&request, source, &cluster.open(*bandwidth)?, *printed)
        }
        Arguments::Get { name, target, cluster, bandwidth } => get(name, target, &cluster.open(*bandwidth)?),
        Arguments::Ls { prefix, cluster, printed } => ls(prefix, &cluster.open(Bandwidth::default())?, *printed),
        Arguments::Stat { name, cluster, printed } => stat(name, &cluster.open(Bandwidth::default())?, *printed),
        Arguments::Grant { prefix, read, write, list, days, cluster_key } => {
            let lasts = Duration::from_secs(u64::from(*days) * 24 * 3600);
            let (may_read, may_write, may_list) = (*read, *write, *list);
            if !(may_read || may_write || may_list) {
                bail!("a grant of nothing is of no use: give --read, --write or --list");
            }
            let request = GrantRequest { prefix: prefix.clone(), may_read, may_write, may_list, lasts };
            println!("{}", weft_engine::objects::grant(&request, cluster_key, &Env::system())?);
            Ok(())
        }
        Arguments::Rm { names, cluster } => rm(names, &cluster.open(Bandwidth::default())?),
    }
}

#[derive(Serialize)]
struct PutAnswer<'a> {
    name: &'a str,
    version: String,
    bytes: u64,
    shard_count: usize,
    at_alternates: usize,
    missing: usize,
}

fn put(request: &PutRequest, source: &Path, objects: &Objects, printed: Output) -> Result<()> {
    let mut source: Box<dyn Read + Send> = match source == Path::new("-") {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(source).with_context(|| source.display().to_string())?),
    };
    let Stored { version, bytes, shard_count, at_alternates, missing, .. } = objects.put(request, &mut *source)?;
    let name = &request.name;
    if printed.json {
        let version = version.to_string();
        println!(
            "{}",
            serde_json::to_string(&PutAnswer { name, version, bytes, shard_count, at_alternates, missing })?
        );
        return Ok(());
    }
    println!(
        "{}: {} in {}, version {version}",
        render::line(name),
        render::bytes(bytes),
        count(shard_count as u64, "shard")
    );
    if at_alternates > 0 {
        println!("{at_alternates} of them are at alternates, since members of their places were away");
    }
    if missing > 0 {
        println!("{missing} of them could not be stored; the members make them when there is a place");
    }
    Ok(())
}

fn get(name: &str, target: &Path, objects: &Objects) -> Result<()> {
    let got = if target == Path::new("-") {
        let mut output = io::stdout();
        let got = objects.get(name, &mut |data| output.write_all(data))?;
        output.flush()?;
        got
    } else {
        if fs::symlink_metadata(target).is_ok() {
            bail!("{} exists already: move it away, or choose another name", target.display());
        }
        let folder = target.parent().unwrap_or(Path::new(""));
        if !folder.as_os_str().is_empty() && !folder.is_dir() {
            bail!("the folder {} does not exist: make it with `mkdir -p`", folder.display());
        }
        let mut unfinished = Unfinished::in_folder(folder)?;
        let got = objects.get(name, &mut |data| unfinished.file.write_all(data))?;
        unfinished.publish(target).with_context(|| already_there(target))?;
        sync_folder(folder)?;
        got
    };
    let Got { damaged, passed_over, version, .. } = got;
    for damage in damaged {
        eprintln!("weft: {damage}; the others were used");
    }
    if let Some(newer) = passed_over {
        eprintln!("weft: version {newer} was never completed, so this is version {version}");
    }
    Ok(())
}

/// Removes each that can be, and says of each other why not.
fn rm(names: &[String], objects: &Objects) -> Result<()> {
    let mut failed: Option<anyhow::Error> = None;
    for name in names {
        if let Err(error) = objects.remove(name)
            && let Some(before) = failed.replace(error.into())
        {
            eprintln!("weft: {}", render::sentence(&before));
        }
    }
    failed.map_or(Ok(()), Err)
}

#[derive(Serialize)]
struct LsAnswer {
    objects: Vec<LsObject>,
    /// Members that did not answer: what only they know is not listed.
    silent: usize,
}

#[derive(Serialize)]
struct LsObject {
    name: String,
    bytes: u64,
    version: String,
    put_ms: u64,
}

fn ls(prefix: &str, objects: &Objects, printed: Output) -> Result<()> {
    let listing = objects.list(prefix)?;
    let answer = |ListedName { name, stamp, bytes }: ListedName| {
        let stamp = weft_format::records::Stamp(stamp);
        LsObject { name, bytes: bytes.unwrap_or(0), version: stamp.to_string(), put_ms: stamp.at_ms() }
    };
    let silent = listing.silent;
    let answer = LsAnswer { objects: listing.objects.into_iter().map(answer).collect(), silent };
    if printed.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
    } else {
        let row = |line: &LsObject| vec![render::bytes(line.bytes), render::line(&line.name)];
        print!("{}", render::table(&answer.objects.iter().map(row).collect::<Vec<_>>(), &[0]));
    }
    if silent > 0 {
        eprintln!("weft: {} did not answer: what only they know is not listed", count(silent as u64, "member"));
    }
    Ok(())
}

#[derive(Serialize)]
struct StatAnswer {
    name: String,
    version: String,
    put_ms: u64,
    bytes: u64,
    code: String,
    digest: String,
    record_copies: usize,
    /// Of each segment: the number of shards that were found, and of all.
    shards: Vec<(usize, usize)>,
    at_alternates: usize,
    silent: usize,
}

fn stat(name: &str, objects: &Objects, printed: Output) -> Result<()> {
    let Stat { name, version, bytes, code, digest, record_copies, shards, at_alternates, silent } =
        objects.stat(name)?;
    let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    let put_ms = version.at_ms();
    let answer = StatAnswer {
        name,
        version: version.to_string(),
        put_ms,
        bytes,
        code,
        digest,
        record_copies,
        shards,
        at_alternates,
        silent,
    };
    if printed.json {
        println!("{}", serde_json::to_string_pretty(&answer)?);
        return Ok(());
    }
    let (found, all) = answer.shards.iter().fold((0, 0), |(found, all), (of, n)| (found + of, all + n));
    println!("{}", render::line(&answer.name));
    println!("  version  {}", answer.version);
    println!("  size     {}", render::bytes(answer.bytes));
    println!("  code     {}", answer.code);
    println!("  BLAKE3   {}", answer.digest);
    println!("  shards   {found} of {all} found in {}", count(answer.shards.len() as u64, "segment"));
    println!("  record   at {}", count(answer.record_copies as u64, "member"));
    if silent > 0 {
        println!("  {} did not answer", count(silent as u64, "member"));
    }
    Ok(())
}
