//! The consistency check of a volume's metadata.
