use super::*;
use crate::shard_files::{BEGINNING_BYTES, Encoder, coder, recognise};
use weft_format::VolumeId;

const SET: VolumeId = VolumeId(9);

/// A stream: it is asked for bytes in order.
struct Stream {
    bytes: Vec<u8>,
    at: u64,
}

impl ShardBytes for Stream {
    fn read(&mut self, offset: u64, length: usize) -> Bytes {
        assert!(offset >= self.at, "byte {offset} is asked for after {}", self.at);
        let start = (offset as usize).min(self.bytes.len());
        let end = (start + length).min(self.bytes.len());
        self.at = end as u64;
        Bytes::copy_from_slice(&self.bytes[start..end])
    }
}

/// A file, and its shards as they were written.
pub(super) struct Encoded {
    pub(super) coder: Coder,
    pub(super) header: ShardFileHeader,
    pub(super) data: Vec<u8>,
    pub(super) shards: Vec<Vec<u8>>,
}

/// `stripes` a segment, with cells of about `cell_bytes`.
pub(super) fn encoded(spec: &str, cell_bytes: u32, stripes: u64, length: usize) -> Encoded {
    let coder = Coder::new(spec).unwrap();
    let shape = coder.shape().clone();
    let numbers = (shape.native_count as u32, shape.alpha as u32, shape.symbol_alignment_bytes as u32);
    let one = Geometry::new(1, numbers.0, numbers.1, numbers.2, cell_bytes).unwrap();
    let geometry = Geometry { data_bytes: one.full_stripe_bytes() * stripes, ..one };
    let data: Vec<u8> = (0..length).map(|i| (i * 41 + (i >> 10) * 7) as u8).collect();
    let mut encoder = Encoder::with_geometry(coder.clone(), SET, b"file".to_vec(), geometry).unwrap();
    let mut shards: Vec<Vec<u8>> = vec![Vec::new(); shape.n];
    let mut write = |pieces: Vec<Bytes>| shards.iter_mut().zip(pieces).for_each(|(shard, piece)| shard.extend(piece));
    write(encoder.headers().unwrap());
    for segment in data.chunks(geometry.data_bytes as usize) {
        write(encoder.segment(Bytes::copy_from_slice(segment)).unwrap());
    }
    let mut hasher = FileHasher::default();
    hasher.update(&data);
    let names = (0..shape.n).map(|shard| format!("file.{shard}").into_bytes()).collect();
    write(encoder.trailers(hasher.finish(), names).unwrap());
    let header = recognise(&shards[0][..BEGINNING_BYTES.min(shards[0].len())]).unwrap().unwrap().header.unwrap();
    Encoded { coder, header, data, shards }
}

/// The bytes that are given before the end or a loss, which of the two it is, and what is wrong with the shards.
pub(super) type Decoded = (Vec<u8>, Result<End, Loss>, Vec<(usize, Trouble)>);

impl Encoded {
    fn left(&self) -> Vec<Option<Vec<u8>>> {
        self.shards.iter().cloned().map(Some).collect()
    }

    /// Where the objects begin, and at the end the trailer.
    pub(super) fn boundaries(&self) -> Vec<usize> {
        let mut at = FILE_HEADER_BYTES;
        let mut boundaries = vec![at];
        for segment in self.data.chunks(self.header.geometry.data_bytes as usize) {
            let geometry = Geometry { data_bytes: segment.len() as u64, ..self.header.geometry };
            at += object_bytes(geometry.payload_bytes()) as usize;
            boundaries.push(at);
        }
        boundaries
    }

    fn decoder(&self, left: &[Option<Vec<u8>>], chosen: Vec<usize>) -> Decoder<Stream> {
        let shard = |(index, bytes): (usize, &Option<Vec<u8>>)| {
            let bytes = bytes.clone()?;
            let is_sound = bytes.get(..FILE_HEADER_BYTES) == self.shards[index].get(..FILE_HEADER_BYTES);
            Some((Stream { bytes, at: 0 }, is_sound))
        };
        let shards = left.iter().enumerate().map(shard).collect();
        Decoder::new(self.header.clone(), self.coder.clone(), shards, chosen)
    }

    pub(super) fn decode(&self, left: &[Option<Vec<u8>>]) -> Decoded {
        let chosen = (0..left.len()).filter(|shard| left[*shard].is_some()).collect();
        let mut decoder = self.decoder(left, chosen);
        let (mut data, mut out) = (Vec::new(), Vec::new());
        loop {
            match decoder.next(&mut data) {
                Ok(Next::Segment) => out.extend_from_slice(&data),
                Ok(Next::End(end)) => break (out, Ok(end), decoder.troubles().collect()),
                Err(loss) => break (out, Err(loss), decoder.troubles().collect()),
            }
        }
    }
}

