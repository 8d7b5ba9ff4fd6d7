//! The report of a run: one page that needs nothing else, with plots, tables, printed figures and a verdict.

mod choices;

use crate::error::LabError;
use crate::experiment::{Experiment, Figure, Sample};
use crate::experiments;
use crate::plot::{self, Looks, number};
use crate::record::{RunInfo, read_info, read_samples};
use maud::{DOCTYPE, Markup, PreEscaped, html};
use std::fs;
use std::path::{Path, PathBuf};

pub use choices::{Ranked, choices};

const STYLE: &str = "
body { font: 16px/1.5 sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; color: #111; background: #fff }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
svg { max-width: 100%; height: auto }
table { border-collapse: collapse; font-size: 0.85rem }
th, td { border-bottom: 1px solid #ccc; padding: 0.15rem 0.8rem 0.15rem 0; text-align: right }
th:first-child, td:first-child { text-align: left }
summary { cursor: pointer } .about { color: #444 } dt { font-weight: bold }
";

/// Writes `report.html` into the directory of a run, and each of its figures as an SVG file; gives the page's path.
///
/// # Errors
/// Any [`LabError`].
pub fn report(directory: &Path) -> Result<PathBuf, LabError> {
    let info = read_info(directory)?;
    let experiment = experiments::find(&info.experiment)?;
    let (samples, complete) = read_samples(directory)?;
    let mut looks = Looks::default();
    let figures: Vec<(Figure, String)> = (experiment.figures().into_iter())
        .map(|figure| plot::svg(&figure, &samples, &mut looks).map(|svg| (figure, svg)))
        .collect::<Result<_, _>>()?;
    let write = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).map_err(LabError::file(&path)).map(|()| path)
    };
    for (figure, svg) in &figures {
        write(&format!("{}.svg", figure.name.replace(' ', "-")), svg)?;
    }
    write("report.html", &page(experiment, &info, &samples, complete, &figures).into_string())
}

fn page(
    experiment: &dyn Experiment,
    info: &RunInfo,
    samples: &[Sample],
    complete: usize,
    figures: &[(Figure, String)],
) -> Markup {
    let about = experiment.about();
    let points = experiment.points(info.scale).len();
    let verdict = (complete >= points).then(|| experiment.verdict(samples));
    let body = html! {
        p.about { (about.source) }
        p { (about.method) }
        @match &verdict {
            Some(verdict) => {
                dl {
                    dt { "What agrees" } dd { (verdict.agrees) }
                    dt { "What differs" } dd { (verdict.differs) }
                }
            }
            None => p { strong { (complete) " of " (points) " points are measured: run the experiment again to go on." } }
        }
        @for (figure, svg) in figures {
            h2 { (figure.title) }
            (PreEscaped(svg))
            (table(figure, samples))
        }
        h2 { "How this was measured" }
        p {
            code { "weft lab run " (info.experiment) " --scale " (info.scale) " --seed " (info.seed) }
            ", weft " (info.version) ", on " (info.machine) ". The samples are in " code { "data.jsonl" } " beside this page. "
            "Error bars and ± hold the true value 19 times of 20; values without them are exact, or were measured once."
        }
    };
    frame(about.title, &body)
}

/// A page that needs nothing else.
fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                h1 { (title) }
                (body)
            }
        }
    }
}

fn table(figure: &Figure, samples: &[Sample]) -> Markup {
    let ours = samples.iter().filter(|sample| sample.figure == figure.name).map(|sample| (sample, ""));
    let printed = figure.printed.iter().map(|sample| (sample, " (printed)"));
    html! {
        details {
            summary { "Table" }
            table {
                tr { th { "series" } th { (figure.x.label) } th { (figure.y.label) } th { "±" } }
                @for (sample, mark) in ours.chain(printed) {
                    tr {
                        td { (sample.series) (mark) }
                        td { (number(sample.x)) }
                        td { (number(sample.y)) }
                        td { @if sample.error > 0.0 { (number(sample.error)) } }
                    }
                }
            }
        }
    }
}
