use super::*;
use weft_format::shard::HEADER_BYTES;
use weft_format::shard::ShardIdentity;
use weft_format::{Generation, ShardIndex, ShardKey};

const SEGMENT: SegmentId = SegmentId(3);
const VOLUME: VolumeId = VolumeId(9);

fn identity(index: ShardIndex) -> ShardIdentity {
    ShardIdentity { volume: VOLUME, key: ShardKey { segment: SEGMENT, generation: Generation(1), index } }
}

struct Encoded {
    coder: Coder,
    geometry: Geometry,
    data: Vec<u8>,
    objects: Vec<Bytes>,
}

fn encoded(spec: &str, length: usize) -> Encoded {
    let coder = Coder::new(spec).unwrap();
    let data: Vec<u8> = (0..length).map(|i| (i * 41 + (i >> 10) * 7) as u8).collect();
    let geometry = Geometry { data_bytes: length as u64, ..coder.segment_geometry(SEGMENT).unwrap() };
    let objects = coder.encode(VOLUME, SEGMENT, geometry, Bytes::copy_from_slice(&data)).unwrap();
    let objects = objects.into_iter().map(|(object, _)| object).collect();
    Encoded { coder, geometry, data, objects }
}

impl Encoded {
    fn survivors(&self, left: &[Option<Bytes>]) -> Survivors {
        let mut survivors = self.coder.survivors(self.geometry);
        for (shard, object) in left.iter().enumerate() {
            if let Some(object) = object {
                let (header, raw) = object.split_at(object.len().min(HEADER_BYTES));
                let identity = identity(ShardIndex(shard as u16));
                survivors.take_in_object(shard, &identity, header, &object.slice_ref(raw));
            }
        }
        survivors
    }

    /// Reads from these objects, and rebuilds whatever is not sound.
    fn check(&self, left: &[Option<Bytes>]) -> Result<(), TooFew> {
        let survivors = self.survivors(left);
        let mut out = vec![0xaa; self.data.len()];
        survivors.read(&mut out)?;
        assert!(out == self.data, "{}: wrong bytes", self.coder.spec());
        let wanting: Vec<usize> = (0..left.len()).filter(|shard| !survivors.is_sound(*shard)).collect();
        let rebuilt = survivors.rebuild(identity, &wanting)?;
        for (shard, (object, _)) in wanting.into_iter().zip(rebuilt) {
            assert!(object == self.objects[shard], "{}: shard {shard}", self.coder.spec());
        }
        Ok(())
    }

    fn left(&self) -> Vec<Option<Bytes>> {
        self.objects.iter().cloned().map(Some).collect()
    }
}

/// One spec of every family, those that are quick to encode.
fn specs() -> impl Iterator<Item = &'static str> {
    weft_codes::families().iter().map(|family| family.example)
}

#[test]
fn as_many_shards_as_the_code_tolerates_may_be_missing() {
    for spec in specs() {
        for length in [1, 5_000, 700_001] {
            let encoded = encoded(spec, length);
            let Shape { n, tolerance, .. } = *encoded.coder.shape();
            for first in [0, n - tolerance] {
                let mut left = encoded.left();
                left[first..first + tolerance].fill(None);
                encoded.check(&left).unwrap();
                let there: Vec<bool> = left.iter().map(Option::is_some).collect();
                let needed = encoded.coder.needed(&there).unwrap();
                let only: Vec<_> =
                    (0..n).map(|shard| left[shard].clone().filter(|_| needed.contains(&shard))).collect();
                let mut out = vec![0; length];
                encoded.survivors(&only).read(&mut out).unwrap();
                assert!(out == encoded.data, "{spec} from {needed:?}");
            }
            assert_eq!(encoded.coder.needed(&vec![false; n]), None);
            assert!(encoded.check(&vec![None; n]).is_err());
        }
    }
}

#[test]
fn damage_in_every_shard_costs_only_the_frames_it_is_in() {
    for spec in ["rs:4+2", "raid5:4"] {
        let encoded = encoded(spec, 2_000_000);
        let mut left = encoded.left();
        for (shard, object) in left.iter_mut().enumerate() {
            // A frame of its own in each shard.
            let mut bytes = object.as_ref().unwrap().to_vec();
            bytes[HEADER_BYTES + shard * 4104 + 77] ^= 1;
            *object = Some(bytes.into());
        }
        encoded.check(&left).unwrap();
        // The same frame in one shard too many.
        for object in left.iter_mut().take(encoded.coder.shape().tolerance + 1) {
            let mut bytes = object.as_ref().unwrap().to_vec();
            bytes[HEADER_BYTES + 20 * 4104] ^= 0x80;
            *object = Some(bytes.into());
        }
        let error = encoded.check(&left).unwrap_err();
        assert_eq!(error.unusable, (0..=encoded.coder.shape().tolerance).collect::<Vec<_>>());
    }
}

#[test]
fn short_objects_foreign_ones_and_damaged_headers_are_survived() {
    let encoded = encoded("rs:4+2", 1_000_000);
    let mut left = encoded.left();
    left[0] = Some(encoded.objects[0].slice(..100_000));
    left[1] = Some(encoded.objects[2].clone());
    encoded.check(&left).unwrap();
    let mut left = encoded.left();
    let mut bytes = encoded.objects[3].to_vec();
    bytes[20] ^= 4;
    left[3] = Some(bytes.into());
    left[4] = Some(Bytes::new());
    encoded.check(&left).unwrap();
}

#[test]
fn a_segment_is_whole_stripes_of_about_4_mib() {
    for spec in specs() {
        let coder = Coder::new(spec).unwrap();
        let geometry = coder.segment_geometry(SEGMENT).unwrap();
        let longest = full_stripe_bytes(coder.shape()).max(4 << 20);
        assert!((2 << 20..=longest).contains(&geometry.data_bytes), "{spec}: {}", geometry.data_bytes);
        assert_eq!(geometry.data_bytes % full_stripe_bytes(coder.shape()), 0, "{spec}");
    }
}
