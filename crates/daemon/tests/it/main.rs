//! What a daemon answers to requests that are wrong.

mod requests;
