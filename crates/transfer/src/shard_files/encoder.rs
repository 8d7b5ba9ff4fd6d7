//! The bytes of shard files, in the order in which they are written.

use crate::error::WriteError;
use crate::objects::Coder;
use bytes::Bytes;
use weft_format::geometry::Geometry;
use weft_format::shard::ShardError;
use weft_format::shard_file::{FileHasher, ShardFileHeader, Sibling, Trailer};
use weft_format::{SegmentId, ShardIndex, VolumeId};

/// Makes the shard files of one encoding: headers, then segments, then trailers. Each call gives the next bytes of every shard, by index.
pub struct Encoder {
    coder: Coder,
    header: ShardFileHeader,
    segment: u64,
    file_bytes: u64,
    /// By shard: the digests of its objects so far.
    digests: Vec<FileHasher>,
}

impl Encoder {
    /// `set` is random; `name` is the file's, 1 to 255 bytes.
    ///
    /// # Errors
    /// [`WriteError`]: the code's cells are too long for any segment, or the header has no room for its spec.
    pub fn new(coder: Coder, set: VolumeId, name: Vec<u8>) -> Result<Self, WriteError> {
        let geometry = coder.segment_geometry(SegmentId(0))?;
        Self::with_geometry(coder, set, name, geometry)
    }

    /// With segments that are cut like this.
    pub(super) fn with_geometry(
        coder: Coder,
        set: VolumeId,
        name: Vec<u8>,
        geometry: Geometry,
    ) -> Result<Self, WriteError> {
        let (shard_count, code) = (coder.shape().n as u16, coder.spec().to_owned());
        let digests = vec![FileHasher::default(); coder.shape().n];
        let header = ShardFileHeader { set, index: ShardIndex(0), shard_count, code, name, geometry };
        header.encode().map_err(|error| impossible(&header, &error))?;
        Ok(Self { coder, header, segment: 0, file_bytes: 0, digests })
    }

    /// The code.
    pub fn coder(&self) -> &Coder {
        &self.coder
    }

    /// Bytes of the file so far.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Data of every segment but the last, which may have less.
    pub fn segment_bytes(&self) -> u64 {
        self.header.geometry.data_bytes
    }

    /// The beginning of every shard.
    ///
    /// # Errors
    /// None, since `new` has tried.
    pub fn headers(&self) -> Result<Vec<Bytes>, WriteError> {
        let header = |index| {
            let header = ShardFileHeader { index: ShardIndex(index), ..self.header.clone() };
            let bytes = header.encode().map_err(|error| impossible(&header, &error))?;
            Ok(Bytes::copy_from_slice(&bytes))
        };
        (0..self.header.shard_count).map(header).collect()
    }

    /// The objects of the next segment: `data` of [`Self::segment_bytes`], or of 1 byte to as many for the last one.
    ///
    /// # Errors
    /// [`WriteError`]: the length is another.
    pub fn segment(&mut self, data: Bytes) -> Result<Vec<Bytes>, WriteError> {
        let data_bytes = data.len() as u64;
        let segment = SegmentId(self.segment.into());
        if data_bytes > self.segment_bytes() || !self.file_bytes.is_multiple_of(self.segment_bytes()) {
            let detail = format!("{data_bytes} bytes after {}: only the last is shorter", self.file_bytes);
            return Err(WriteError::Size { segment, detail });
        }
        let geometry = Geometry { data_bytes, ..self.header.geometry };
        let objects = self.coder.encode(self.header.set, segment, geometry, data)?;
        self.segment += 1;
        self.file_bytes += data_bytes;
        let noted = objects.into_iter().zip(&mut self.digests).map(|((object, digest), hasher)| {
            hasher.update(&digest.0);
            object
        });
        Ok(noted.collect())
    }

    /// The end of every shard: `digest` is BLAKE3 of the file, `names` are those of the shards, by index, empty where there is none.
    ///
    /// # Errors
    /// [`WriteError::Code`]: a name that no file can have.
    pub fn trailers(&self, digest: [u8; 32], names: Vec<Vec<u8>>) -> Result<Vec<Bytes>, WriteError> {
        let impossible = |error: ShardError| impossible(&self.header, &error);
        let siblings: Vec<Sibling> =
            self.digests.iter().zip(names).map(|(hasher, name)| Sibling { digest: hasher.finish(), name }).collect();
        let siblings = Sibling::encode_all(&siblings).map_err(impossible)?;
        let mut hasher = FileHasher::default();
        hasher.update(&siblings);
        let trailer = |index| {
            let trailer = Trailer {
                set: self.header.set,
                index: ShardIndex(index),
                shard_count: self.header.shard_count,
                file_bytes: self.file_bytes,
                digest,
                siblings_bytes: siblings.len() as u32,
                siblings_digest: hasher.finish(),
            };
            let fixed = trailer.encode().map_err(impossible)?;
            Ok(Bytes::from([&fixed[..], &siblings].concat()))
        };
        (0..self.header.shard_count).map(trailer).collect()
    }
}

fn impossible(header: &ShardFileHeader, error: &ShardError) -> WriteError {
    WriteError::Code { code: header.code.clone(), detail: error.to_string() }
}
