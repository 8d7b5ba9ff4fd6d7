//! Shard files: their parts, and whole ones as streams.

use super::shards::{ask, geometry};
use crate::seals::sealed;
use bytes::Bytes;
use weft_format::shard::HEADER_BYTES;
use weft_format::shard_file::{FILE_HEADER_BYTES, FileHasher, ShardFileHeader, Sibling, Trailer};
use weft_format::{ShardIndex, VolumeId};
use weft_transfer::objects::Coder;
use weft_transfer::shard_files::{
    BEGINNING_BYTES, Decoder, Encoder, Next, ShardBytes, coder, common_header, recognise,
};

/// A header or a trailer, as it is and with a right checksum.
pub(super) fn parts(bytes: &[u8]) {
    let _ = ShardFileHeader::decode(bytes);
    if let Ok(header) = ShardFileHeader::decode(&sealed(bytes, FILE_HEADER_BYTES)) {
        assert_eq!(
            header.encode().as_ref().map(|again| &again[..]),
            Ok(&sealed(bytes, FILE_HEADER_BYTES)[..FILE_HEADER_BYTES])
        );
        ask(&header.geometry);
        let _ = header.object_identity(u64::MAX, ShardIndex(u16::MAX));
    }
    let _ = Trailer::decode(bytes);
    let bytes = sealed(bytes, HEADER_BYTES);
    let Ok(trailer) = Trailer::decode(&bytes) else { return };
    assert_eq!(trailer.encode().as_ref().map(|again| &again[..]), Ok(&bytes[..HEADER_BYTES]));
    let siblings = &bytes[HEADER_BYTES..];
    let _ = trailer.siblings(siblings);
    // With a right digest, too.
    let mut hasher = FileHasher::default();
    hasher.update(siblings);
    let trailer = Trailer { siblings_digest: hasher.finish(), ..trailer };
    if let Ok(known) = trailer.siblings(siblings) {
        assert_eq!(Sibling::encode_all(&known).as_deref(), Ok(siblings));
    }
}

pub(super) fn parts_seeds() -> Vec<Vec<u8>> {
    let header = ShardFileHeader {
        set: VolumeId(3),
        index: ShardIndex(1),
        shard_count: 3,
        code: "rs:2+1".to_owned(),
        name: b"notes.txt".to_vec(),
        geometry: geometry(100_000, 2),
    };
    let trailer = encoded(10).swap_remove(0).split_off(FILE_HEADER_BYTES + HEADER_BYTES + 8 + 5);
    vec![header.encode().expect("it is right").to_vec(), trailer]
}

/// Shards, each after its length, as streams: as they are, and with right checksums of their headers.
pub(super) fn streams(bytes: &[u8]) {
    let mut shards = Vec::new();
    let mut rest = bytes;
    while let Some((length, after)) = rest.split_first_chunk::<2>() {
        let (shard, after) = after.split_at(usize::from(u16::from_le_bytes(*length)).min(after.len()));
        shards.push(shard.to_vec());
        rest = after;
    }
    decode(&shards);
    for shard in &mut shards {
        let tail = shard.split_off(shard.len().min(FILE_HEADER_BYTES));
        *shard = sealed(shard, FILE_HEADER_BYTES);
        shard.extend(sealed(&tail, HEADER_BYTES));
    }
    decode(&shards);
}

struct Stream<'a>(&'a [u8]);

impl ShardBytes for Stream<'_> {
    fn read(&mut self, offset: u64, length: usize) -> Bytes {
        let rest = self.0.get(usize::try_from(offset).expect("an offset")..).unwrap_or_default();
        Bytes::copy_from_slice(&rest[..length.min(rest.len())])
    }
}

fn decode(shards: &[Vec<u8>]) {
    let look = |bytes: &Vec<u8>| recognise(&bytes[..bytes.len().min(BEGINNING_BYTES)]).ok().flatten();
    let beginnings: Vec<_> = shards.iter().filter_map(|bytes| Some((bytes, look(bytes)?))).collect();
    let Some(header) = common_header(beginnings.iter().map(|(_, beginning)| beginning)) else { return };
    let Ok(coder) = coder(&header) else { return };
    let mut places: Vec<Option<(Stream<'_>, bool)>> = (0..coder.shape().n).map(|_| None).collect();
    for (bytes, beginning) in &beginnings {
        if let Some(place) = places.get_mut(beginning.index.as_usize()) {
            *place = Some((Stream(bytes), beginning.header.is_some()));
        }
    }
    let chosen = (0..places.len()).filter(|shard| places[*shard].is_some()).collect();
    let mut decoder = Decoder::new(header, coder, places, chosen);
    let (mut data, mut file_bytes) = (Vec::new(), 0);
    while let Ok(next) = decoder.next(&mut data) {
        match next {
            Next::Segment => file_bytes += data.len() as u64,
            Next::End(end) => return assert_eq!(end.trailer.file_bytes, file_bytes),
        }
    }
}

/// The shards of a file of this many bytes.
fn encoded(file_bytes: usize) -> Vec<Vec<u8>> {
    let coder = Coder::new("rs:2+1").expect("a code");
    let mut encoder = Encoder::new(coder, VolumeId(3), b"notes.txt".to_vec()).expect("it is right");
    let data = vec![5; file_bytes];
    let mut hasher = FileHasher::default();
    hasher.update(&data);
    let mut pieces = vec![encoder.headers().expect("they are right")];
    if !data.is_empty() {
        pieces.push(encoder.segment(data.into()).expect("it is short"));
    }
    let names = (0..3).map(|shard| format!("notes.txt.{shard}.weft").into_bytes()).collect();
    pieces.push(encoder.trailers(hasher.finish(), names).expect("they are right"));
    let shard = |index: usize| pieces.iter().flat_map(|piece| piece[index].to_vec()).collect();
    (0..3).map(shard).collect()
}

pub(super) fn streams_seeds() -> Vec<Vec<u8>> {
    let seed = |file_bytes, left: &[usize]| {
        let shards = encoded(file_bytes);
        left.iter()
            .flat_map(|shard| [&(shards[*shard].len() as u16).to_le_bytes()[..], &shards[*shard]].concat())
            .collect()
    };
    vec![seed(0, &[1]), seed(10, &[0, 1, 2]), seed(9_000, &[1, 2])]
}
