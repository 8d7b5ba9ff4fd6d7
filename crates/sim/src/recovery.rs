//! The metadata's disk is lost, with a place or without, and the volume goes on with what its nodes have of the metadata: as `weft recover`
//! does it.

use crate::ambush::ProcessId;
use crate::checks::STEPS_TO_HEAL;
use crate::metadata::{MetadataDisk, place_of};
use crate::model::Loss;
use crate::node::SimNode;
use crate::place::Condition;
use crate::place::http::looked_for;
use crate::scheduler::env_of;
use crate::world::{Places, VOLUME, World, node_record, persistently, transfer};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use weft_engine::EngineError;
use weft_engine::copies::{look_for_shards, take_opening};
use weft_engine::replica::{NewestState, reach_nodes};
use weft_env::{Env, Runtime};
use weft_format::records::{NodeRecord, PlacementRule, is_replica};
use weft_format::{NodeId, SegmentId};
use weft_meta::{MetaError, Store};
use weft_transfer::{Fleet, Settings, Transfer};

/// A node that has lost a message is waited for no longer than this, and then the replica goes on.
const CALM: Duration = Duration::from_secs(320);
const STEPS_OF_CALM: u64 = 400_000;
/// The replica is about a second behind.
const BEHIND: Duration = Duration::from_secs(5);

impl World {
    /// The metadata's disk is lost, and the machine with it. Everything that happened some seconds before is there again, and in step
    /// everything.
    pub fn lose_metadata(&mut self) {
        self.replace_what_was_wiped();
        if !self.is_replica_kept() || self.chance(500) {
            self.call_off_ambush();
            self.places.all().iter().for_each(|place| place.heal());
            self.idle(CALM, STEPS_OF_CALM);
            let durable: Vec<_> = self.programs.models.iter().map(|model| model.lock().durable()).collect();
            self.idle(BEHIND, STEPS_OF_CALM);
            if !self.is_replica_kept() {
                return;
            }
            self.programs.models.iter().zip(&durable).for_each(|(model, durable)| model.lock().on_nodes_is(durable));
        }
        self.kill_mount();
        let recovered = self.recover();
        if let Err(complaint) = recovered {
            return self.programs.complain(complaint);
        }
        self.start_mount();
        (0..self.plan.workers).for_each(|_| self.start_worker());
    }

    /// Is there a mount that has had time to keep the replica?
    fn is_replica_kept(&self) -> bool {
        let Some(mount) = &self.mount else { return false };
        let is_old = self.scheduler.now() - mount.since >= CALM;
        is_old && !self.scheduler.is_paused(mount.process) && self.scheduler.is_calm(mount.process, CALM)
    }

    /// The metadata and all processes are gone. It is rebuilt from the nodes; all but one answer, if each piece is on two.
    ///
    /// # Errors
    /// It cannot be rebuilt.
    pub fn recover(&mut self) -> Result<(), String> {
        let scheduler = self.scheduler.clone();
        while !self.workers.is_empty() {
            self.kill_worker(0);
        }
        self.commands.drain(..).for_each(|command| scheduler.kill(command));
        let store = Store::open(Arc::new(self.disk.durable()), &Env::system()).map_err(|error| error.to_string())?;
        let mut nodes: Vec<NodeId> =
            store.nodes().map_err(|error| error.to_string())?.into_iter().map(|(id, _)| id).collect();
        nodes.retain(|node| !self.places.all()[place_of(*node)].is_wiped());
        let away = (self.has_two_copies(&nodes) && self.chance(700))
            .then(|| nodes.swap_remove(self.below(nodes.len() as u64) as usize));
        self.disk.lose();
        let away = away.map(|node| self.places.all()[place_of(node)].clone());
        scheduler.tell(|| {
            format!("the metadata's disk is lost, and away is {:?}", away.as_ref().map(|place| place.name().to_owned()))
        });
        self.places.all().iter().for_each(|place| place.heal());
        away.iter().for_each(|place| place.set_condition(Condition::Down));
        let process = self.new_process();
        let (env, runtime) = env_of(process);
        let (disk, places, done) = (self.disk.clone(), self.places.clone(), Arc::new(Mutex::new(false)));
        let told = done.clone();
        scheduler.start(process, "recover", move || {
            persistently(&*env.clock, "the metadata cannot be rebuilt", || {
                rebuild(&disk, &places, &nodes, process, &env, &runtime).inspect_err(|_| disk.lose())
            });
            *told.lock() = true;
        });
        self.wait("rebuilding the metadata", STEPS_TO_HEAL, || *done.lock())?;
        scheduler.kill(process);
        self.disk.disown();
        away.iter().for_each(|place| place.heal());
        // The book of addresses was beside the metadata.
        self.places.all().iter().for_each(looked_for);
        *self.loss.lock() = Loss::MetadataDisk;
        self.has_recovered = true;
        Ok(())
    }

    /// Where there is a replica: is each piece of it on two nodes?
    pub(crate) fn has_replica_twice(&self) -> bool {
        if self.plan.replica.is_none() {
            return true;
        }
        let nodes = Store::open(Arc::new(self.disk.durable()), &Env::system()).and_then(|store| store.nodes());
        let nodes = nodes.map(|nodes| nodes.into_iter().map(|(id, _)| id).collect::<Vec<NodeId>>());
        nodes.is_ok_and(|nodes| self.has_two_copies(&nodes))
    }

    /// Is each piece of a replica on two places of these nodes?
    fn has_two_copies(&self, nodes: &[NodeId]) -> bool {
        let mut counts: BTreeMap<SegmentId, u64> = BTreeMap::new();
        for place in nodes.iter().map(|node| self.places.all()[place_of(*node)].clone()) {
            for key in place.sound_keys().into_iter().filter(|key| is_replica(key.segment)) {
                *counts.entry(key.segment).or_default() += 1;
            }
        }
        counts.values().all(|count| *count >= 2)
    }
}

fn rebuild(
    disk: &Arc<MetadataDisk>,
    places: &Places,
    nodes: &[NodeId],
    process: ProcessId,
    env: &Env,
    runtime: &Runtime,
) -> Result<(), String> {
    let all = places.all();
    let record = |node: &NodeId| (*node, node_record(place_of(*node) as u32));
    let found: Vec<(NodeId, NodeRecord)> = nodes.iter().map(record).collect();
    let seen = |node: NodeId| SimNode::seen_by(all[place_of(node)].clone(), process);
    let members = found.iter().map(|(node, record)| (*node, record.clone(), seen(*node)));
    let fleet = Arc::new(Fleet::new(members.collect(), PlacementRule::default(), env));
    let asked = Transfer::new(VOLUME, fleet, Settings::default(), runtime);
    let rebuilt = || -> Result<(), EngineError> {
        let state = runtime.block_on(NewestState::find(&asked))?;
        for piece in state.pieces() {
            let slots = runtime.block_on(state.read(&asked, piece)).map_err(EngineError::Place)?;
            disk.load(slots).map_err(MetaError::from)?;
        }
        let kv = disk.own(process, env).ok_or_else(|| MetaError::InUse("another owner".into()))?;
        let store = Store::open(kv, env)?;
        reach_nodes(&store, &found)?;
        let transfer = transfer(&store, places, process, runtime)?.in_background();
        runtime.block_on(take_opening(&store, &transfer))?;
        runtime.block_on(look_for_shards(&store, &transfer))?;
        Ok(store.flush()?)
    };
    rebuilt().map_err(|error| error.to_string())
}
