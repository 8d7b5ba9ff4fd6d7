//! The crate through its public face.

mod budgets;
mod codec;
mod conformance;
mod effort;
mod entries;
mod examples;
mod formats;
mod golden;
mod how_to;
mod ldpc;
mod ldpc_budgets;
mod lrc;
mod mojette;
mod plans;
mod public_api;
mod random;
mod regenerating;
mod shifts;
mod specs;
mod stripe;
mod together;
