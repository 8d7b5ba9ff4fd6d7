//! Downloads in simulated time: the same each time, sound, and as fast as their lines.

use super::*;
use weft_transfer::Profile;

fn seconds(network: &Network, file: &StoredFile, profile: &str, seed: u64) -> f64 {
    let profile: Profile = profile.parse().unwrap();
    Client::default().download(network, file, profile, seed).unwrap().unwrap().seconds
}

#[test]
fn a_download_is_the_same_each_time() {
    let (network, file) = (Network::hodgepodge(), StoredFile::encode("rs:3+3", 10).unwrap());
    assert_eq!(file.bytes(), 10 * BLOCK_BYTES);
    for profile in ["fastest1,T=20,R=1,any", "adaptive"] {
        assert_eq!(seconds(&network, &file, profile, 5), seconds(&network, &file, profile, 5));
        assert_ne!(seconds(&network, &file, profile, 5), seconds(&network, &file, profile, 6));
    }
}

#[test]
fn servers_of_a_region_share_its_line() {
    let file = StoredFile::encode("replica:1", 10).unwrap();
    let shared = Network::regional();
    let apart = Network { regions: Vec::new(), ..Network::regional() };
    let profile = "fastest1,T=20,R=1,any,timeout-ms=60000";
    let (shared, apart) = (seconds(&shared, &file, profile, 3), seconds(&apart, &file, profile, 3));
    assert!(shared > apart, "{shared} s over shared lines, {apart} s over others");
}

#[test]
fn a_download_tells_what_came_and_when() {
    let file = StoredFile::encode("rs:3+3", 10).unwrap();
    let profile: Profile = "fastest0,T=20,R=1,data-first,timeout-ms=60000".parse().unwrap();
    let download = Client::default().download(&Network::regional(), &file, profile, 1).unwrap().unwrap();
    // Three whole sets, and one of a single block's bytes.
    assert_eq!(download.sets.len(), 4);
    assert!(download.asked_bytes >= file.bytes());
    assert!(download.sets.iter().all(|set| set.arrived.iter().filter(|came| **came).count() >= 3));
    assert_eq!(download.seconds, download.sets.iter().map(|set| set.seconds).fold(0.0, f64::max));
}

#[test]
fn a_set_that_is_longer_than_a_segment_is_two() {
    let file = StoredFile::encode("rs:100+1", 100).unwrap();
    assert_eq!(
        (file.bytes(), file.block_bytes(0), file.block_bytes(1)),
        (100 * BLOCK_BYTES, BLOCK_BYTES / 2, BLOCK_BYTES / 2)
    );
}
