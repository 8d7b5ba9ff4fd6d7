//! The algebra of erasure codes.
//!
//! What it is: a code says its [`Shape`], and answers two questions with descriptions, never with bytes: how stored
//! symbols follow from native ones ([`Code::encode`]), and what to read, at what price, to get wanted symbols back
//! ([`Code::plan`]). One executor ([`exec`]) runs every [`Program`] of every code.
//!
//! What it never does: I/O, async, clocks, threads, randomness. It imports no other crate of ours.
//!
//! The loop, for encode, degraded read, repair and conversion alike: `plan -> fetch (not here) -> run`.
//!
//! ```
//! use weft_codes::{Compiled, Offer, Offers, Wanted};
//!
//! let code = weft_codes::parse("rs:4+2")?;
//! let data: Vec<Vec<u8>> = (0..4).map(|i| vec![i; 1000]).collect();
//! let mut parity = vec![vec![0; 1000]; 2];
//! let encode = Compiled::new(code.encode().clone())?;
//! let mut outputs: Vec<&mut [u8]> = parity.iter_mut().map(|p| p.as_mut_slice()).collect();
//! weft_codes::executor().run(&encode, &[&data[0], &data[1], &data[2], &data[3]], &mut outputs)?;
//!
//! // Shard 1 is lost: plan its repair, fetch what the plan reads, run what follows.
//! let offer = Offer { combines: false, request_price: 1, symbol_price: 1 };
//! let have = Offers((0..6).map(|shard| (shard != 1).then_some(offer)).collect());
//! let plan = code.plan(&Wanted::Shards(vec![1]), &have)?;
//! let shards: Vec<&Vec<u8>> = data.iter().chain(&parity).collect();
//! let fetched: Vec<&[u8]> = plan.reads.iter().map(|read| shards[read.shard].as_slice()).collect();
//! let mut repaired = vec![0; 1000];
//! weft_codes::executor().run(&Compiled::new(plan.program)?, &fetched, &mut [&mut repaired])?;
//! assert_eq!(repaired, data[1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Which code to choose: see [`families`](mod@families), a page each; what one is worth: see [`analysis`].
//!
//! The crate needs an allocator only: without the feature `std` (which is on by default) it runs on the kernels that it was
//! compiled for, and has no `measure` and no search for graphs.
//!
//! Start reading at `code.rs`, then `families/rs.rs`, then `linear.rs` (the generic engine, the oracle), then
//! `exec.rs`. A new family is one file in `families/` and one line in `families.rs`.

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod analysis;
pub mod code;
pub mod exec;
pub mod families;
pub mod gf;
pub mod linear;
pub mod matrix;
#[cfg(feature = "std")]
pub mod measure;
mod once;
pub mod passes;
pub mod program;
mod random;
pub mod reference;
mod row;
pub mod spec;
mod work;

pub use code::{Code, Content, Group, Offer, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
pub use exec::{Compiled, Executor, RunError, executor};
pub use families::{Family, families};
pub use linear::{Erasures, LinearCode};
pub use matrix::Matrix;
pub use program::{Op, Program, ProgramError, SymbolId};
pub use spec::{SpecError, parse};
