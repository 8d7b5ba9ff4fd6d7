//! Which shard of which encoding a file is, by its first bytes.

use crate::error::WriteError;
use crate::objects::Coder;
use weft_format::shard::{HEADER_BYTES, ShardError, ShardHeader};
use weft_format::shard_file::{FILE_HEADER_BYTES, ShardFileHeader, Trailer};
use weft_format::{ShardIndex, VolumeId};

/// Bytes that [`recognise`] looks at: the header, and the header of the first object or of the trailer.
pub const BEGINNING_BYTES: usize = FILE_HEADER_BYTES + HEADER_BYTES;

/// What the beginning of a shard file says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Which encoding it belongs to.
    pub set: VolumeId,
    /// Which shard it is.
    pub index: ShardIndex,
    /// Its header; `None`: it is damaged.
    pub header: Option<ShardFileHeader>,
}

/// Looks at the first [`BEGINNING_BYTES`] of a file, or at those that there are. `None`: it is no shard file. One whose header is damaged
/// is known by what follows it.
///
/// # Errors
/// [`ShardError::UnknownVersion`].
pub fn recognise(bytes: &[u8]) -> Result<Option<Beginning>, ShardError> {
    match ShardFileHeader::decode(bytes) {
        Ok(header) => return Ok(Some(Beginning { set: header.set, index: header.index, header: Some(header) })),
        Err(error @ ShardError::UnknownVersion { .. }) => return Err(error),
        Err(_) => {}
    }
    let next = bytes.get(FILE_HEADER_BYTES..).unwrap_or_default();
    if let Ok(object) = ShardHeader::decode(next) {
        let identity = object.identity;
        return Ok(Some(Beginning { set: identity.volume, index: identity.key.index, header: None }));
    }
    let trailer = Trailer::decode(next).ok();
    Ok(trailer.map(|trailer| Beginning { set: trailer.set, index: trailer.index, header: None }))
}

/// The code of a header, once the header is found to fit it.
///
/// # Errors
/// [`WriteError::Code`].
pub fn coder(header: &ShardFileHeader) -> Result<Coder, WriteError> {
    let coder = Coder::new(&header.code)?;
    let (shape, geometry) = (coder.shape(), &header.geometry);
    let of_header = [geometry.native_count, geometry.alpha, geometry.alignment_bytes, header.shard_count.into()];
    let of_code = [shape.native_count, shape.alpha, shape.symbol_alignment_bytes, shape.n];
    if of_header.map(|number| number as usize) != of_code {
        let detail = "it differs from the one that wrote these shards: use the program that wrote them".to_owned();
        return Err(WriteError::Code { code: header.code.clone(), detail });
    }
    Ok(coder)
}

/// The header that most of these have, as that of shard 0; `None`: all are damaged.
pub fn common_header<'a>(beginnings: impl IntoIterator<Item = &'a Beginning>) -> Option<ShardFileHeader> {
    let mut counts: Vec<(ShardFileHeader, usize)> = Vec::new();
    for header in beginnings.into_iter().filter_map(|beginning| beginning.header.clone()) {
        let header = ShardFileHeader { index: ShardIndex(0), ..header };
        match counts.iter_mut().find(|(same, _)| *same == header) {
            Some((_, count)) => *count += 1,
            None => counts.push((header, 1)),
        }
    }
    // The first of those that are as frequent.
    counts.into_iter().rev().max_by_key(|(_, count)| *count).map(|(header, _)| header)
}
