//! The store and its engines through their public face, also from processes that are killed.

#[cfg(feature = "shared")]
mod acknowledged;
mod conformance;
mod crash;
mod damage;
#[cfg(feature = "shared")]
#[path = "../../../codes/tests/it/effort.rs"]
mod effort;
#[cfg(feature = "shared")]
mod etcd;
#[cfg(feature = "shared")]
mod feed;
mod home;
mod pages;
#[cfg(feature = "shared")]
mod postgres;
mod reading;
mod sqlite;
mod trees;
mod two_processes;
