//! Questions to members of a store of objects, and their answers.

use crate::seals::sealed;
use weft_format::geometry::Geometry;
use weft_format::records::{ObjectRecord, Stamp, data_segment, name_hash, record_key};
use weft_format::shard::{HEADER_BYTES, ShardBuilder, ShardHeader};
use weft_format::{Generation, ShardIndex, ShardKey, VolumeId};
use weft_objects::{Answer, Found, FoundRecord, FoundShard, Listed, ListedName, Question};

/// What is accepted is encoded to something that is read as the same.
pub(super) fn message(bytes: &[u8]) {
    if let Ok(question) = Question::decode(bytes) {
        assert_eq!(Question::decode(&question.encode()).as_ref(), Ok(&question));
    }
    if let Ok(answer) = Answer::decode(bytes) {
        assert_eq!(Answer::decode(&answer.encode()).as_ref(), Ok(&answer));
        if let Answer::Found(found) = answer {
            for (record, stamp) in found.records.iter().map(|record| (record.decoded(), record.stamp())) {
                assert!(record.is_none_or(|record| record.stamp == stamp));
            }
        }
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let (hash, stamp) = (7, Stamp(9));
    let questions = [
        Question::Find { hash },
        Question::List { prefix: "run/".into(), after: "run/1".into(), limit: 100 },
        Question::Compare { asker: 5, path: vec![1, 2] },
    ];
    let shard = ShardKey {
        segment: data_segment(hash, stamp, 0),
        generation: Generation::FIRST,
        index: ShardIndex(record_key(hash, stamp).index.0),
    };
    let record = |record| FoundRecord { stamp: stamp.0, record };
    let given_up = ObjectRecord::given_up(stamp).encode();
    let found = Found { records: vec![record(Some(given_up)), record(None)], shards: vec![FoundShard::of(shard)] };
    let listed = |name: &str, bytes| ListedName { name: name.into(), stamp: 9, bytes };
    let names = vec![listed("run/2", Some(4096)), listed("run/3", None)];
    let answers = [Answer::Found(found), Answer::Listed(Listed { names, more: true })];
    questions.iter().map(Question::encode).chain(answers.iter().map(Answer::encode)).collect()
}

/// Shards of a record are this short here.
const PAYLOAD_BYTES_MAX: u64 = 64 << 10;

/// A record as members store it: the header of a shard, its checksum made right, and the shard's payload.
pub(super) fn record(bytes: &[u8]) {
    let bytes = sealed(bytes, HEADER_BYTES);
    let Ok(header) = ShardHeader::decode(&bytes) else { return };
    if header.geometry.payload_bytes() > PAYLOAD_BYTES_MAX {
        return;
    }
    let payload = &bytes[HEADER_BYTES..];
    let payload = &payload[..payload.len().min(header.geometry.payload_bytes() as usize)];
    let mut builder = ShardBuilder::new(&header).expect("the header is right");
    builder.write(0, payload).expect("it is no longer");
    let (volume, key) = (header.identity.volume, header.identity.key);
    if let Ok(record) = ObjectRecord::unseal(volume, key, &builder.finish().0) {
        let again = record.seal(volume, key).expect("it is short");
        assert_eq!(ObjectRecord::unseal(volume, key, &again), Ok(record));
    }
}

/// A record, and one that says that it is much longer than its shard.
pub(super) fn record_seeds() -> Vec<Vec<u8>> {
    let stamp = Stamp(9);
    let record = ObjectRecord { name: "run/7".to_owned(), ..ObjectRecord::given_up(stamp) };
    let key = record_key(name_hash("run/7"), stamp);
    let object = record.seal(VolumeId(1), key).expect("it is small");
    let header = ShardHeader::decode(&object).expect("it was made here");
    let wide = Geometry::new(60 << 20, 1 << 16, 1, 1, 1).expect("its shards are short");
    let wide = ShardHeader { geometry: wide, ..header.clone() }.encode().expect("it is right");
    vec![[&object[..HEADER_BYTES], &record.encode()].concat(), [&wide[..], &record.encode()].concat()]
}
