//! The program as its users have it: real commands, mounts, daemons and kills.

mod bad_inputs;
mod campaign;
mod care;
mod choose;
mod clock;
mod commands;
mod content;
mod convert;
mod day;
mod e2e;
#[path = "../../../codes/tests/it/effort.rs"]
mod effort;
#[cfg(feature = "shared")]
mod etcd;
#[cfg(feature = "shared")]
mod every_command;
mod families;
mod fsyncs;
mod gc;
mod gossip;
mod grow;
mod helpers;
mod house;
mod json;
mod kinds;
mod lab;
#[cfg(feature = "shared")]
mod many_mounts;
mod metadata;
mod mount;
mod networks;
mod objects;
mod openings;
#[cfg(feature = "shared")]
mod postgres;
mod recover;
mod requests;
mod sandbox;
#[cfg(feature = "shared")]
mod served;
#[cfg(feature = "clouds")]
#[allow(dead_code, reason = "HDFS is tested by the crate of nodes alone")]
#[path = "../../../nodes/tests/it/servers/mod.rs"]
mod servers;
mod shard_files;
mod shard_streams;
mod sites;
mod slow_line;
#[cfg(feature = "shared")]
mod tls;
mod trash;
mod users;
mod verdicts;
