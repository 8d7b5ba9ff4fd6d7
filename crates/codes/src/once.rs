//! A value that is made on first use: the standard library's, or without it one of atomics.

#[cfg(feature = "std")]
pub(crate) use std::sync::OnceLock;

#[cfg(not(feature = "std"))]
pub(crate) use crate::exec::once::OnceLock;
