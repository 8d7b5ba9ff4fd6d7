use super::*;
use crate::engines::memtable::Shared;

/// Also while the file takes nothing: what waits for the log is bounded by what is pending.
#[test]
fn one_key_written_again_and_again_waits_once() {
    let key: Shared = b"inode/1"[..].into();
    let mut state = State::default();
    for number in 0..20_000_u32 {
        let value: Option<Shared> = Some(number.to_be_bytes()[..].into());
        state.unlogged.push((key.clone(), value.clone()));
        state.memtable.put(key.clone(), value);
        state.bound_unlogged();
    }
    assert!(state.unlogged.len() <= UNLOGGED_SLACK as usize + 5, "{}", state.unlogged.len());
    assert_eq!(state.unlogged.last(), Some(&(key, Some(19_999_u32.to_be_bytes()[..].into()))));
}
