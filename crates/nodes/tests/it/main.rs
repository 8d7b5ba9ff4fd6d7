//! All kinds of nodes, and what they answer to requests and servers that are wrong.

mod conformance;
mod daemon_requests;
mod foreign;
mod servers;
