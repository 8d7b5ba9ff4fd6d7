//! How much the tests try.

/// `LONG=1 ./test` asks for all that the tests can try, which takes twice as long.
pub fn is_long() -> bool {
    std::env::var_os("WEFT_LONG").is_some()
}
