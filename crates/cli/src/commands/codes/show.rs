//! `weft codes show SPEC`.

use super::chances::{self, Overhead, Unavailability};
use super::drawing;
use super::figures::{self, Evidence, Figures, Losses, Repair};
use super::layout::{self, Kind, Symbol};
use super::stripe::Stripe;
use crate::compose;
use crate::render::{self, say};
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use weft_codes::analysis::{self, Size};
use weft_codes::{Code, Content, Matrix, Offer, Offers, Shape, Wanted};

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  weft codes show lrc:12+2+2
  weft codes show clay:8+4 --svg clay.svg")]
pub struct Arguments {
    /// Code, as in rs:4+2 (`weft codes list`), or ldpc:@FILE of a graph file
    code: String,
    /// Draw which symbol is on which node into this file
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Share of time for which each node answers, for the chance that a file cannot be read
    #[arg(long, value_name = "SHARE", default_value_t = 0.99, value_parser = parse_share)]
    availability: f64,
    /// Print JSON, for programs, with the whole generator unless it has millions of elements
    #[arg(long)]
    json: bool,
}

fn parse_share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share: write a number from 0 to 1, as in 0.99"))
}

/// What fits on a screen.
const MOST_ROWS: usize = 16;
const MOST_COLUMNS: usize = 14;

#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    figures: Figures,
    description: &'static str,
    source: &'static str,
    /// Nodes that repair among themselves.
    groups: Vec<Vec<usize>>,
    /// Names of the symbols of each node.
    layout: Vec<Vec<String>>,
    /// A row per coded symbol, in order; a column per data symbol. Null where that is too large.
    generator: Option<Vec<Vec<u8>>>,
    #[serde(skip)]
    first_rows: FirstRows,
    /// Numbers of losses of which even a sample takes too long are left out.
    losses: Vec<Losses>,
    #[serde(skip)]
    most_lost: usize,
    /// Null where even a sample of the losses takes too long.
    unavailability: Option<Unavailability>,
    /// Null for a code that is no graph.
    overhead: Option<Overhead>,
    programs: Vec<NamedSize>,
}

/// The first rows of the generator, as far as they fit on a screen, and how many there are.
struct FirstRows {
    rows: Vec<Vec<u8>>,
    count: usize,
}

/// How much a program computes, in symbols.
#[derive(Serialize)]
struct NamedSize {
    program: String,
    operations: usize,
    additions: usize,
    multiplications: usize,
    temporaries: usize,
    outputs: usize,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let code = compose::code(&arguments.code)?;
    let symbols = layout::symbols(code.shape(), &Stripe::encoded(&code)?.stored);
    let shown = Shown::new(&*code, &symbols, arguments.availability)?;
    if let Some(file) = &arguments.svg {
        let drawing = drawing::svg(code.spec(), &shown.caption(), code.shape(), &symbols);
        fs::write(file, drawing).with_context(|| format!("{} cannot be written", file.display()))?;
    }
    if arguments.json {
        say(format_args!("{}\n", serde_json::to_string_pretty(&shown)?));
    } else {
        shown.tell();
    }
    Ok(())
}

impl Shown {
    fn new(code: &dyn Code, symbols: &[Symbol], node_availability: f64) -> Result<Self> {
        let shape = code.shape();
        let name = code.spec().split(':').next().unwrap_or_default();
        let family = weft_codes::families().iter().find(|family| family.name == name);
        let erasures = figures::erasures(code)?;
        let names: Vec<String> = symbols.iter().map(Symbol::name).collect();
        let coded = coded_outputs(shape, symbols);
        let first_rows = code.encode().rows_of(&coded[..coded.len().min(MOST_ROWS)])?;
        let first_rows = FirstRows { rows: rows(&first_rows), count: coded.len() };
        let generator = figures::is_generator_small(shape).then(|| code.encode().to_matrix()).transpose()?;
        let told = telling(shape.tolerance, analysis::most_lost(shape));
        Ok(Self {
            figures: Figures::new(code, erasures.as_ref())?,
            description: family.map_or("", |family| family.description),
            source: family.map_or("", |family| family.source),
            groups: shape.groups.iter().map(|group| group.shards.clone()).collect(),
            layout: names.chunks(shape.alpha).map(<[String]>::to_vec).collect(),
            generator: generator.map(|generator| rows(&generator.select_rows(&coded))),
            first_rows,
            losses: told.into_iter().filter_map(|lost| figures::losses(erasures.as_ref(), lost)).collect(),
            most_lost: analysis::most_lost(shape),
            unavailability: chances::unavailability(code, erasures.as_ref(), node_availability),
            overhead: chances::overhead(code),
            programs: programs(code),
        })
    }

