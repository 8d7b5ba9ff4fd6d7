//! What a service asks of its users: lines `name = value` of a file that only its owner may read.

use std::collections::BTreeMap;
use std::fmt;

/// Settings that nobody is shown: not by `Debug`, not in an error.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(BTreeMap<String, String>);

/// Text that holds no credentials; no value of it is repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CredentialsError {
    /// Neither `name = value`, a comment nor empty.
    #[error("line {0} is not `name = value`")]
    Line(usize),
    /// A name that the service does not have.
    #[error("line {line} sets `{name}`, which is not asked for: there is {known}")]
    UnknownName {
        /// From 1.
        line: usize,
        /// What it sets.
        name: String,
        /// What may be set.
        known: String,
    },
    /// A name twice.
    #[error("line {line} sets `{name}` again")]
    Twice {
        /// From 1.
        line: usize,
        /// What it sets.
        name: String,
    },
    /// Bytes that are no text.
    #[error("it is no text")]
    NotText,
}

impl Credentials {
    /// From a file's text; `names` are those that may be set. Empty lines and those that begin with `#` say nothing.
    ///
    /// # Errors
    /// A line that is none, or that sets what cannot be set.
    pub fn parse(text: &str, names: impl Iterator<Item = &'static str>) -> Result<Self, CredentialsError> {
        let names: Vec<_> = names.collect();
        let mut settings = BTreeMap::new();
        for (line, text) in text.lines().enumerate().map(|(index, text)| (index + 1, text.trim())) {
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            let (name, value) = text.split_once('=').ok_or(CredentialsError::Line(line))?;
            let (name, value) = (name.trim(), value.trim());
            if !names.contains(&name) {
                // What stands before an equals sign may be part of a secret.
                let shown = if name.len() <= 20 && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_') {
                    name
                } else {
                    "(not shown)"
                };
                let known = names.join(", ");
                return Err(CredentialsError::UnknownName { line, name: shown.to_owned(), known });
            }
            if value.is_empty() {
                return Err(CredentialsError::Line(line));
            }
            if settings.insert(name.to_owned(), value.to_owned()).is_some() {
                return Err(CredentialsError::Twice { line, name: name.to_owned() });
            }
        }
        Ok(Self(settings))
    }

    /// From a node's record; the inverse of [`Self::to_bytes`].
    ///
    /// # Errors
    /// As [`Self::parse`].
    pub fn from_bytes(bytes: &[u8], names: impl Iterator<Item = &'static str>) -> Result<Self, CredentialsError> {
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Self::parse(std::str::from_utf8(bytes).map_err(|_| CredentialsError::NotText)?, names)
    }

    /// For a node's record, which nobody is shown.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().map(|(name, value)| format!("{name}={value}\n")).collect::<String>().into_bytes()
    }

    /// A setting's value.
    #[cfg(feature = "foreign")]
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(not shown)")
    }
}

#[cfg(test)]
#[path = "credentials_tests.rs"]
mod tests;
