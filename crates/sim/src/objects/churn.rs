//! Members that come while the others run, and members that leave for good.

use super::line::Machine;
use super::{VOLUME, World};
use weft_format::NodeId;

/// No fewer members than this, so that the others have places for what one had.
pub const MEMBERS_MIN: usize = 7;
/// No more come than this.
const MEMBERS_MAX: usize = 10;

impl World {
    pub(super) fn join(&mut self) {
        if self.machines.present().len() >= MEMBERS_MAX {
            return;
        }
        let position = self.machines.all().len();
        let id = NodeId(position as u128 + 1);
        self.scheduler.tell(|| format!("m{} joins", id.0));
        self.machines.add(Machine::new(id, VOLUME, Some(self.scheduler.now())));
        self.start_member(position);
    }

    /// What it had is lost, as by any trouble of a member: the others have time to restore it.
    pub(super) fn leave(&mut self) {
        if !self.may_strike_member() {
            return;
        }
        self.call_off_ambush();
        self.faults += 1;
        let (position, says_so) = (self.a_member(), self.scheduler.chance(500));
        let machine = self.machines.at(position);
        self.scheduler.tell(|| format!("m{} {}", machine.id.0, if says_so { "says farewell" } else { "dies" }));
        self.scheduler.kill(machine.leave(says_so));
        if self.machines.present().len() < MEMBERS_MIN || self.scheduler.chance(300) {
            self.join();
        }
        self.calm_since = self.scheduler.now();
    }
}
