//! The kinds of nodes that this program has: the one place where they are put together.

use std::sync::Arc;
use weft_daemon::{AddressBook, Daemons};
use weft_env::Env;
use weft_meta::{MetaUrl, Store};
use weft_nodes::{Kind, Kinds};
use weft_vfs::open::Opener;

/// All of them, the nearest first.
#[must_use]
pub fn kinds() -> Kinds {
    with_daemons(Daemons::new(&Env::system()))
}

/// The same for the volume with the metadata at `meta`: moved daemons are followed, and their addresses are kept beside
/// the metadata. With `short_circuit` shards of daemons on this machine are read past them.
pub(crate) fn kinds_of(meta: Option<&MetaUrl>, short_circuit: bool, env: &Env) -> Kinds {
    let file = meta.map(|meta| meta.note_file("-addresses"));
    let book = if short_circuit { AddressBook::with_short_circuit(file, env) } else { AddressBook::new(file, env) };
    with_daemons(Daemons::followed(book, env))
}

/// Opens the nodes of the volume in `store`.
#[must_use]
pub fn opener(store: &Store) -> Opener {
    Opener::new(kinds_of(store.url(), false, store.env()))
}

fn with_daemons(daemons: Daemons) -> Kinds {
    let daemons: Arc<dyn Kind> = Arc::new(daemons);
    Kinds::new(weft_nodes::kinds::local().into_iter().chain([daemons]).chain(weft_nodes::foreign::kinds()).collect())
}
