//! The bytes that outlive the process.

mod golden;
