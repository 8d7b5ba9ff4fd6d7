//! A figure as SVG: lines with markers and error bars, legible without colour.
//!
//! Every series has a colour, a dash and a marker of its own; what a paper prints is drawn hollow. The legend stands beside
//! the plot, where no point lies.

use crate::error::LabError;
use crate::experiment::{Axis, Figure, Sample};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// In pixels: a page's width, and a legend that holds some 40 letters.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 460;
const LEGEND_WIDTH: u32 = 300;
const LEGEND_LINE: i32 = 20;

const FONT: &str = "sans-serif";
const MARKER: i32 = 4;

/// Okabe, Ito: Color Universal Design (2008), without yellow: told apart by people who see colours otherwise.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(0, 0, 0),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
];

/// Length of a dash and of the space after it; none: a whole line.
const DASHES: [(i32, i32); 4] = [(0, 0), (8, 4), (2, 3), (12, 3)];

/// Looks that differ in colour, dash or marker: the least common multiple of their counts.
const LOOKS: usize = 28;

/// How series look, so that one looks the same in all figures of a page.
#[derive(Debug, Default)]
pub struct Looks(BTreeMap<String, usize>);

impl Looks {
    /// A look for each series of a figure. A new one gets a colour that none of the figure has, and a look that none of the page
    /// has, as far as there are any left.
    fn of(&mut self, names: &[&str]) -> Vec<usize> {
        let mut taken: BTreeSet<usize> = names.iter().filter_map(|name| self.0.get(*name)).copied().collect();
        let mut looks = Vec::new();
        for name in names {
            let look = self.0.get(*name).copied().unwrap_or_else(|| {
                let is_seen = |look: usize| self.0.values().any(|other| *other == look);
                let has_colour = |look: usize| taken.iter().any(|other| other % COLOURS.len() == look % COLOURS.len());
                let free = (0..LOOKS).filter(|look| !taken.contains(look));
                free.min_by_key(|look| (has_colour(*look), is_seen(*look), *look)).unwrap_or(names.len())
            });
            taken.insert(look);
            self.0.insert((*name).to_owned(), look);
            looks.push(look);
        }
        looks
    }
}

/// A line of a figure.
struct Series<'a> {
    name: &'a str,
    samples: Vec<&'a Sample>,
    /// What a paper prints.
    printed: bool,
    look: usize,
}

/// The figure's samples, in the order of the first of each series, and then what is printed.
fn series<'a>(figure: &'a Figure, samples: &'a [Sample], looks: &mut Looks) -> Vec<Series<'a>> {
    let mut all: Vec<Series<'a>> = Vec::new();
    let ours = samples.iter().filter(|sample| sample.figure == figure.name).map(|sample| (sample, false));
    for (sample, printed) in ours.chain(figure.printed.iter().map(|sample| (sample, true))) {
        match all.iter_mut().find(|series| series.name == sample.series && series.printed == printed) {
            Some(series) => series.samples.push(sample),
            None => all.push(Series { name: &sample.series, samples: vec![sample], printed, look: 0 }),
        }
    }
    let names: Vec<&str> = all.iter().map(|series| series.name).collect();
    for (series, look) in all.iter_mut().zip(looks.of(&names)) {
        series.look = look;
        series.samples.sort_by(|one, other| one.x.total_cmp(&other.x));
    }
    all
}

impl Axis {
    /// Where a value stands on the axis; `None` where a logarithm has no place for it.
    fn place(&self, value: f64) -> Option<f64> {
        let place = if self.logarithmic { value.log10() } else { value };
        place.is_finite().then_some(place)
    }

    /// A few letters: between powers of ten two digits say where one is.
    fn label_of(&self, place: f64) -> String {
        let value = if self.logarithmic { 10f64.powf(place) } else { return number(place) };
        match place == place.round() && place.abs() > 2.0 {
            true => format!("1e{place}"),
            false if (1e-3..1e5).contains(&value) => number(format!("{value:.1e}").parse().unwrap_or(value)),
            false => format!("{value:.1e}"),
        }
    }
}

/// A number in as few letters as tell it: four digits, and a power of ten where it is far from 1.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-3..1e5).contains(&value.abs()) {
        return format!("{value:.3e}");
    }
    let digits = (3 - value.abs().log10().floor() as i32).max(0) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Draws a figure of a page with these looks.
