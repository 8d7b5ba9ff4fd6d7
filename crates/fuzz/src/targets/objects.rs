//! Questions to members of a store of objects, and their answers.

use weft_format::records::{ObjectRecord, Stamp, data_segment, record_key};
use weft_format::{Generation, ShardIndex, ShardKey};
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
