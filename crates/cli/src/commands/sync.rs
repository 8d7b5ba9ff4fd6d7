//! `weft sync DIR`: waits until everything written to a mount is on the nodes. sync(2) does not: Linux tells no FUSE file system of it.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use weft_engine::files::FolderTree;
use weft_gateways::fuse::{self, MountError};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft sync /mnt/drive")]
pub struct Arguments {
    /// Where the volume is mounted
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let Some(mount) = fuse::mounts::at(&arguments.directory)? else {
        bail!(MountError::NotMounted(arguments.directory.clone()));
    };
    let directory = mount.mountpoint.display();
    if !mount.is_ours() {
        bail!("{directory} is a mount of another file system ({}): `sync -f {directory}` is for it", mount.kind);
    }
    let why = || format!("not everything of {directory} is on the nodes; its log and `weft status` say why");
    FolderTree::of_mount(mount.mountpoint.clone()).and_then(|tree| tree.sync()).with_context(why)
}