/// One spec of every family.
pub(super) fn specs() -> Vec<&'static str> {
    weft_codes::families().iter().map(|family| family.example).chain(["ldpc:cube-8-6", "rs:3+4", "replica:1"]).collect()
}

#[test]
fn every_family_and_length_comes_back_from_as_few_shards_as_the_code_promises() {
    for spec in specs() {
        let segment = encoded(spec, 512, 3, 0).header.geometry.data_bytes as usize;
        for length in [0, 1, segment - 1, segment, segment + 1, 2 * segment, 2 * segment + segment / 2] {
            let encoded = encoded(spec, 512, 3, length);
            let (n, tolerance) = (encoded.coder.shape().n, encoded.coder.shape().tolerance);
            for first in [0, n - tolerance] {
                let mut left = encoded.left();
                left[first..first + tolerance].fill(None);
                let (out, end, troubles) = encoded.decode(&left);
                assert!(out == encoded.data, "{spec}, {length} bytes");
                assert_eq!(end.unwrap().trailer.file_bytes, length as u64);
                assert_eq!(troubles, []);
            }
        }
    }
}

#[test]
fn lost_shards_are_rebuilt_byte_for_byte_and_their_digests_are_those_that_the_siblings_name() {
    for spec in specs() {
        let encoded = encoded(spec, 512, 3, 5_000);
        let lost: Vec<usize> = (0..encoded.coder.shape().tolerance).collect();
        let mut left = encoded.left();
        lost.iter().for_each(|shard| left[*shard] = None);
        let mut decoder = encoded.decoder(&left, (lost.len()..left.len()).collect());
        let (mut data, mut rebuilt) = (Vec::new(), vec![(Vec::new(), FileHasher::default()); lost.len()]);
        let end = loop {
            match decoder.next(&mut data).unwrap() {
                Next::End(end) => break end,
                Next::Segment => {
                    for ((object, digest), (bytes, hasher)) in decoder.rebuild(&lost).unwrap().iter().zip(&mut rebuilt)
                    {
                        bytes.extend_from_slice(object);
                        hasher.update(&digest.0);
                    }
                }
            }
        };
        let trailer_at = *encoded.boundaries().last().unwrap();
        let siblings = end.siblings.unwrap();
        for (shard, (bytes, hasher)) in lost.iter().zip(rebuilt) {
            assert!(bytes == encoded.shards[*shard][FILE_HEADER_BYTES..trailer_at], "{spec}: shard {shard}");
            assert_eq!(hasher.finish(), siblings[*shard].digest);
            assert_eq!(siblings[*shard].name, format!("file.{shard}").into_bytes());
        }
    }
}

#[test]
fn a_shard_is_used_up_to_where_it_ends_and_from_where_it_is_sound_again() {
    let encoded = encoded("rs:4+2", 4096, 2, 100_000);
    let boundaries = encoded.boundaries();
    let mut left = encoded.left();
    // One ends in each segment, and one is damaged where those that ended are still there.
    left[0].as_mut().unwrap().truncate(boundaries[1] + 300);
    left[1].as_mut().unwrap().truncate(boundaries[2]);
    left[5].as_mut().unwrap()[boundaries[0] + 500] ^= 1;
    let (out, end, troubles) = encoded.decode(&left);
    assert!(out == encoded.data && end.is_ok());
    let ends = |bytes: usize| Trouble::EndsAfter { bytes: bytes as u64 };
    assert_eq!(troubles, [(0, ends(boundaries[1] + 300)), (1, ends(boundaries[2])), (5, Trouble::Damaged)]);
    left[2].as_mut().unwrap().truncate(boundaries[2] + 100);
    let (out, end, _) = encoded.decode(&left);
    let from = 2 * encoded.header.geometry.data_bytes;
    assert!(out == encoded.data[..from as usize]);
    let Err(Loss::TooFew { data, unusable, .. }) = end else { panic!("{end:?}") };
    assert_eq!((data.start, unusable), (from, vec![0, 1, 2]));
}

#[test]
fn shards_that_all_end_are_never_taken_for_a_whole_file() {
    let encoded = encoded("rs:2+1", 512, 2, 7_000);
    let boundaries = encoded.boundaries();
    for (segments, boundary) in boundaries.iter().enumerate() {
        let left: Vec<_> = encoded.shards.iter().map(|shard| Some(shard[..*boundary].to_vec())).collect();
        let (out, end, _) = encoded.decode(&left);
        let from = (segments as u64 * encoded.header.geometry.data_bytes).min(7_000);
        assert!(out == encoded.data[..from as usize]);
        assert_eq!(end, Err(Loss::Gone { from }), "{segments} segments");
    }
}

