//! What an experiment is: points to measure, samples, and how they are shown.

use crate::error::LabError;
use crate::rig::Bench;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Seconds: shows that everything works, with wide errors.
    Small,
    /// The paper's own sizes.
    Paper,
}

impl Scale {
    /// One of two values.
    #[must_use]
    pub fn choose<T>(self, small: T, paper: T) -> T {
        match self {
            Scale::Small => small,
            Scale::Paper => paper,
        }
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.choose("small", "paper"))
    }
}

impl FromStr for Scale {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Scale, LabError> {
        [Scale::Small, Scale::Paper]
            .into_iter()
            .find(|scale| scale.to_string() == text)
            .ok_or_else(|| LabError::Scale { text: text.to_owned() })
    }
}

/// What an experiment is about, in words.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// As in `weft lab run NAME`.
    pub name: &'static str,
    /// A heading.
    pub title: &'static str,
    /// The paper, and what of it is reproduced.
    pub source: &'static str,
    /// What is measured, and how, in a few sentences.
    pub method: &'static str,
}

/// One measured value: a dot of a figure, and a line of its table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// [`Figure::name`].
    pub figure: String,
    /// Which line of the figure.
    pub series: String,
    /// In the unit of the figure's first axis.
    pub x: f64,
    /// In the unit of its second axis.
    pub y: f64,
    /// Half of the interval that holds the true value 19 times of 20; 0: the value is exact.
    pub error: f64,
}

impl Sample {
    /// A value that no chance has changed.
    #[must_use]
    pub fn exact(figure: &str, series: &str, x: f64, y: f64) -> Sample {
        Sample { figure: figure.to_owned(), series: series.to_owned(), x, y, error: 0.0 }
    }

    /// A mean of samples with this standard error.
    #[must_use]
    pub fn estimated(figure: &str, series: &str, x: f64, y: f64, standard_error: f64) -> Sample {
        Sample { error: NINETEEN_OF_TWENTY * standard_error, ..Sample::exact(figure, series, x, y) }
    }
}

/// Standard errors to either side that hold the true mean 19 times of 20.
pub const NINETEEN_OF_TWENTY: f64 = 1.96;

/// One direction of a figure.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    /// What is shown, with its unit in brackets.
    pub label: &'static str,
    /// Is each step ten times the one before?
    pub logarithmic: bool,
}

impl Axis {
    /// Equal steps.
    #[must_use]
    pub const fn linear(label: &'static str) -> Axis {
        Axis { label, logarithmic: false }
    }

    /// Powers of ten.
    #[must_use]
    pub const fn logarithmic(label: &'static str) -> Axis {
        Axis { label, logarithmic: true }
    }
}

/// A plot with its table.
#[derive(Clone, Debug)]
pub struct Figure {
    /// As samples name it.
    pub name: &'static str,
    /// A heading, with the number in the paper where there is one.
    pub title: &'static str,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// What the paper prints, drawn beside ours; the series say where it stands.
    pub printed: Vec<Sample>,
}

/// What came out, in sentences made of the samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What agrees with the paper.
    pub agrees: String,
    /// What differs, and why.
    pub differs: String,
}

/// A part of an experiment that is measured at once: the step in which a run goes on.
pub struct Point {
    /// Unique in its experiment.
    pub name: String,
    measure: Measure,
}

enum Measure {
    Computed(Box<Computed>),
    Real(Box<Real>),
}

/// Takes the samples of a point, with chance of its own; a sentence where that cannot be done.
type Computed = dyn Fn(&mut ChaCha8Rng) -> Result<Vec<Sample>, String>;

/// The same, with real daemons and a clock.
type Real = dyn Fn(&Bench, &mut ChaCha8Rng) -> Result<Vec<Sample>, String>;

impl Point {
    /// A point that is computed: counted or simulated. The same chance gives the same samples.
    pub fn new(
        name: impl Into<String>,
        measure: impl Fn(&mut ChaCha8Rng) -> Result<Vec<Sample>, String> + 'static,
    ) -> Point {
        Point { name: name.into(), measure: Measure::Computed(Box::new(measure)) }
    }

    /// A point that is measured with real transfers.
    pub fn real(
        name: impl Into<String>,
        measure: impl Fn(&Bench, &mut ChaCha8Rng) -> Result<Vec<Sample>, String> + 'static,
    ) -> Point {
        Point { name: name.into(), measure: Measure::Real(Box::new(measure)) }
    }

    /// Does it need a bench, and a machine that does nothing else?
    #[must_use]
    pub fn is_real(&self) -> bool {
        matches!(self.measure, Measure::Real(_))
    }

    /// Takes its samples.
    ///
    /// # Errors
    /// [`LabError::Point`].
    pub fn measure(&self, bench: &Bench, random: &mut ChaCha8Rng) -> Result<Vec<Sample>, LabError> {
        let samples = match &self.measure {
            Measure::Computed(measure) => measure(random),
            Measure::Real(measure) => measure(bench, random),
        };
        samples.map_err(|detail| LabError::Point { point: self.name.clone(), detail })
    }
}

/// A paper's experiment, or one of ours.
pub trait Experiment: Sync {
    /// What it is about.
    fn about(&self) -> About;

    /// All that is to be measured, in order.
    fn points(&self, scale: Scale) -> Vec<Point>;

    /// How samples are shown.
    fn figures(&self) -> Vec<Figure>;

    /// What the samples say.
    fn verdict(&self, samples: &[Sample]) -> Verdict;
}
