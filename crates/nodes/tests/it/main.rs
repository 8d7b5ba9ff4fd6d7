//! All kinds of nodes, and what they make of servers that are wrong.

mod conformance;
mod foreign;
mod servers;
