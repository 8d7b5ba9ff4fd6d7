//! Erasure codes: the algebra, the planners, and one executor that runs all of them at memory speed.
//!
//! What it is: a [`Code`] says its [`Shape`] and gives two descriptions, never bytes: how stored symbols follow from native
//! ones ([`Code::encode`]), and what to read, at what price, to get wanted symbols back ([`Code::plan`]). An [`Executor`]
//! runs the [`Program`] of either. [`Codec`] puts these together for callers who have data and shards.
//!
//! What it never does: I/O, async, clocks, threads, randomness. It imports no other crate of the workspace.
//!
//! The loop, for encode, degraded read, repair and conversion alike: `plan -> fetch (not here) -> run`.
//!
//! # The front door
//!
//! ```
//! use weft_codes::Codec;
//!
//! let codec = Codec::new("rs:4+2")?;
//! let data = b"any bytes, of any length";
//! let mut shards: Vec<Option<Vec<u8>>> = codec.encode(data).into_iter().map(Some).collect();
//!
//! (shards[1], shards[4]) = (None, None);
//! codec.reconstruct(&mut shards)?;
//! assert_eq!(codec.decode(&shards, data.len())?, data);
//!
//! // Which ranges of which shards a repair needs: often fewer bytes than k shards have.
//! let plan = codec.repair_plan(&[1], codec.shard_bytes(data.len()))?;
//! assert_eq!(plan.reads().len(), 4);
//! # Ok::<(), weft_codes::CodecError>(())
//! ```
//!
//! # What it stands on
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
//! // Shard 1 is lost, and shard 0 is dear to read: plan the repair, fetch what the plan reads, run its program.
//! let offer = |price| Offer { combines: false, request_price: 1, symbol_price: price };
//! let have = Offers((0..6).map(|shard| (shard != 1).then_some(offer(if shard == 0 { 9 } else { 1 }))).collect());
//! let plan = code.plan(&Wanted::Shards(vec![1]), &have)?;
//! assert!(plan.reads.iter().all(|read| read.shard != 0));
//! let shards: Vec<&Vec<u8>> = data.iter().chain(&parity).collect();
//! let fetched: Vec<&[u8]> = plan.reads.iter().map(|read| shards[read.shard].as_slice()).collect();
//! let mut repaired = vec![0; 1000];
//! weft_codes::executor().run(&Compiled::new(plan.program)?, &fetched, &mut [&mut repaired])?;
//! assert_eq!(repaired, data[1]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Which code to choose: see [`families`](mod@families), a page each. What a code survives, stores and reads: see [`analysis`].
//! How fast it is: see `measure`.
//!
//! Without the feature `std`, which is on by default, the crate needs an allocator only. It then uses the kernels that it is
//! compiled for, and has no `measure` and no search for graphs.
//!
//! # Where to start reading
//!
//! `code.rs` is the contract, `families/rs.rs` a family, `linear.rs` the planner of every linear code, `codec.rs` the front
//! door, and `exec.rs` the executor. Imports go one way:
//! `gf`, `matrix` <- `program` <- `passes`, `code` <- `exec`, `linear` <- `families` <- `spec` <- `codec`.
//! A new family is one file in `families/` (`docs/how-to/add-a-code.md`).

#![cfg_attr(not(feature = "std"), no_std)]

extern crate alloc;

pub mod analysis;
mod code;
mod codec;
mod exec;
pub mod families;
pub mod gf;
pub mod linear;
mod matrix;
#[cfg(feature = "std")]
pub mod measure;
mod passes;
mod program;
mod random;
// The slow, obvious twin of what is fast, for tests; not part of the public face.
#[doc(hidden)]
pub mod reference;
mod row;
mod spec;
mod work;

pub use code::{Code, Content, Group, Offer, Offers, Plan, PlanError, Price, Read, Shape, Wanted};
pub use codec::{Codec, CodecError, RepairPlan, ShardRead};
pub use exec::{Compiled, Executor, RunError, executor};
pub use families::{Family, families};
pub use linear::{Erasures, LinearCode};
pub use matrix::Matrix;
pub use program::{Op, Program, ProgramError, SymbolId};
pub use spec::{SpecError, parse};

/// The examples of README.md, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
