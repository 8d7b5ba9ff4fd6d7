//! What faces tell of a volume, as data: how safe it is, its nodes, its care, where a file is. Sentences are the faces' own.
//!
//! `--json` prints these structs as they are: a field keeps its name and its meaning, new ones may come.

mod care;
mod file;
mod kinds;
mod nodes;
mod status;

pub use care::CareReport;
pub use file::{ExtentReport, FileReport, SegmentReport, ShardReport};
pub use kinds::{NodeKindReport, node_kinds};
pub use nodes::{NodeLine, node_lines};
pub use status::{NodeStatus, Room, StatusReport, Waiting};
