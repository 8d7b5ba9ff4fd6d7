//! A page of ranked codes: pictures, a table, and behind each number how it was computed.

use super::frame;
use crate::error::LabError;
use crate::experiment::Figure;
use crate::models::choice::{self, Choice, Explained, Needs, Node, Picture};
use crate::plot::{self, Looks, number};
use maud::{Markup, PreEscaped, html};

/// Codes that are explained one by one; the others are in the table.
const EXPLAINED: usize = 40;

/// What the page is made of.
pub struct Ranked<'a> {
    /// What was asked, in a sentence.
    pub heading: &'a str,
    /// What was measured or assumed.
    pub notes: &'a [String],
    /// The nodes.
    pub nodes: &'a [Node],
    /// What is asked of a code.
    pub needs: &'a Needs,
    /// Best first.
    pub choices: &'a [Choice],
}

/// A column: its heading, its value, and the name of the explanation.
type Column = (&'static str, fn(&Choice) -> String, &'static str);

static COLUMNS: [Column; 10] = [
    ("stored per byte", |choice| number(choice.stored_per_byte), choice::STORED),
    ("room (GiB)", |choice| gib(choice.room_bytes), choice::ROOM),
    ("loss in a year", |choice| number(choice.annual_loss), choice::LOSS),
    ("repair (s)", |choice| number(choice.repair.seconds()), choice::REPAIR_TIME),
    ("repair receives (GiB)", |choice| gib(choice.repair.bytes), choice::REPAIR_BYTES),
    ("read (s)", |choice| number(choice.read_seconds), choice::READ),
    ("degraded read (s)", |choice| number(choice.degraded_read_seconds), choice::DEGRADED_READ),
    ("processor (s/GiB)", |choice| number(choice.cpu_seconds_per_gib), choice::PROCESSOR),
    ("a month", |choice| number(choice.month_price), choice::MONTH_PRICE),
    ("a repair's sending", |choice| number(choice.repair.price), choice::REPAIR_PRICE),
];

fn gib(bytes: f64) -> String {
    number(bytes / crate::models::durability::GIB)
}

/// The page.
///
/// # Errors
/// [`LabError::Plot`].
pub fn choices(ranked: &Ranked<'_>) -> Result<String, LabError> {
    let mut looks = Looks::default();
    let pictures: Vec<(Picture, String)> = Picture::ALL
        .into_iter()
        .map(|picture| draw(picture, ranked, &mut looks).map(|svg| (picture, svg)))
        .collect::<Result<_, _>>()?;
    let explained = &ranked.choices[..ranked.choices.len().min(EXPLAINED)];
    let body = html! {
        p { (ranked.heading) }
        @for note in ranked.notes { p.about { (note) } }
        (table(ranked.choices, explained.len()))
        @for (picture, svg) in &pictures {
            h2 { (picture.title()) }
            (PreEscaped(svg))
        }
        h2 { "How each number is computed" }
        @for choice in explained {
            h3 id=(anchor(&choice.code, "")) { (choice.code) }
            dl { @for line in choice::explain(choice, ranked.nodes, ranked.needs) { (line_of(&choice.code, &line)) } }
        }
    };
    Ok(frame("Which code suits these nodes", &body).into_string())
}

fn draw(picture: Picture, ranked: &Ranked<'_>, looks: &mut Looks) -> Result<String, LabError> {
    let name = picture.title();
    // What has no room is no choice.
    let fits = ranked.choices.iter().filter(|choice| choice.room_bytes >= ranked.needs.capacity_bytes);
    let figure = Figure { name, title: name, x: Picture::x(), y: picture.y(), printed: Vec::new() };
    plot::svg(&figure, &choice::samples(picture, name, fits), looks)
}

fn table(choices: &[Choice], explained: usize) -> Markup {
    html! {
        table {
            tr {
                th { "code" } th { "nodes" } th { "survives any" }
                @for (heading, ..) in &COLUMNS { th { (heading) } }
                th { "falls short" }
            }
            @for (place, choice) in choices.iter().enumerate() {
                tr {
                    td { (choice.code) } td { (choice.width) } td { (choice.tolerance) }
                    @for (_, value, name) in &COLUMNS {
                        @if place < explained {
                            td { a href={ "#" (anchor(&choice.code, name)) } { (value(choice)) } }
                        } @else {
                            td { (value(choice)) }
                        }
                    }
                    td { @if let Some(shortfall) = &choice.shortfall { (shortfall) } }
                }
            }
        }
    }
}

fn line_of(code: &str, line: &Explained) -> Markup {
    html! { dt id=(anchor(code, line.name)) { (line.name) } dd { (line.formula) } }
}

/// A place in the page.
fn anchor(code: &str, name: &str) -> String {
    format!("{code} {name}").trim_end().replace(' ', "-")
}

#[cfg(test)]
#[path = "choices_tests.rs"]
mod tests;