    fn caption(&self) -> String {
        let figures = &self.figures;
        let repair = figures.repair_if_nodes_compute.as_ref().or(figures.repair.as_ref());
        let repair = repair.map_or(String::new(), |r| format!(", repair {:.2}", r.received_bytes_per_byte));
        format!(
            "any {} of {} may be lost, stored {:.2}{repair}",
            figures.tolerance, figures.nodes, figures.stored_bytes_per_byte
        )
    }

    fn tell(&self) {
        self.tell_figures();
        self.tell_layout();
        self.tell_generator();
        self.tell_losses();
        let header = ["PROGRAM", "OPERATIONS", "ADDITIONS", "MULTIPLICATIONS", "TEMPORARIES", "OUTPUTS"];
        let row = |size: &NamedSize| {
            let counts = [size.operations, size.additions, size.multiplications, size.temporaries, size.outputs];
            [vec![size.program.clone()], counts.map(|count| count.to_string()).to_vec()].concat()
        };
        let rows: Vec<_> =
            std::iter::once(header.map(str::to_owned).to_vec()).chain(self.programs.iter().map(row)).collect();
        say(format_args!("\nPrograms, in symbols\n{}", indented(&render::table(&rows, &[1, 2, 3, 4, 5]))));
    }

    fn tell_figures(&self) {
        let figures = &self.figures;
        let any =
            if figures.tolerance == 1 { "any one node".to_owned() } else { format!("any {} nodes", figures.tolerance) };
        let proved = match figures.tolerance_known_by {
            Evidence::Proof => "proved",
            Evidence::Sample => "tested with a sample",
            Evidence::Construction => "by construction; not tested here",
        };
        say(format_args!("{}\n  {}\n  {}\n\n", figures.code, self.description, self.source));
        say(format_args!("  needs {} nodes and survives the loss of {any} ({proved})\n", figures.nodes));
        let reads = if figures.systematic { "reads touch only the requested data" } else { "every read decodes" };
        say(format_args!("  stores {:.2} bytes for each byte of data; {reads}\n", figures.stored_bytes_per_byte));
        if figures.sub_symbols > 1 {
            say(format_args!("  each cell is cut into {} symbols\n", figures.sub_symbols));
        }
        const COMPUTING: &str = ", if nodes compute before they send";
        let tell = |lost: &str, of: &str, repair: &Repair, condition: &str| {
            let Repair { received_bytes_per_byte, requests, computing_nodes, read_bytes_per_byte } = repair;
            let nodes = if *computing_nodes > 0.0 {
                format!("{requests:.1} nodes, which read {read_bytes_per_byte:.2}")
            } else {
                format!("{requests:.1} nodes")
            };
            say(format_args!(
                "  rebuilding {lost} receives {received_bytes_per_byte:.2} times {of} from {nodes}{condition}\n"
            ));
        };
        let tell_least = |least: Option<f64>| {
            if let Some(least) = least {
                say(format_args!("    (the least by theory is {least:.2})\n"));
            }
        };
        if let Some(repair) = &figures.repair {
            tell("a lost node", "its bytes", repair, "");
        }
        if let Some(repair) = &figures.repair_if_nodes_compute {
            tell("a lost node", "its bytes", repair, COMPUTING);
        }
        tell_least(figures.repair_least_bytes_per_byte);
        if let Some(two) = &figures.repair_of_two {
            let (lost, of) = ("two lost nodes together", "the bytes of one");
            tell(lost, of, &two.if_nodes_send, "");
            if let Some(repair) = &two.if_nodes_compute {
                tell(lost, of, repair, COMPUTING);
            }
            tell_least(two.least_bytes_per_byte);
            if two.pairs < figures.nodes * (figures.nodes - 1) / 2 {
                say(format_args!("    (a sample of {} pairs, evenly spread)\n", two.pairs));
            }
        }
        if let Some(locality) = figures.locality {
            let enough = if locality == 1 { "one node is".to_owned() } else { format!("{locality} nodes are") };
            say(format_args!("  {enough} enough to rebuild any node\n"));
        }
        if figures.nodes_repaired < figures.nodes {
            say(format_args!("  (rebuilding: a sample of {} nodes, evenly spread)\n", figures.nodes_repaired));
        }
        for group in self.groups.iter().take(MOST_ROWS) {
            say(format_args!("  nodes {} repair among themselves\n", ranges(group)));
        }
        if let Some(more) = more(self.groups.len(), MOST_ROWS) {
            say(format_args!("  and so do {more} more groups\n"));
        }
    }