///
/// # Errors
/// [`LabError::Plot`].
pub fn svg(figure: &Figure, samples: &[Sample], looks: &mut Looks) -> Result<String, LabError> {
    let mut text = String::new();
    draw(figure, &series(figure, samples, looks), &mut text)
        .map_err(|error| LabError::Plot { figure: figure.name.to_owned(), detail: error.to_string() })?;
    Ok(text)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(figure: &Figure, all: &[Series<'_>], text: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(text, (WIDTH, HEIGHT)).into_drawing_area();
    root.fill(&WHITE)?;
    let (plot, legend) = root.split_horizontally(WIDTH - LEGEND_WIDTH);
    let places = |of: fn(&Sample) -> [f64; 2], axis: Axis| {
        let samples = all.iter().flat_map(|series| &series.samples);
        range(samples.flat_map(|sample| of(sample)).filter_map(|value| axis.place(value)))
    };
    let x = places(|sample| [sample.x, sample.x], figure.x);
    let y = places(|sample| [sample.y, if sample.error > 0.0 { sample.y + sample.error } else { sample.y }], figure.y);
    let y = if figure.y.logarithmic { y } else { from_zero(y) };
    let mut chart = ChartBuilder::on(&plot)
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(78)
        .build_cartesian_2d(x, y.clone())?;
    chart
        .configure_mesh()
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .axis_desc_style((FONT, 15))
        .label_style((FONT, 13))
        .x_desc(figure.x.label)
        .y_desc(figure.y.label)
        .x_label_formatter(&|place| figure.x.label_of(*place))
        .y_label_formatter(&|place| figure.y.label_of(*place))
        .draw()?;
    for series in all {
        let place = |sample: &Sample| Some((figure.x.place(sample.x)?, figure.y.place(sample.y)?));
        let places: Vec<(f64, f64)> = series.samples.iter().filter_map(|sample| place(sample)).collect();
        if !series.printed {
            match series.dash() {
                (0, _) => {
                    chart.draw_series(LineSeries::new(places.clone(), series.colour().stroke_width(2)))?;
                }
                (dash, space) => {
                    let style = series.colour().stroke_width(2);
                    chart.draw_series(DashedLineSeries::new(places.clone(), dash, space, style))?;
                }
            }
        }
        for sample in series.samples.iter().filter(|sample| sample.error > 0.0) {
            let Some((x, middle)) = place(sample) else { continue };
            let high = figure.y.place(sample.y + sample.error).unwrap_or(middle);
            // On a logarithmic axis an error that reaches zero reaches the floor.
            let low = figure.y.place(sample.y - sample.error).unwrap_or(y.start);
            chart.draw_series([ErrorBar::new_vertical(
                x,
                low.max(y.start),
                middle,
                high,
                series.colour().filled(),
                8,
            )])?;
        }
        for (x, y) in places {
            let place = chart.backend_coord(&(x, y));
            mark(&root, place, series)?;
        }
    }
    tell(&legend, all)?;
    root.present()?;
    Ok(())
}

impl Series<'_> {
    fn colour(&self) -> RGBColor {
        if self.printed { RGBColor(60, 60, 60) } else { COLOURS[self.look % COLOURS.len()] }
    }

    fn dash(&self) -> (i32, i32) {
        DASHES[self.look % DASHES.len()]
    }
}

/// A marker of the series: a circle, a square, a triangle or a cross; hollow where a paper prints the value.
fn mark(area: &Area<'_>, (x, y): (i32, i32), series: &Series<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let style = match series.printed {
        true => series.colour().stroke_width(2),
        false => series.colour().filled(),
    };
    let box_of = |size: i32| [(x - size, y - size), (x + size, y + size)];
    match series.look % 4 {
        0 => area.draw(&Circle::new((x, y), MARKER, style))?,
        1 => area.draw(&Rectangle::new(box_of(MARKER - 1), style))?,
        2 => {
            let (half, top, foot) = (MARKER + 1, MARKER + 2, MARKER - 1);
            let corners = [(x, y - top), (x + half, y + foot), (x - half, y + foot), (x, y - top)];
            match series.printed {
                true => area.draw(&PathElement::new(corners, style))?,
                false => area.draw(&Polygon::new(corners, style))?,
            }
        }
        _ => area.draw(&Cross::new((x, y), MARKER, series.colour().stroke_width(2)))?,
    }
    Ok(())
}

/// The names of the series, each with its line and marker.
fn tell(legend: &Area<'_>, all: &[Series<'_>]) -> Result<(), Box<dyn std::error::Error>> {
    for (index, series) in all.iter().enumerate() {
        let y = 24 + index as i32 * LEGEND_LINE;
        if !series.printed {
            let line = [(6, y), (38, y)];
            match series.dash() {
                (0, _) => legend.draw(&PathElement::new(line, series.colour().stroke_width(2)))?,
                (dash, space) => {
                    let mut at = line[0].0;
                    while at < line[1].0 {
                        let end = (at + dash).min(line[1].0);
                        legend.draw(&PathElement::new([(at, y), (end, y)], series.colour().stroke_width(2)))?;
                        at = end + space;
                    }
                }
            }
        }
        mark(legend, (22, y), series)?;
        legend.draw(&Text::new(series.name.to_owned(), (46, y - 7), (FONT, 13)))?;
    }
    Ok(())
}

/// Amounts that differ much are compared from zero.
fn from_zero(range: Range<f64>) -> Range<f64> {
    if range.end > 0.0 && range.start < range.end / 2.0 { range.start.min(0.0)..range.end } else { range }
}

/// A range that holds all places with some room; of none, any.
fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if low > high {
        return 0.0..1.0;
    }
    let room = if high > low { (high - low) * 0.06 } else { high.abs().max(1.0) * 0.1 };
    low - room..high + room
}

#[cfg(test)]
#[path = "plot_tests.rs"]
mod tests;
