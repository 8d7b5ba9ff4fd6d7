//! The list, and the targets of decoders that everybody can call.

mod codes;
mod gossip;
mod keys;
mod members;
mod notes;
mod objects;
mod records;
mod shard_files;
mod shards;
mod texts;

use crate::Target;
pub use members::MEMBER;

const fn target(name: &'static str, run: fn(&[u8]), seeds: fn() -> Vec<Vec<u8>>) -> Target {
    Target { name, run, seeds, own_bytes: 0, test_runs: 20_000 }
}

/// All of them.
pub const TARGETS: &[Target] = &[
    target("shard_header", shards::header, shards::header_seeds),
    Target { test_runs: 5_000, ..target("shard_object", shards::object, shards::object_seeds) },
    target("shard_file", shard_files::parts, shard_files::parts_seeds),
    // A code, and a segment of the greatest length.
    Target {
        test_runs: 500,
        own_bytes: 160 << 20,
        ..target("shard_streams", shard_files::streams, shard_files::streams_seeds)
    },
    target("records", records::record, records::seeds),
    target("names", texts::name, texts::name_seeds),
    target("node_urls", texts::node_url, texts::node_url_seeds),
    target("key_files", texts::key_file, texts::key_file_seeds),
    Target { test_runs: 1_000, own_bytes: 64 << 20, ..target("code_specs", codes::spec, codes::spec_seeds) },
    Target { test_runs: 1_000, own_bytes: 64 << 20, ..target("policies", codes::policy, codes::policy_seeds) },
    Target { test_runs: 2_000, ..target("gossip", gossip::packets, gossip::seeds) },
    target("object_messages", objects::message, objects::seeds),
    target("meta_keys", keys::key, keys::seeds),
    target("meta_values", weft_meta::fuzzing::value, weft_meta::fuzzing::value_seeds),
    target("meta_rows", weft_meta::fuzzing::row, weft_meta::fuzzing::row_seeds),
    // A record may be as long as a half of the log, which is 8 MiB.
    Target {
        test_runs: 5_000,
        own_bytes: 32 << 20,
        ..target("meta_intents", weft_meta::fuzzing::intents, weft_meta::fuzzing::intents_seeds)
    },
    target("meta_witness", weft_meta::fuzzing::witness, weft_meta::fuzzing::witness_seeds),
    target("meta_addresses", weft_meta::fuzzing::address, weft_meta::fuzzing::address_seeds),
    target("meta_holder", weft_meta::fuzzing::holder, weft_meta::fuzzing::holder_seeds),
    target("block", weft_nodes::fuzzing::block, weft_nodes::fuzzing::block_seeds),
    Target {
        test_runs: 3_000,
        own_bytes: 4 << 20,
        ..target("daemon_requests", weft_daemon::fuzzing::request, weft_daemon::fuzzing::request_seeds)
    },
    // The longest text that is taken as an answer.
    Target {
        test_runs: 3_000,
        own_bytes: 8 << 20,
        ..target("daemon_answers", weft_daemon::fuzzing::answer, weft_daemon::fuzzing::answer_seeds)
    },
    target("combinations", weft_daemon::fuzzing::combination, weft_daemon::fuzzing::combination_seeds),
    target("proofs", weft_daemon::fuzzing::proof, weft_daemon::fuzzing::proof_seeds),
    target("address_books", weft_daemon::fuzzing::addresses, weft_daemon::fuzzing::addresses_seeds),
    target("meta_engines", weft_meta::fuzzing::engine, weft_meta::fuzzing::engine_seeds),
    target("notes", notes::note, notes::seeds),
    target("disk_cache", weft_transfer::fuzzing::entries, weft_transfer::fuzzing::entries_seeds),
    target("block_locations", weft_nodes::fuzzing::block_locations, weft_nodes::fuzzing::block_locations_seeds),
    target("grants", weft_daemon::fuzzing::grant, weft_daemon::fuzzing::grant_seeds),
    target("object_records", objects::record, objects::record_seeds),
    Target {
        test_runs: 2_000,
        own_bytes: 4 << 20,
        ..target("member_requests", members::request, members::request_seeds)
    },
];
