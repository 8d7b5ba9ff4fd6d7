//! Single steps of code with threads and files, for a simulation that tries every order of them and a crash at each.
//!
//! Code with real threads takes its locks from [`crate::sync`], where each is a step, and says here what only it knows: which bytes are
//! durable, and which bounds may be small. All of it costs nothing in a program without the feature `planted`.

use std::cell::RefCell;
use std::path::Path;
use std::rc::Rc;

/// Who sees the steps of the calling thread.
pub trait Steps {
    /// Another fibre may run here, and the process may die here.
    fn step(&self);

    /// The bytes of this file are durable. The process may die just before, and no other fibre runs here.
    fn synced(&self, file: &Path);

    /// The names in this folder are durable. As [`Self::synced`].
    fn names_synced(&self, folder: &Path);

    /// Does a transaction that is about to end find room on the disk?
    fn has_room(&self) -> bool;

    /// How much a bound of `usual` is in this simulation, so that a short history reaches it.
    fn bound(&self, usual: u64) -> u64;
}

thread_local! {
    static STEPS: RefCell<Option<Rc<dyn Steps>>> = const { RefCell::new(None) };
}

/// `steps` sees those of the calling thread from now on, or nobody.
pub fn set(steps: Option<Rc<dyn Steps>>) {
    STEPS.with(|own| *own.borrow_mut() = steps);
}

#[inline]
fn current() -> Option<Rc<dyn Steps>> {
    if !cfg!(feature = "planted") {
        return None;
    }
    // A thread that ends may have lost it before it drops what asks here.
    STEPS.try_with(|steps| steps.borrow().clone()).ok().flatten()
}

/// Does anybody see the steps of the calling thread?
#[inline]
#[must_use]
pub fn are_seen() -> bool {
    current().is_some()
}

/// Another fibre may run here, and the process may die here.
#[inline]
pub fn step() {
    if let Some(steps) = current() {
        steps.step();
    }
}

/// The bytes of this file are durable.
#[inline]
pub fn synced(file: &Path) {
    if let Some(steps) = current() {
        steps.synced(file);
    }
}

/// The names in this folder are durable.
#[inline]
pub fn names_synced(folder: &Path) {
    if let Some(steps) = current() {
        steps.names_synced(folder);
    }
}

/// Does a transaction that is about to end find room on the disk? A simulation may say no; elsewhere the disk does.
#[inline]
#[must_use]
pub fn has_room() -> bool {
    current().is_none_or(|steps| steps.has_room())
}

/// A bound that a simulation may make smaller.
#[inline]
#[must_use]
pub fn bound(usual: u64) -> u64 {
    current().map_or(usual, |steps| steps.bound(usual))
}
