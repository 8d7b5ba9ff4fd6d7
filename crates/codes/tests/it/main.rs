//! The crate through its public face.

mod budgets;
mod conformance;
mod entries;
mod formats;
mod golden;
mod ldpc;
mod ldpc_budgets;
mod lrc;
mod mojette;
mod plans;
mod random;
mod regenerating;
mod run;
mod shifts;
mod specs;
mod stripe;
