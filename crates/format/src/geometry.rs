//! How a segment's bytes lie in its shards.
//!
//! A segment of `data_bytes` is cut into stripes of `native_count * symbol_bytes`; within a stripe native symbol `j` holds
//! bytes `j * symbol_bytes ..`. The last stripe is cut smaller: its symbols are as short as the remaining bytes allow
//! (rounded up to the alignment), so small segments waste little; what is missing is zero padding. Shard `i`'s payload is
//! the concatenation of its cells (`alpha` symbols each), stripe after stripe.
