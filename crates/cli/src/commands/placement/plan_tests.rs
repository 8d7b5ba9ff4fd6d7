use super::*;

#[test]
fn wishes_are_read_and_wrong_ones_say_how_to_write_them() {
    assert_eq!((parse_wish("unit:1"), parse_wish("node:12")), (Ok(Wish::Units(1)), Ok(Wish::Nodes(12))));
    for wrong in ["site:1", "unit", "unit:", "node:0", "node:-1", "2"] {
        assert_eq!(parse_wish(wrong), Err(format!("`{wrong}` is not a loss: write unit:1 or node:2")));
    }
}
