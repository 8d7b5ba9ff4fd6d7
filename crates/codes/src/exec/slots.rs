//! Temporaries that are not needed at the same time share a place, so that all of them stay in cache.

use super::arch::Step;
use crate::work::spend;
use alloc::vec;
use alloc::vec::Vec;

/// Which places are taken.
#[derive(Default)]
struct Places {
    is_taken: Vec<bool>,
    /// All places below are taken.
    least_free: usize,
}

impl Places {
    /// Takes the first `count` free places in a row.
    fn take(&mut self, count: usize) -> usize {
        let mut first = self.least_free;
        let mut free = 0;
        while free < count {
            spend(1);
            if self.is_taken.get(first + free).copied().unwrap_or(false) {
                first += free + 1;
                free = 0;
            } else {
                free += 1;
            }
        }
        self.is_taken.resize(self.is_taken.len().max(first + count), false);
        self.is_taken[first..first + count].fill(true);
        while self.is_taken.get(self.least_free).copied().unwrap_or(false) {
            self.least_free += 1;
        }
        first
    }

    fn give_back(&mut self, place: usize) {
        self.is_taken[place] = false;
        self.least_free = self.least_free.min(place);
    }
}

/// The same steps with temporaries renumbered by place, and the number of places. The first `given_count` symbols are
/// given, temporaries follow. A result that is computed from temporaries takes their places if nothing else reads them.
pub(super) fn share(given_count: usize, temporary_count: usize, steps: Vec<Step>) -> (Vec<Step>, usize) {
    // Such as programs of many thousand sums that go straight into outputs.
    if temporary_count == 0 {
        return (steps, 0);
    }
    let mut last_use = vec![0; temporary_count];
    for (index, step) in steps.iter().enumerate() {
        for id in step.reads().chain(step.writes()).filter(|&id| id >= given_count) {
            last_use[id - given_count] = index;
        }
    }
    let mut places = Places::default();
    let mut place_of = vec![0; temporary_count];
    let mut shared = Vec::with_capacity(steps.len());
    // Lists of a step's temporaries, allocated once.
    let [mut read, mut written, mut ending, mut apart] = [const { Vec::new() }; 4];
    for (index, mut step) in steps.into_iter().enumerate() {
        spend(step.access_count());
        if step.ids_end() <= given_count {
            shared.push(step);
            continue;
        }
        let temporaries = |list: &mut Vec<usize>, ids: &mut dyn Iterator<Item = usize>| {
            list.clear();
            list.extend(ids.filter(|&id| id >= given_count).map(|id| id - given_count));
        };
        temporaries(&mut read, &mut step.reads());
        temporaries(&mut written, &mut step.writes());
        ending.clear();
        ending.extend(read.iter().copied().filter(|&id| last_use[id] == index));
        ending.sort_unstable();
        ending.dedup();
        let is_internal = read.len() + written.len() == step.access_count();
        apart.clear();
        apart.extend(&written);
        if is_internal && ending.len() == read.len() {
            written.iter().zip(&read).for_each(|(&to, &from)| place_of[to] = place_of[from]);
            apart.drain(..read.len().min(written.len()));
            ending.clear();
            ending.extend(read.iter().skip(written.len()));
        }
        apart.sort_unstable();
        for row in apart.chunk_by(|a, b| a + 1 == *b) {
            let first = places.take(row.len());
            row.iter().enumerate().for_each(|(offset, &id)| place_of[id] = first + offset);
        }
        ending.extend(written.iter().copied().filter(|&id| last_use[id] == index));
        let place = |id: usize| if id < given_count { id } else { given_count + place_of[id - given_count] };
        match step.renumber(place) {
            true => shared.push(step),
            false => shared.extend(step.into_single().map(|mut single| {
                single.renumber(place);
                single
            })),
        }
        ending.iter().for_each(|&id| places.give_back(place_of[id]));
    }
    (shared, places.is_taken.len())
}

#[cfg(test)]
#[path = "slots_tests.rs"]
mod tests;
