//! Choices as pictures: what each code stores, beside what that buys.

use super::Choice;
use crate::experiment::{Axis, Sample};
use crate::models::durability::GIB;

/// What is shown over the stored bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Picture {
    /// How safe.
    Loss,
    /// How dear to repair.
    Repair,
    /// How slow with a node away.
    DegradedRead,
}

impl Picture {
    /// All of them.
    pub const ALL: [Picture; 3] = [Picture::Loss, Picture::Repair, Picture::DegradedRead];

    /// Its heading.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Picture::Loss => "Storage and safety",
            Picture::Repair => "Storage and repair",
            Picture::DegradedRead => "Storage and reads with a node away",
        }
    }

    /// From left to right.
    #[must_use]
    pub fn x() -> Axis {
        Axis::linear("stored bytes per byte of data")
    }

    /// From bottom to top: less is better.
    #[must_use]
    pub fn y(self) -> Axis {
        match self {
            Picture::Loss => Axis::logarithmic("chance that anything is lost in a year"),
            Picture::Repair => Axis::logarithmic("received to repair a node (GiB)"),
            Picture::DegradedRead => Axis::logarithmic("seconds to read a typical file"),
        }
    }

    fn value(self, choice: &Choice) -> f64 {
        match self {
            Picture::Loss => choice.annual_loss,
            Picture::Repair => choice.repair.bytes / GIB,
            Picture::DegradedRead => choice.degraded_read_seconds,
        }
    }
}

/// The samples of a picture, a line for each family. Of a family only codes are shown that no other of it beats, with as many bytes
/// stored or fewer.
#[must_use]
pub fn samples<'a>(picture: Picture, figure: &str, choices: impl Iterator<Item = &'a Choice>) -> Vec<Sample> {
    let mut dots: Vec<(&str, f64, f64)> = choices
        .map(|choice| {
            let family = choice.code.split(':').next().unwrap_or_default();
            (family, choice.stored_per_byte, picture.value(choice))
        })
        .collect();
    dots.sort_by(|one, other| one.0.cmp(other.0).then(one.1.total_cmp(&other.1)).then(one.2.total_cmp(&other.2)));
    let mut samples = Vec::new();
    for family in dots.chunk_by(|one, other| one.0 == other.0) {
        let mut least = f64::INFINITY;
        for (name, stored, value) in family.iter().filter(|dot| dot.2.is_finite()) {
            if *value < least {
                least = *value;
                samples.push(Sample::exact(figure, name, *stored, *value));
            }
        }
    }
    samples
}

#[cfg(test)]
#[path = "pictures_tests.rs"]
mod tests;