    fn tell_layout(&self) {
        let nodes = self.layout.len().min(MOST_COLUMNS);
        let rows = self.layout[0].len().min(MOST_ROWS);
        let header = (0..nodes).map(|node| node.to_string()).collect();
        let cells = (0..rows).map(|row| self.layout[..nodes].iter().map(|node| node[row].clone()).collect());
        let table = render::table(&std::iter::once(header).chain(cells).collect::<Vec<_>>(), &[]);
        say(format_args!("\nLayout: a column per node; M data, C coded, ' again\n{}", indented(&table)));
        if let Some(more) = more(self.layout.len(), MOST_COLUMNS) {
            say(format_args!("  ... {more} more nodes\n"));
        }
        if let Some(more) = more(self.layout[0].len(), MOST_ROWS) {
            say(format_args!("  ... {more} more symbols on each node\n"));
        }
    }

    fn tell_generator(&self) {
        let FirstRows { rows, count } = &self.first_rows;
        if rows.is_empty() {
            return;
        }
        say(format_args!("\nCoded symbols, products in GF(2^8)\n"));
        for (index, row) in rows.iter().enumerate() {
            say(format_args!("  C{index} = {}\n", layout::sum(row)));
        }
        if let Some(more) = more(*count, MOST_ROWS) {
            say(format_args!("  ... {more} more\n"));
        }
    }

    fn tell_losses(&self) {
        let header = ["LOST", "PATTERNS", "TRIED", "SURVIVED", "SHARE"].map(str::to_owned).to_vec();
        let row = |losses: &Losses| {
            let patterns = if losses.patterns == u64::MAX { "many".to_owned() } else { losses.patterns.to_string() };
            let tried = if losses.exact { "all".to_owned() } else { losses.tried.to_string() };
            vec![losses.lost.to_string(), patterns, tried, losses.decodable.to_string(), losses.share()]
        };
        let rows: Vec<_> = std::iter::once(header).chain(self.losses.iter().map(row)).collect();
        say(format_args!("\nLosses\n"));
        if !self.losses.is_empty() {
            say(format_args!("{}", indented(&render::table(&rows, &[0, 1, 2, 3, 4]))));
        }
        if self.losses.last().map_or(0, |losses| losses.lost) < self.most_lost {
            let code = &self.figures.code;
            say(format_args!("  other losses are not computed here; `weft codes check {code}` tries a sample\n"));
        }
        say(format_args!("  nothing survives the loss of {} or more\n", self.most_lost + 1));
        if let Some(Unavailability { node_availability, share_of_time, error }) = &self.unavailability {
            let share = match *error {
                0.0 => format!("{share_of_time:.2e}"),
                // A sample without the rare patterns says no more.
                error if error >= *share_of_time => format!("less than {:.1e}", share_of_time + error),
                error => format!("{share_of_time:.1e} ± {error:.0e}"),
            };
            say(format_args!(
                "  with nodes there {} % of the time, a file cannot be read {share} of the time\n",
                100.0 * node_availability
            ));
        }
        if let Some(Overhead { by_peeling, by_elimination, error, worst }) = &self.overhead {
            let error = if *error > 0.0 { format!(" ± {error:.3}") } else { String::new() };
            let worst = worst.map_or(String::new(), |worst| format!(", from any {worst:.3} times as many for sure"));
            say(format_args!(
                "  read in random order, all data follow from {by_elimination:.4}{error} times as many nodes as there are data nodes, by \
                 peeling alone from {by_peeling:.4}{error}{worst}\n"
            ));
        }
    }
}

