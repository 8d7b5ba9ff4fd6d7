//! A value that is made on first use, without the standard library. Threads that come at the same time may each make
//! one; the first to finish is kept.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};

/// As the standard library's type of this name, as far as this crate needs it.
pub(crate) struct OnceLock<T> {
    value: AtomicPtr<T>,
    /// Owns a `T`, for the drop check and for `Send` and `Sync`.
    owned: PhantomData<T>,
}

// SAFETY: a shared lock gives out `&T`, and takes a `T` from whichever thread made it.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}

impl<T> OnceLock<T> {
    pub(crate) const fn new() -> OnceLock<T> {
        OnceLock { value: AtomicPtr::new(ptr::null_mut()), owned: PhantomData }
    }

    pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        let mut value = self.value.load(Ordering::Acquire);
        if value.is_null() {
            let made = Box::into_raw(Box::new(make()));
            value = match self.value.compare_exchange(ptr::null_mut(), made, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => made,
                Err(first) => {
                    // SAFETY: `made` comes from a box and was given to nobody.
                    drop(unsafe { Box::from_raw(made) });
                    first
                }
            };
        }
        // SAFETY: not null, so from a box that is freed only when `self` is dropped.
        unsafe { &*value }
    }
}

impl<T> Drop for OnceLock<T> {
    fn drop(&mut self) {
        let value = *self.value.get_mut();
        if !value.is_null() {
            // SAFETY: from a box, and nobody borrows from what is dropped.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}

impl<T> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnceLock")
    }
}

#[cfg(test)]
#[path = "once_tests.rs"]
mod tests;
