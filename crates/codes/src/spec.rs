//! Spec strings: `family:parameters` -> code.

use crate::code::Code;
use crate::families::{Problem, families};
use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Why a spec string names no code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    /// There is no colon.
    #[error("{spec:?} is not a code; write family:parameters, e.g. rs:4+2 (families: {})", known())]
    NotASpec {
        /// What was given, shortened.
        spec: String,
    },
    /// No family has this name.
    #[error("{family:?} is not a family of codes; choose one of {}", known())]
    UnknownFamily {
        /// What was given, shortened.
        family: String,
    },
    /// The parameters are not written as the family wants them.
    #[error("{spec:?} is not written as {syntax}; write e.g. {example}")]
    Syntax {
        /// What was given, shortened.
        spec: String,
        /// How the family's specs are written.
        syntax: &'static str,
        /// One that works.
        example: &'static str,
    },
    /// There is no such code in the family.
    #[error("{spec:?} is impossible: {reason}; choose e.g. {example}")]
    Impossible {
        /// What was given, shortened.
        spec: String,
        /// Which bound it breaks.
        reason: String,
        /// One that works.
        example: &'static str,
    },
}

/// The code that a spec string names.
///
/// # Errors
/// [`SpecError`], one sentence that names the remedy.
pub fn parse(spec: &str) -> Result<Arc<dyn Code>, SpecError> {
    let Some((name, parameters)) = spec.split_once(':') else {
        return Err(SpecError::NotASpec { spec: shortened(spec) });
    };
    let Some(family) = families().iter().find(|family| family.name == name) else {
        return Err(SpecError::UnknownFamily { family: shortened(name) });
    };
    (family.build)(parameters).map_err(|problem| match problem {
        Problem::Syntax => SpecError::Syntax { spec: shortened(spec), syntax: family.syntax, example: family.example },
        Problem::Impossible(reason) => SpecError::Impossible { spec: shortened(spec), reason, example: family.example },
    })
}

fn known() -> String {
    families().iter().map(|family| family.name).collect::<Vec<_>>().join(", ")
}

/// The input may be anything, of any length; an error quotes its beginning.
fn shortened(text: &str) -> String {
    const QUOTED_CHARACTERS: usize = 40;
    match text.char_indices().nth(QUOTED_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