#[test]
fn damaged_headers_of_objects_cost_nothing_but_the_last_ones() {
    let encoded = encoded("rs:4+2", 4096, 2, 100_000);
    let boundaries = encoded.boundaries();
    let mut left = encoded.left();
    left.iter_mut().flatten().for_each(|shard| shard[boundaries[1] + 20] ^= 1);
    let (out, end, troubles) = encoded.decode(&left);
    assert!(out == encoded.data && end.is_ok());
    assert_eq!(troubles.len(), 6);
    // How long the last segment is, one of them must say.
    left[1..].iter_mut().flatten().for_each(|shard| shard[boundaries[3] + 20] ^= 1);
    assert!(encoded.decode(&left).1.is_ok());
}

#[test]
fn what_most_trailers_say_counts() {
    let encoded = encoded("rs:2+1", 512, 2, 5_000);
    let trailer_at = *encoded.boundaries().last().unwrap();
    let lie = |shard: &mut Vec<u8>, change: &dyn Fn(&mut Trailer)| {
        let mut trailer = Trailer::decode(&shard[trailer_at..]).unwrap();
        change(&mut trailer);
        shard[trailer_at..trailer_at + HEADER_BYTES].copy_from_slice(&trailer.encode().unwrap());
    };
    let digest = |trailer: &mut Trailer| trailer.digest = [7; 32];
    let mut left = encoded.left();
    lie(left[0].as_mut().unwrap(), &digest);
    let (out, end, troubles) = encoded.decode(&left);
    assert!(out == encoded.data && end.is_ok());
    assert_eq!(troubles, [(0, Trouble::Damaged)]);
    lie(left[1].as_mut().unwrap(), &digest);
    assert_eq!(encoded.decode(&left).1, Err(Loss::WrongDigest));
    // Another length: that of no file that ends here.
    let mut left = encoded.left();
    left.iter_mut().flatten().for_each(|shard| lie(shard, &|trailer| trailer.file_bytes = 1 << 50));
    assert!(encoded.decode(&left).1.is_err());
}

#[test]
fn zeros_after_the_end_are_padding_and_other_bytes_are_named() {
    for length in [0, 5_000] {
        let encoded = encoded("rs:2+1", 512, 2, length);
        let mut left = encoded.left();
        left[0].as_mut().unwrap().extend([0; 10_000]);
        left[1].as_mut().unwrap().extend(b"more");
        // A second encoding behind the first.
        left[2].as_mut().unwrap().extend(&encoded.shards[2]);
        let (out, end, troubles) = encoded.decode(&left);
        assert!(out == encoded.data && end.is_ok());
        assert_eq!(troubles, [(1, Trouble::GoesOn), (2, Trouble::GoesOn)]);
    }
}

#[test]
fn shards_that_are_not_needed_are_read_only_where_they_are() {
    let encoded = encoded("rs:2+1", 512, 2, 9_000);
    let boundaries = encoded.boundaries();
    let mut left = encoded.left();
    left[1].as_mut().unwrap()[boundaries[2] + 400] ^= 1;
    let mut decoder = encoded.decoder(&left, vec![0, 1]);
    let (mut data, mut out) = (Vec::new(), Vec::new());
    let mut read_to = Vec::new();
    while let Next::Segment = decoder.next(&mut data).unwrap() {
        out.extend_from_slice(&data);
        read_to.push(decoder.shard(2).unwrap().at as usize);
    }
    assert!(out == encoded.data);
    assert_eq!(read_to[..4], [0, 0, boundaries[3], boundaries[3]]);
}

#[test]
fn a_header_that_the_code_does_not_fit_is_refused() {
    let header = encoded("rs:4+2", 512, 2, 10).header;
    assert!(coder(&header).is_ok());
    let geometry = |change: &dyn Fn(&mut Geometry)| {
        let mut geometry = header.geometry;
        change(&mut geometry);
        ShardFileHeader { geometry, ..header.clone() }
    };
    let others = [
        ShardFileHeader { shard_count: 7, ..header.clone() },
        ShardFileHeader { code: "rs:4+3".into(), ..header.clone() },
        ShardFileHeader { code: "no:4+2".into(), ..header.clone() },
        geometry(&|it| it.native_count = 5),
        geometry(&|it| it.alpha = 2),
        geometry(&|it| it.alignment_bytes = 2),
    ];
    others.iter().for_each(|header| assert!(coder(header).is_err(), "{header:?}"));
}
