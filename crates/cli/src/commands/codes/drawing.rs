//! A code as a drawing: a column per node, a cell per symbol, locality groups as bars below.

use super::layout::{Kind, Symbol};
use std::fmt::Write;
use weft_codes::Shape;

const MARGIN: usize = 16;
const TITLE_HEIGHT: usize = 44;
const HEADER_HEIGHT: usize = 20;
const GROUP_HEIGHT: usize = 10;
const LEGEND_HEIGHT: usize = 40;
/// Cells are as large as their names need, and smaller where there are many: then without names.
const NAMED: (usize, usize) = (54, 26);
const UNNAMED: (usize, usize) = (22, 5);
const MOST_NAMED_ROWS: usize = 32;
const MOST_NAMED_COLUMNS: usize = 40;
/// The title needs so much.
const LEAST_WIDTH: usize = 420;

/// An SVG document; `caption` is one line below the title.
pub fn svg(title: &str, caption: &str, shape: &Shape, symbols: &[Symbol]) -> String {
    let is_named = shape.alpha <= MOST_NAMED_ROWS && shape.n <= MOST_NAMED_COLUMNS;
    let (cell_width, cell_height) = if is_named { NAMED } else { UNNAMED };
    let grid_top = TITLE_HEIGHT + HEADER_HEIGHT;
    let groups_top = grid_top + shape.alpha * cell_height + 8;
    let height = groups_top + shape.groups.len() * GROUP_HEIGHT + LEGEND_HEIGHT;
    let width = (2 * MARGIN + shape.n * cell_width).max(LEAST_WIDTH);
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let mut draw = |line: std::fmt::Arguments<'_>| {
        let _ = writeln!(svg, "{line}");
    };
    draw(format_args!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">"#
    ));
    draw(format_args!(r##"<rect width="{width}" height="{height}" fill="#ffffff"/>"##));
    draw(format_args!(r#"<text x="{MARGIN}" y="20" font-size="15" font-weight="bold">{}</text>"#, escaped(title)));
    draw(format_args!(r##"<text x="{MARGIN}" y="38" fill="#555555">{}</text>"##, escaped(caption)));
    for node in 0..shape.n {
        let middle = MARGIN + node * cell_width + cell_width / 2;
        // Narrow columns have room for every fifth number.
        if is_named || node % 5 == 0 {
            let y = grid_top - 6;
            draw(format_args!(r#"<text x="{middle}" y="{y}" text-anchor="middle">{node}</text>"#));
        }
        for (sub, symbol) in symbols[node * shape.alpha..(node + 1) * shape.alpha].iter().enumerate() {
            let (x, y) = (MARGIN + node * cell_width, grid_top + sub * cell_height);
            let fill = fill(symbol.kind, symbol.is_duplicate);
            draw(format_args!(
                r##"<rect x="{x}" y="{y}" width="{cell_width}" height="{cell_height}" fill="{fill}" stroke="#ffffff"/>"##
            ));
            if is_named {
                let (name, y) = (symbol.name(), y + cell_height / 2 + 4);
                draw(format_args!(r#"<text x="{middle}" y="{y}" text-anchor="middle">{name}</text>"#));
            }
        }
    }
    for (index, group) in shape.groups.iter().enumerate() {
        let y = groups_top + index * GROUP_HEIGHT;
        for shard in &group.shards {
            let (x, width) = (MARGIN + shard * cell_width + 2, cell_width - 4);
            draw(format_args!(r##"<rect x="{x}" y="{y}" width="{width}" height="6" fill="#5b8c5a"/>"##));
        }
    }
    let mut x = MARGIN;
    let y = height - 14;
    for (text, fill) in legend(shape, symbols) {
        draw(format_args!(r#"<rect x="{x}" y="{}" width="12" height="12" fill="{fill}"/>"#, y - 10));
        draw(format_args!(r#"<text x="{}" y="{y}">{text}</text>"#, x + 17));
        x += 105;
    }
    draw(format_args!("</svg>"));
    svg
}

fn fill(kind: Kind, is_duplicate: bool) -> &'static str {
    match (kind, is_duplicate) {
        (Kind::Native, false) => "#a8c8ec",
        (Kind::Native, true) => "#dbe8f7",
        (Kind::Coded, false) => "#f2b880",
        (Kind::Coded, true) => "#fae2cb",
    }
}

/// What occurs.
fn legend(shape: &Shape, symbols: &[Symbol]) -> Vec<(&'static str, &'static str)> {
    let kinds = [
        ("data", Kind::Native, false),
        ("data again", Kind::Native, true),
        ("coded", Kind::Coded, false),
        ("coded again", Kind::Coded, true),
    ];
    let occurs = |kind, again| symbols.iter().any(|symbol| symbol.kind == kind && symbol.is_duplicate == again);
    let colours = kinds.into_iter().filter(|&(_, kind, again)| occurs(kind, again));
    let colours = colours.map(|(text, kind, again)| (text, fill(kind, again)));
    colours.chain((!shape.groups.is_empty()).then_some(("local group", "#5b8c5a"))).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
