use super::*;

#[test]
fn finding_06_a_sqlite_that_loses_data_is_refused() {
    for version_number in [3_050_002, 3_051_002, 3_008_000] {
        let error = require_sqlite(version_number).expect_err("too old");
        assert!(matches!(error, OpenError::OldSqlite { .. }), "{error}");
    }
    let sentence = require_sqlite(3_050_002).expect_err("too old").to_string();
    assert!(sentence.starts_with("this program runs on SQLite 3.50.2, which can lose"), "{sentence}");
    for version_number in [3_051_003, 3_052_000, rusqlite::version_number()] {
        require_sqlite(version_number).expect("new enough");
    }
}
