//! The crate through its public face.

mod erasures;
mod golden;
mod ldpc;
mod lrc;
mod plans;
mod regenerating;
mod run;
mod shifts;
mod stripe;
