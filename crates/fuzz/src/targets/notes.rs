//! What care, the engine and users note beside records: the first byte says who.

pub(super) fn note(bytes: &[u8]) {
    let Some((what, bytes)) = bytes.split_first() else { return };
    match what % 3 {
        0 => weft_care::fuzzing::record(bytes),
        1 => weft_engine::fuzzing::note(bytes),
        _ => weft_vfs::fuzzing::deleted(bytes),
    }
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let all =
        [weft_care::fuzzing::record_seeds(), weft_engine::fuzzing::note_seeds(), weft_vfs::fuzzing::deleted_seeds()];
    let seed = |(what, seeds): (u8, Vec<Vec<u8>>)| seeds.into_iter().map(move |seed| [&[what][..], &seed].concat());
    (0..).zip(all).flat_map(seed).collect()
}
