//! Answers of storage of others, for `crates/fuzz`. Most are read by OpenDAL; this is what is read here.

use super::datanode::{DataNode, Place};

/// What a NameNode of HDFS says of the blocks of a file, after the name of the DataNode that is to have them, its length first.
pub fn block_locations(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else { return };
    let Some((host, answer)) = rest.split_at_checked(usize::from(length)) else { return };
    let Some(this) = str::from_utf8(host).ok().and_then(DataNode::named) else { return };
    if let Some(Place::Elsewhere(hosts)) = this.place(answer) {
        assert!(hosts.is_sorted_by(|one, next| one < next), "each is named once");
    }
}

/// A file that is here, one that is elsewhere, and one without blocks.
#[must_use]
pub fn block_locations_seeds() -> Vec<Vec<u8>> {
    let block = |host: &str| {
        format!(
            r#"{{"hosts":["{host}"],"names":["10.0.0.3:9866"],"offset":0,"length":4360,"corrupt":false,"storageTypes":["DISK"]}}"#
        )
    };
    let answer = |host: &str, blocks: &str| {
        let answer = format!(r#"{{"BlockLocations":{{"BlockLocation":[{blocks}]}}}}"#);
        [&[host.len() as u8][..], host.as_bytes(), answer.as_bytes()].concat()
    };
    vec![
        answer("dn3", &block("dn3")),
        answer("[fd00::3]:9864", &format!("{},{}", block("dn4"), block("fd00::3"))),
        answer("10.0.0.3:9864", ""),
    ]
}
