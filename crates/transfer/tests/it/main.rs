//! The engine through its public face, over nodes in memory and in folders that fail on purpose.

mod background;
mod cache;
mod chain;
mod combine;
mod damage;
#[path = "../../../codes/tests/it/effort.rs"]
mod effort;
mod folders;
mod house;
mod losses;
mod merge;
mod networks;
mod rebuild;
mod slow;
mod theory;
mod verify;
mod write;
