//! Reports about a volume, as data: its safety, its nodes, its care, the place of a file. Front ends make the sentences.
//!
//! `--json` prints these structs as they are: a field keeps its name and its meaning, new ones may come.

mod care;
mod file;
mod kinds;
mod nodes;
mod sessions;
mod status;

pub use care::CareReport;
pub use file::{ExtentReport, FileReport, SegmentReport, ShardReport};
pub use kinds::{NodeKindReport, node_kinds};
pub use nodes::{LinkLine, NodeLine, node_lines};
pub use sessions::{SessionLine, session_lines};
pub use status::{NodeStatus, Room, StatusReport, Waiting};
