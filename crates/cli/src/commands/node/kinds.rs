//! `weft node kinds`: the kinds of nodes there are.

use crate::render;
use anyhow::Result;
use serde::Serialize;
use weft_nodes::About;

/// A kind as programs read it.
#[derive(Serialize)]
struct Line {
    name: &'static str,
    what: &'static str,
    url: &'static str,
    is_built_in: bool,
    combines: bool,
    range_granularity_bytes: u64,
    lists_in_order: bool,
    puts_atomically: bool,
    puts_conditionally: bool,
    latency_us: u32,
    request_price: u64,
    kib_out_price: u64,
    kib_in_price: u64,
    prices_because: &'static str,
    durable: &'static str,
    tested_against: Option<&'static str>,
}

impl Line {
    fn of(kind: &About) -> Self {
        let can = kind.capability;
        Self {
            name: kind.name,
            what: kind.what,
            url: kind.url,
            is_built_in: kind.is_built_in,
            combines: can.combines,
            range_granularity_bytes: can.range_granularity_bytes,
            lists_in_order: can.lists_in_order,
            puts_atomically: can.puts_atomically,
            puts_conditionally: can.puts_conditionally,
            latency_us: can.latency_us,
            request_price: can.request_price,
            kib_out_price: can.kib_out_price,
            kib_in_price: can.kib_in_price,
            prices_because: kind.prices_because,
            durable: kind.durable,
            tested_against: kind.tested_against,
        }
    }
}

/// Prints them all.
pub fn list(json: bool) -> Result<()> {
    let lines: Vec<Line> = weft_engine::kinds().about().map(Line::of).collect();
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
    let row = |line: &Line| {
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
