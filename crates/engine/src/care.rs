//! The interface of care: the options and reports of its jobs, and the records behind the reports of a volume.

pub use weft_care::balance::{Estimate as BalanceEstimate, Load};
pub use weft_care::collect::{Kept, Report as CollectReport, Retained};
pub use weft_care::lease::TTL_MS as LEASE_MS;
pub use weft_care::record::{CareRecord, HistoryEntry};
pub use weft_care::repair::{Estimate as RepairEstimate, Options as RepairOptions, Report as RepairReport};
pub use weft_care::roster::LOOK_DEADLINE;
pub use weft_care::scrub::{Finding as ScrubFinding, Options as ScrubOptions, Report as ScrubReport};
pub use weft_care::watch::{Timeouts, Verdict};
pub use weft_care::{Away, CodeTally, ConvertRecord, DEGRADED_NAMED, Dead, Faults, Job, JobRecord, Progress, Tally};
