//! The store and its engines through their public face, also from processes that are killed.

mod conformance;
mod crash;
mod damage;
mod home;
mod pages;
mod reading;
mod sqlite;
mod two_processes;
