//! What people do with a volume while programs use it: each command is a process of its own beside the mount and the workers.

use crate::ambush::ProcessId;
use crate::checks::STEPS_TO_HEAL;
use crate::meddling::COMMON;
use crate::metadata::{MetadataDisk, place_of};
use crate::scheduler::{env_of, running};
use crate::weights::chosen;
use crate::world::{CODES, KEEP_MS, Places, World, node_record, transfer};
use std::sync::Arc;
use weft_care::collect::{self, Beside, UnreferencedSince};
use weft_care::lease::alone;
use weft_care::record::Requests;
use weft_care::{CareError, Catalogue, Job, openings, scrub};
use weft_engine::{StoreCatalogue, nodes};
use weft_env::{Env, Runtime};
use weft_format::records::{NodeRecord, NodeState};
use weft_format::{Ino, NodeId};
use weft_meta::{Deleted, MetaError, Store};
use weft_nodes::NodeUrl;
use weft_nodes::memory::ABOUT;
use weft_vfs::{VfsError, Volume};

/// A node is emptied where more than these are active, as many as the longest code has shards.
const CODE_SHARDS_MAX: usize = 4;
/// How often people try to replace a node.
const REPLACED_MAX: usize = 20;
/// The most deleted files that people look at at once.
const DELETED_MAX: usize = 100;
/// The most places of a volume.
const PLACES_MAX: usize = 8;

/// A command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// `weft node drain`: a node is emptied.
    Drain,
    /// The same, with perhaps too few nodes left to take what it has.
    DrainOneOfFew,
    /// `weft node drain --undo`.
    Restore,
    /// `weft node replace`: a new place takes a node's name.
    Replace,
    /// The same of a node that lost its disk.
    ReplaceWiped,
    /// `weft node add`.
    Add,
    /// `weft policy set` on a program's directory or a file of it, with conversion.
    Policy,
    /// The conversion that `weft policy set` asks for.
    Convert,
    /// `weft care pause`, `resume`, `cancel`.
    Pause,
    /// See there.
    Resume,
    /// See there.
    Cancel,
    /// `weft gc` beside a mount.
    Collect,
    /// `weft scrub`.
    Scrub,
    /// `weft trash keep`: for how long deleted files are kept.
    Keep,
    /// `weft trash restore` of something that was deleted in the directory of all.
    RestoreDeleted,
    /// `weft trash empty`.
    EmptyTrash,
}

/// How often each is given beside the others. Policies are what conversions come from.
const WEIGHTS: [(Command, u64); 13] = [
    (Command::Drain, 2),
    (Command::Restore, 1),
    (Command::Replace, 2),
    (Command::Add, 2),
    (Command::Policy, 8),
    (Command::Pause, 1),
    (Command::Resume, 2),
    (Command::Cancel, 1),
    (Command::Collect, 3),
    (Command::Scrub, 2),
    (Command::Keep, 2),
    (Command::RestoreDeleted, 4),
    (Command::EmptyTrash, 2),
];

impl World {
    /// People replace what lost its disk, and try again if that fails. It is a complaint if they cannot.
    pub(crate) fn replace_what_was_wiped(&mut self) {
        let is_to_be_replaced = |world: &Self| world.places.all().iter().any(|place| place.is_to_be_replaced());
        for _ in 0..REPLACED_MAX {
            if !is_to_be_replaced(self) {
                return;
            }
            let (command, scheduler) = (self.command(Command::ReplaceWiped), self.scheduler.clone());
            if self.wait("replacing what lost its disk", STEPS_TO_HEAL, || !scheduler.is_alive(command)).is_err() {
                break;
            }
        }
        if is_to_be_replaced(self) {
            self.programs.complain("what lost its disk cannot be replaced".into());
        }
    }

    /// Gives one of the commands.
    pub fn give_command(&mut self) {
        let command = chosen(&WEIGHTS, |end| self.below(end));
        self.scheduler.tell(|| format!("people: {command:?}"));
        match command {
            Command::Policy => self.set_policy(),
            Command::RestoreDeleted | Command::EmptyTrash => self.use_trash(command),
            _ => drop(self.command(command)),
        }
    }

    /// Gives a command in a process of its own.
    pub fn command(&mut self, command: Command) -> ProcessId {
        let process = self.command_on(&self.disk.clone(), command);
        self.commands.push(process);
        process
    }

    /// Gives a command to the metadata on this disk.
    pub(crate) fn command_on(&mut self, disk: &Arc<MetadataDisk>, command: Command) -> ProcessId {
        let process = self.new_process();
        let (env, runtime) = env_of(process);
        let (disk, places) = (disk.clone(), self.places.clone());
        self.scheduler.start(process, "command", move || {
            match perform(command, &disk, &places, process, &env, &runtime) {
                Ok(()) => running().tell(|| format!("{command:?} is done")),
                Err(why) => running().tell(|| format!("{command:?}: {why}")),
            }
            running().kill(process);
        });
        process
    }

