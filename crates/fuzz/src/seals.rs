//! Checksums made right: a decoder that looks at one first would hide all that is behind it.

use crc_fast::CrcAlgorithm::Crc64Nvme;

/// `bytes`, filled up with zeros to `length`, with a right checksum at the end of that.
pub(crate) fn sealed(bytes: &[u8], length: usize) -> Vec<u8> {
    let mut sealed = bytes.to_vec();
    sealed.resize(length.max(bytes.len()), 0);
    let at = length - 8;
    let check = crc_fast::checksum(Crc64Nvme, &sealed[..at]);
    sealed[at..length].copy_from_slice(&check.to_le_bytes());
    sealed
}
