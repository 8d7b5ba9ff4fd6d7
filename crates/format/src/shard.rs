//! The shard object: a fixed header, then frames of payload, each with a checksum that also covers who the shard is.