    /// The mount restores or purges what was deleted, as `weft trash` has it do.
    fn use_trash(&self, command: Command) {
        let Some(mount) = &self.mount else { return };
        let Some(volume) = mount.volume.lock().clone() else { return };
        self.scheduler.start(mount.process, "trash", move || {
            let use_it = || -> Result<(), VfsError> {
                let kept = volume.store().deleted(None, DELETED_MAX)?;
                match command {
                    Command::RestoreDeleted => restore_deleted(&volume, &kept),
                    _ => kept.iter().try_for_each(|kept| volume.purge(kept.deleted_ms, kept.attributes.ino)),
                }
            };
            match use_it() {
                Ok(()) => running().tell(|| format!("{command:?} is done")),
                Err(why) => running().tell(|| format!("{command:?}: {why}")),
            }
        });
    }

    /// The mount sets a policy, as `weft policy set` has it do.
    pub(crate) fn set_policy(&self) {
        let Some(mount) = &self.mount else { return };
        let Some(volume) = mount.volume.lock().clone() else { return };
        let code = CODES[self.below(CODES.len() as u64) as usize];
        let program = self.below(self.programs.models.len() as u64);
        let is_file = self.chance(500);
        self.scheduler.start(mount.process, "policy", move || {
            let set = || -> Result<(), String> {
                let name = format!("program{program}");
                let directory = volume.lookup(Ino::ROOT, name.as_bytes()).map_err(|error| error.to_string())?.ino;
                let file = volume.lookup(directory, b"a").ok().filter(|_| is_file);
                let ino = file.as_ref().map_or(directory, |file| file.ino);
                let text = format!("{code} segment 1MiB");
                let set = volume.set_policy(ino, &text).map_err(|error| error.to_string());
                if let Some(file) = file {
                    volume.forget(file.ino, 1);
                }
                volume.forget(directory, 1);
                set?;
                let catalogue = StoreCatalogue::new(volume.store().clone());
                request(&catalogue, |requests| requests.convert_count += 1)
            };
            if let Err(why) = set() {
                running().tell(|| format!("the policy {code}: {why}"));
            }
        });
    }
}

/// Something of the directory of all, chosen at random, gets its name back.
fn restore_deleted(volume: &Volume, kept: &[Deleted]) -> Result<(), VfsError> {
    let common = volume.lookup(Ino::ROOT, COMMON.as_bytes())?.ino;
    volume.forget(common, 1);
    let of_all: Vec<&Deleted> = kept.iter().filter(|kept| kept.parent == common).collect();
    match of_all.get(running().below(of_all.len() as u64) as usize) {
        Some(kept) => volume.restore(kept.deleted_ms, kept.attributes.ino).map(|restored| {
            running().tell(|| format!("{} has its name again", restored.attributes.ino));
        }),
        None => Ok(()),
    }
}

fn request(catalogue: &dyn Catalogue, change: impl Fn(&mut Requests)) -> Result<(), String> {
    Requests::change(catalogue, change).map_err(|error| error.to_string())
}

fn perform(
    command: Command,
    disk: &Arc<MetadataDisk>,
    places: &Places,
    process: ProcessId,
    env: &Env,
    runtime: &Runtime,
) -> Result<(), String> {
    let store = Arc::new(Store::open(disk.share(process, env), env).map_err(|error| error.to_string())?);
    let catalogue = StoreCatalogue::new(store.clone());
    let job = Job::new(&env.clock);
    match command {
        Command::Drain if active(&store).map_err(|error| error.to_string())?.len() <= CODE_SHARDS_MAX => Ok(()),
        Command::Drain | Command::DrainOneOfFew => change_node(&store, places, NodeState::Active, NodeState::Draining),
        Command::Restore => change_node(&store, places, NodeState::Draining, NodeState::Active),
        Command::Add => add(&store, places).map(drop).map_err(|error| error.to_string()),
        Command::Replace => replace(&store, places).map_err(|error| error.to_string()),
        Command::ReplaceWiped => replace_wiped(&store, places).map_err(|error| error.to_string()),
        Command::Convert => request(&catalogue, |requests| requests.convert_count += 1),
        Command::Pause => request(&catalogue, |requests| requests.is_paused = true),
        Command::Resume => request(&catalogue, |requests| requests.is_paused = false),
        Command::Cancel => request(&catalogue, |requests| requests.cancel_count += 1),
        Command::Keep => {
            let keep_ms = KEEP_MS[running().below(KEEP_MS.len() as u64) as usize];
            store.set_keep_ms(keep_ms).and_then(|()| store.flush()).map_err(|error| error.to_string())
        }
        Command::Policy | Command::RestoreDeleted | Command::EmptyTrash => Err(format!("{command:?} is the mount's")),
        Command::Collect | Command::Scrub => {
            let transfer = transfer(&store, places, process, runtime).map_err(|error| error.to_string())?;
            let catalogue: Arc<dyn Catalogue> = Arc::new(catalogue);
            let now_ms = env.clock.unix_ms();
            let unreferenced_since = UnreferencedSince::default();
            let work = async {
                if command == Command::Scrub {
                    let options = scrub::Options::default();
                    scrub::scrub(catalogue.clone(), &transfer, &job, options, now_ms, |_| ()).await?;
                } else {
                    let in_use = Some(Beside { unreferenced_since: &unreferenced_since, at_ms: 0 });
                    let options = collect::Options { grace_ms: 0, in_use, dry_run: false };
                    collect::collect(catalogue.clone(), &transfer, &job, options, now_ms).await?;
                }
                Ok::<(), CareError>(())
            };
            let guarded = openings::guarded(&*catalogue, &transfer, &job, work);
            let holder = format!("{process:?}");
            let done = runtime.block_on(alone(&*catalogue, &holder, &job, |_| (), guarded));
            done.map_err(|error| error.to_string())
        }
    }
}

