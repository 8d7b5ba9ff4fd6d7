//! `weft quickstart DIR`: everything at once, so that a newcomer has something to play with.

use super::{format, mount, node};
use crate::care::count;
use crate::compose;
use crate::daemon::Outcome;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use weft_engine::MetaUrl;
use weft_engine::nodes::{NewNode, NodeTable, Place, root_code};
use weft_gateways::fuse::mounts;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft quickstart ./try")]
pub struct Arguments {
    /// Directory to make
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Code of all files; it decides how many folders are made [default: rs:4+2]
    #[arg(long, value_name = "CODE")]
    policy: Option<String>,
}

const DEFAULT_POLICY: &str = "rs:4+2";

/// Where the parts of a quickstart lie.
struct Layout {
    meta: MetaUrl,
    nodes: PathBuf,
    mountpoint: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let directory = &arguments.directory;
    let layout = Layout {
        meta: directory.join("meta.db").into(),
        nodes: directory.join("nodes"),
        mountpoint: directory.join("mnt"),
    };
    let is_new = !layout.meta.exists() || weft_engine::is_blank(&layout.meta, &weft_engine::Env::system());
    // Before anything is made.
    let policy = arguments.policy.as_deref().unwrap_or(DEFAULT_POLICY);
    let wanted = compose::code(policy)?;
    if is_new {
        make(&layout.nodes)?;
        format::format(&layout.meta, policy, None)?;
    }
    let (spec, tolerance, nodes) = add_nodes(&layout)?;
    if arguments.policy.is_some() && wanted.spec() != spec {
        let (directory, meta) = (directory.display(), layout.meta);
        bail!(
            "{directory} exists already, with policy {spec}: leave out --policy, or change it with `weft policy set {meta} / {policy}`"
        );
    }
    if is_new {
        println!(
            "Made {}: {} in {} make one volume now, and {} of them may be lost ({spec}).",
            directory.display(),
            count(nodes as u64, "folder"),
            layout.nodes.display(),
            if tolerance == 0 { "none".to_owned() } else { format!("any {tolerance}") },
        );
    } else {
        println!("{} exists already, with policy {spec}.", directory.display());
    }
    mount_it(&layout, tolerance)
}

fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))
}

/// Adds the nodes that are not there yet: all of them, or what an interrupted start has left out.
fn add_nodes(layout: &Layout) -> Result<(String, usize, usize)> {
    let code = root_code(&layout.meta)?;
    let shape = code.shape();
    let nodes = NodeTable::open(&layout.meta)?;
    let there = nodes.names()?;
    if there.len() < shape.n {
        make(&layout.nodes)?;
        let mountpoints = node::mountpoints(&layout.meta)?;
        for name in (1..=shape.n).map(|number| number.to_string()).filter(|name| !there.contains(name)) {
            let folder = layout.nodes.join(&name);
            let Some(folder) = folder.to_str() else { bail!("{} is not UTF-8: choose another name", folder.display()) };
            let place = Place { address: folder, key_file: None, mountpoints: &mountpoints };
            nodes.add(&NewNode { name: &name, place, domain: None, weight: None })?;
        }
    }
    Ok((code.spec().to_owned(), shape.tolerance, shape.n))
}

fn mount_it(layout: &Layout, tolerance: usize) -> Result<()> {
    let (meta, mountpoint) = (&layout.meta, &layout.mountpoint);
    let weft = program();
    let mounted = mounts::of_volume(meta)?.into_iter().find(|mount| !mount.is_dead());
    if let Some(mount) = mounted {
        println!("It is mounted at {}.", mount.mountpoint.display());
        return Ok(());
    }
    // A dead mount is a directory already, but cannot be looked at.
    if mounts::at(mountpoint)?.is_none() {
        make(mountpoint)?;
    }
    match mount::background(meta, mountpoint, &mount::How::default())? {
        Outcome::Failed(sentence) => bail!(sentence),
        Outcome::NoFuse(sentence) => {
            println!("It cannot be mounted: {sentence}.");
            println!("\nWithout a mount:");
            print_commands(&[
                (format!("{weft} put {} SOME-FOLDER /", meta), "copy something in"),
                (format!("{weft} ls -l {}", meta), "list the files"),
                (format!("{weft} get {} /SOME-FOLDER COPY", meta), "copy it out again"),
                (format!("{weft} status {}", meta), "see what is lost, and what else may be lost"),
            ]);
            return Ok(());
        }
        Outcome::Ready => {}
    }
    println!("It is mounted at {}: use it like any directory.\n\nTry:", mountpoint.display());
    let (meta, mnt) = (meta, mountpoint.display());
    let lost: Vec<String> = (2..).step_by(2).take(tolerance.min(2)).map(|number: usize| number.to_string()).collect();
    let folder = |name: &String| layout.nodes.join(name).display().to_string();
    let mut commands = vec![(format!("cp -r SOME-FOLDER {mnt}/"), "copy something in")];
    if !lost.is_empty() {
        let folders: Vec<String> = lost.iter().map(folder).collect();
        commands.push((format!("rm -rf {}", folders.join(" ")), "lose as many folders as the code survives"));
        commands.push((format!("diff -r SOME-FOLDER {mnt}/SOME-FOLDER"), "see that everything is still there"));
    }
    commands.push((format!("{weft} status {meta}"), "see what is lost, and what else may be lost"));
    commands.push((format!("{weft} care status {meta}"), "some seconds later: the lost shards are rebuilt"));
    commands.push((format!("{weft} umount {mnt}"), "unmount; run quickstart again to mount again"));
    print_commands(&commands);
    Ok(())
}

/// This program as the user can call it again: by the path it was called by, where that was a path.
fn program() -> String {
    let called = std::env::args().next().unwrap_or_default();
    if called.contains('/') { called } else { "weft".into() }
}

fn print_commands(commands: &[(String, &str)]) {
    let width = commands.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    for (command, what) in commands {
        println!("  {command:<width$}  # {what}");
    }
}
