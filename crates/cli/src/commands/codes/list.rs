//! `weft codes list`.

use super::figures::{self, Evidence, Figures};
use crate::arguments::Output;
use crate::render::{self, say};
use anyhow::Result;
use serde::Serialize;
use weft_codes::{Executor, Family};

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  weft codes list")]
pub struct Arguments {
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    syntax: &'static str,
    example: &'static str,
    description: &'static str,
    source: &'static str,
    figures: Figures,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let listed = weft_codes::families().iter().map(listed).collect::<Result<Vec<_>>>()?;
    if arguments.output.json {
        say(format_args!("{}\n", serde_json::to_string_pretty(&listed)?));
        return Ok(());
    }
    for Listed { syntax, description, .. } in &listed {
        say(format_args!("{syntax}\n    {description}\n"));
    }
    say(format_args!("\n"));
    let header = [
        "EXAMPLE",
        "NODES",
        "DATA",
        "SURVIVES",
        "BY",
        "ONE MORE",
        "STORED",
        "REPAIR",
        "COMPUTING",
        "TWO",
        "REQUESTS",
        "LOCALITY",
        "SYMBOLS",
    ];
    let figures = listed.iter().map(|listed| row_of(&listed.figures));
    let rows: Vec<_> = std::iter::once(header.map(str::to_owned).to_vec()).chain(figures).collect();
    say(format_args!("{}", render::table(&rows, &[1, 2, 5, 6, 7, 8, 9, 10, 11, 12])));
    say(format_args!("{LEGEND}"));
    let kernels: Vec<&str> = Executor::all().iter().map(Executor::name).collect();
    say(format_args!("Kernels of this machine, fastest first: {}.\n", kernels.join(", ")));
    Ok(())
}

const LEGEND: &str = "
SURVIVES   number of nodes that may be lost, whichever they are; BY proof (all patterns tried), a sample, or the construction
ONE MORE   share of the patterns of one more loss that are survived, too (~ of a sample)
STORED     bytes stored per byte of data
REPAIR     bytes received per byte of a lost node; COMPUTING: if nodes compute before they send, where that saves
TWO        bytes received per byte of one of two lost nodes that are rebuilt together, if nodes compute where that saves
REQUESTS   nodes asked by that repair; LOCALITY: the fewest that rebuild any node; SYMBOLS: parts of a cell
`weft codes show CODE` tells more.
";

fn listed(family: &Family) -> Result<Listed> {
    let &Family { name, syntax, example, description, source, .. } = family;
    let code = weft_codes::parse(example)?;
    let figures = Figures::new(&*code, figures::erasures(&*code)?.as_ref())?;
    Ok(Listed { name, syntax, example, description, source, figures })
}

fn row_of(figures: &Figures) -> Vec<String> {
    let received = |repair: &Option<figures::Repair>| match repair {
        Some(repair) => format!("{:.2}", repair.received_bytes_per_byte),
        None => "-".to_owned(),
    };
    let best = figures.repair_if_nodes_compute.as_ref().or(figures.repair.as_ref());
    vec![
        figures.code.clone(),
        figures.nodes.to_string(),
        figures.data_nodes.to_string(),
        format!("any {}", figures.tolerance),
        match figures.tolerance_known_by {
            Evidence::Proof => "proof",
            Evidence::Sample => "sample",
            Evidence::Construction => "construction",
        }
        .to_owned(),
        figures.one_more.as_ref().map_or("-".to_owned(), figures::Losses::share),
        format!("{:.2}", figures.stored_bytes_per_byte),
        received(&figures.repair),
        received(&figures.repair_if_nodes_compute),
        figures.repair_of_two.as_ref().map_or("-".to_owned(), |two| {
            let best = two.if_nodes_compute.as_ref().unwrap_or(&two.if_nodes_send);
            format!("{:.2}", best.received_bytes_per_byte)
        }),
        best.map_or("-".to_owned(), |repair| format!("{:.1}", repair.requests)),
        figures.locality.map_or("-".to_owned(), |locality| locality.to_string()),
        figures.sub_symbols.to_string(),
    ]
}