fn active(store: &Store) -> Result<Vec<(NodeId, NodeRecord)>, MetaError> {
    Ok(store.nodes()?.into_iter().filter(|(_, node)| node.state == NodeState::Active).collect())
}

/// Those that people can empty: one that lost its disk is for [`replace_wiped`].
fn with_disks(store: &Store, places: &Places) -> Result<Vec<(NodeId, NodeRecord)>, MetaError> {
    let (all, mut nodes) = (places.all(), store.nodes()?);
    nodes.retain(|(id, _)| !all[place_of(*id)].is_to_be_replaced());
    Ok(nodes)
}

/// A node goes from one state to another.
fn change_node(store: &Store, places: &Places, from: NodeState, to: NodeState) -> Result<(), String> {
    let change = || -> Result<(), MetaError> {
        let nodes = with_disks(store, places)?;
        // A node that another has taken the name of is emptied for good.
        let fit = |(id, node): &&(NodeId, NodeRecord)| node.state == from && !nodes::is_replaced(*id, node);
        let fitting: Vec<_> = nodes.iter().filter(fit).collect();
        let Some((id, old)) = fitting.get(running().below(fitting.len() as u64) as usize) else { return Ok(()) };
        store.update_node(*id, old, &NodeRecord { state: to, ..old.clone() })?;
        store.flush()
    };
    change().map_err(|error| error.to_string())
}

fn add(store: &Store, places: &Places) -> Result<Option<(NodeId, NodeRecord)>, MetaError> {
    if places.all().len() >= PLACES_MAX {
        return Ok(None);
    }
    let identity = places.add().known_as();
    let record = node_record(place_of(identity.node) as u32);
    store.add_node(identity.node, &record)?;
    store.flush()?;
    Ok(Some((identity.node, record)))
}

/// New places take the names of nodes that lost their disks. One that was to be emptied for another is given up.
fn replace_wiped(store: &Store, places: &Places) -> Result<(), MetaError> {
    for place in places.all().into_iter().filter(|place| place.is_to_be_replaced()) {
        let id = place.known_as().node;
        let found = store.nodes()?.into_iter().find(|(known, _)| *known == id);
        match found {
            Some((_, old)) if old.state == NodeState::Lost || nodes::is_replaced(id, &old) => {
                store.update_node(id, &old, &NodeRecord { state: NodeState::Lost, ..old.clone() })?;
                store.flush()?;
            }
            Some((_, old)) => {
                let identity = places.add().known_as();
                let fresh = node_record(place_of(identity.node) as u32);
                let lost = nodes::lost(id, &old, &NodeUrl::elsewhere(ABOUT.name, fresh.url.clone()));
                let new = NodeRecord { url: fresh.url, state: NodeState::Active, ..old.clone() };
                nodes::succeed(store, (id, &old), &lost, (identity.node, &new))?;
            }
            None => {}
        }
        place.was_replaced();
    }
    Ok(())
}

fn replace(store: &Store, places: &Places) -> Result<(), MetaError> {
    let mut active = with_disks(store, places)?;
    active.retain(|(_, node)| node.state == NodeState::Active);
    let Some((old_id, old)) = active.get(running().below(active.len() as u64) as usize) else { return Ok(()) };
    if places.all().len() >= PLACES_MAX {
        return Ok(());
    }
    let identity = places.add().known_as();
    let fresh = node_record(place_of(identity.node) as u32);
    let new = NodeRecord { url: fresh.url, ..old.clone() };
    nodes::succeed(store, (*old_id, old), &nodes::emptied(*old_id, old), (identity.node, &new)).map(drop)
}
