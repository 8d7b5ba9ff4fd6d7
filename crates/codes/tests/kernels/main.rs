//! What kernels compute, compared with the reference. A program of its own, so that it alone is compiled for processors that are emulated.

mod run;
#[path = "../it/stripe.rs"]
#[allow(dead_code, reason = "these tests run programs, not stripes")]
mod stripe;
