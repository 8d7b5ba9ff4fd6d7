//! `weft policy get|set META [/DIR]`: how what is made in a directory is protected.

use crate::compose;
use crate::tree;
use anyhow::{Result, bail};
use serde::Serialize;
use std::path::PathBuf;
use weft_format::records::Kind;

#[derive(Debug, clap::Subcommand)]
pub enum Arguments {
    /// Say how what is made in a directory is protected
    Get {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Directory in the volume
        #[arg(value_name = "/DIR", default_value = "/")]
        directory: PathBuf,
        /// For programs
        #[arg(long)]
        json: bool,
    },
    /// Protect what is made in a directory from now on by this code; what is in it stays as it is
    Set {
        /// Metadata file of the volume
        meta: PathBuf,
        /// Directory in the volume
        #[arg(value_name = "/DIR")]
        directory: PathBuf,
        /// As `weft codes list` has them: rs:4+2, raid6:6, replica:3
        #[arg(value_name = "CODE")]
        code: String,
    },
}

#[derive(Serialize)]
struct Answer {
    path: PathBuf,
    policy: String,
    nodes: usize,
    tolerance: usize,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    match arguments {
        Arguments::Get { meta, directory, json } => {
            let path = tree::volume_path(directory)?;
            let volume = tree::open(meta)?;
            tree::require(&*volume, &path)?;
            let policy = volume.policy(&path)?;
            volume.close()?;
            if *json {
                let code = compose::code(&policy)?;
                let answer = Answer { path, policy, nodes: code.shape().n, tolerance: code.shape().tolerance };
                println!("{}", serde_json::to_string_pretty(&answer)?);
            } else {
                println!("{policy}");
            }
        }
        Arguments::Set { meta, directory, code } => {
            let code = compose::code(code)?;
            let path = tree::volume_path(directory)?;
            compose::require_nodes(meta, &compose::open_shared(meta)?, code.spec())?;
            let volume = tree::open(meta)?;
            if tree::require(&*volume, &path)?.kind != Kind::Directory {
                bail!("{} is no directory: policies are set on directories", path.display());
            }
            volume.set_policy(&path, code.spec())?;
            volume.close()?;
        }
    }
    Ok(())
}
