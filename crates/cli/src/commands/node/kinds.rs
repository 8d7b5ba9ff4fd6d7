//! `weft node kinds`: the kinds of nodes there are.

use crate::render;
use anyhow::Result;
use weft_engine::reports::{NodeKindReport, node_kinds};

/// Prints them all.
pub fn list(json: bool) -> Result<()> {
    let lines = node_kinds();
    if json {
        println!("{}", serde_json::to_string_pretty(&lines)?);
        return Ok(());
    }
    let header = [
        "KIND",
        "BUILT IN",
        "COMBINES",
        "IN ORDER",
        "ATOMIC",
        "CONDITIONAL",
        "REQUEST",
        "KIB OUT",
        "KIB IN",
        "TESTED AGAINST",
    ];
    let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
    let row = |line: &NodeKindReport| {
        let tested = line.tested_against.unwrap_or("not tested");
        let prices = [line.request_price, line.kib_out_price, line.kib_in_price];
        let mut row = vec![line.name.to_owned()];
        row.extend([line.is_built_in, line.combines, line.lists_in_order, line.puts_atomically].map(yes));
        row.push(yes(line.puts_conditionally));
        row.extend(prices.map(|price| price.to_string()));
        row.push(tested.to_owned());
        row
    };
    let rows: Vec<_> = std::iter::once(header.map(str::to_owned).to_vec()).chain(lines.iter().map(row)).collect();
    print!("{}", render::table(&rows, &[6, 7, 8]));
    println!();
    for line in &lines {
        println!("{:13}{}\n{:13}{}", line.name, line.url, "", line.what);
    }
    println!(
        "\ndocs/nodes/KIND.md has an example of each kind; `cargo build --features KIND` adds a kind that is not built in"
    );
    Ok(())
}