/// Numbers of losses worth telling: all where they are few, else where the share falls.
fn telling(tolerance: usize, most_lost: usize) -> Vec<usize> {
    if most_lost <= MOST_ROWS {
        return (1..=most_lost).collect();
    }
    let around = tolerance..=(tolerance + MOST_ROWS - 3).min(most_lost);
    let mut told: Vec<usize> = [1].into_iter().chain(around).chain([most_lost]).filter(|&lost| lost > 0).collect();
    told.sort_unstable();
    told.dedup();
    told
}

fn rows(matrix: &Matrix) -> Vec<Vec<u8>> {
    (0..matrix.rows()).map(|row| matrix.row(row).to_vec()).collect()
}

/// Outputs of the encode program that are coded symbols and no duplicates.
fn coded_outputs(shape: &Shape, symbols: &[Symbol]) -> Vec<usize> {
    let outputs = symbols.iter().zip(&shape.contents).filter(|(_, content)| **content == Content::Coded);
    let is_new = |symbol: &Symbol| symbol.kind == Kind::Coded && !symbol.is_duplicate;
    outputs.enumerate().filter(|(_, (symbol, _))| is_new(symbol)).map(|(output, _)| output).collect()
}

/// Encoding, the repair of the first node, and decoding of all data with as many first nodes lost as may be.
fn programs(code: &dyn Code) -> Vec<NamedSize> {
    let shape = code.shape();
    let named = |program: String, size: Size, outputs| {
        let Size { ops: operations, additions, multiplications, temporaries } = size;
        NamedSize { program, operations, additions, multiplications, temporaries, outputs }
    };
    let mut programs = vec![named("encode".to_owned(), analysis::size(code.encode()), code.encode().output_count)];
    let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
    let have = |lost_count| Offers((0..shape.n).map(|shard| (shard >= lost_count).then_some(offer)).collect());
    let mut add = |name: String, wanted, lost_count| {
        if let Ok(plan) = code.plan(&wanted, &have(lost_count)) {
            programs.push(named(name, analysis::size(&plan.program), plan.program.output_count));
        }
    };
    add("repair node 0".to_owned(), Wanted::Shards(vec![0]), 1);
    if shape.tolerance > 1 {
        let lost: Vec<usize> = (0..shape.tolerance).collect();
        add(format!("repair nodes {}", ranges(&lost)), Wanted::Shards(lost), shape.tolerance);
    }
    programs
}

/// `0-3, 8`.
fn ranges(numbers: &[usize]) -> String {
    let mut numbers = numbers.to_vec();
    numbers.sort_unstable();
    let run = |run: &[usize]| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    };
    numbers.chunk_by(|a, b| a + 1 == *b).map(run).collect::<Vec<_>>().join(", ")
}

fn more(count: usize, shown: usize) -> Option<usize> {
    count.checked_sub(shown).filter(|&more| more > 0)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
#[path = "show_tests.rs"]
mod tests;
