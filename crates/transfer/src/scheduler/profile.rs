//! How a download goes about it: the parameters of the wide-area study (`papers`: Collins and Plank, *Assessing the Performance of
//! Erasure Codes in the Wide-Area*, sections 5.1 and 6.1), and the profile that needs none.

use std::fmt;
use std::str::FromStr;

/// Settings of a download. [`Profile::default`] is `adaptive`; the others are there to be compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Profile {
    /// T: blocks under way at one time.
    pub transfers: usize,
    /// R: how often the same work may be under way at one time; 1: a block is asked of nobody else until it has failed.
    pub copies: u32,
    /// When work is given to others too.
    pub hedging: Hedging,
    /// Which of the shards that would do are asked.
    pub selection: Selection,
    /// Are blocks that hold data better than others that come as fast?
    pub preference: Preference,
    /// Which set comes next.
    pub order: Order,
    /// Static: a block that takes longer has failed. `None`: as the engine is set.
    pub timeout_ms: Option<u64>,
    /// Data bytes of sets begun and not yet delivered; one set at least.
    pub window_bytes: u64,
}

/// When work that is under way is given to others too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hedging {
    /// P: once so many other blocks have come since it was asked for.
    Progress {
        /// How many; the study's progress in sets times the set's blocks.
        blocks: u64,
    },
    /// Once it takes much longer than its node or the others do, while that costs no more extra bytes than this
    /// part of all; and whatever it costs once it takes so long that its node must be in trouble.
    Late {
        /// Extra bytes in a hundred.
        extra_percent: u32,
    },
}

/// Which shards are asked, of those that suffice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Of the fastest nodes (`fastest0`).
    Fastest,
    /// Of the nodes that are soonest done, were each of the blocks under way to it as long (`fastest1`).
    SoonestDone,
    /// Of the nodes that are asked least now.
    Lightest,
    /// The cheapest by the nodes' prices, of nodes that are well and not much slower than most.
    Cheapest,
}

/// Data or anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Data blocks always before others (`db-first`).
    DataFirst,
    /// Whatever the selection says (`dont-care`).
    Any,
}

/// Which set comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first that lacks something: the beginning is there soonest.
    Streaming,
    /// The one whose next block comes soonest: the whole is there soonest.
    Whole,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            transfers: 256,
            copies: u32::MAX,
            hedging: Hedging::Late { extra_percent: 5 },
            selection: Selection::Cheapest,
            preference: Preference::DataFirst,
            order: Order::Streaming,
            timeout_ms: None,
            window_bytes: 64 << 20,
        }
    }
}

impl Profile {
    /// The study's: `T` 20, no redundancy, time-outs of ten seconds, whole file.
    pub fn fixed(selection: Selection) -> Self {
        Self {
            transfers: 20,
            copies: 1,
            hedging: Hedging::Progress { blocks: 30 },
            selection,
            preference: Preference::Any,
            order: Order::Streaming,
            timeout_ms: Some(10_000),
            window_bytes: 64 << 20,
        }
    }

    pub(super) fn learns(&self) -> bool {
        self.selection == Selection::Cheapest
    }
}

/// Text that is no profile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{part}` is no part of a read profile: write `adaptive`, or `fastest0`, `fastest1` or `lightest` followed by any of `T=20`, \
     `R=2`, `P=30`, `timeout-ms=10000`, `window-mib=64`, `data-first` or `any`, `streaming` or `whole`, with commas between"
)]
pub struct ProfileError {
    /// What was not understood.
    pub part: String,
}

impl FromStr for Profile {
    type Err = ProfileError;

    /// `adaptive`, or as in `fastest1,T=20,R=2,P=30,data-first,whole,timeout-ms=10000,window-mib=64`.
    fn from_str(text: &str) -> Result<Self, ProfileError> {
        let mut parts = text.split(',').map(str::trim);
        let wrong = |part: &str| ProfileError { part: part.to_owned() };
        let mut profile = match parts.next().unwrap_or_default() {
            "adaptive" => Self::default(),
            "fastest0" => Self::fixed(Selection::Fastest),
            "fastest1" => Self::fixed(Selection::SoonestDone),
            "lightest" => Self::fixed(Selection::Lightest),
            other => return Err(wrong(other)),
        };
        let is_fixed = !profile.learns();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let number = || value.parse::<u32>().ok().filter(|number| *number > 0).ok_or_else(|| wrong(part));
            match name {
                "T" => profile.transfers = number()? as usize,
                "R" if is_fixed => profile.copies = number()?,
                "P" if is_fixed => profile.hedging = Hedging::Progress { blocks: number()?.into() },
                "extra-percent" if !is_fixed => profile.hedging = Hedging::Late { extra_percent: number()? },
                "timeout-ms" => profile.timeout_ms = Some(number()?.into()),
                "window-mib" => profile.window_bytes = u64::from(number()?) << 20,
                "data-first" if value.is_empty() => profile.preference = Preference::DataFirst,
                "any" if value.is_empty() => profile.preference = Preference::Any,
                "streaming" if value.is_empty() => profile.order = Order::Streaming,
                "whole" if value.is_empty() => profile.order = Order::Whole,
                _ => return Err(wrong(part)),
            }
        }
        Ok(profile)
    }
}

/// As [`Profile::from_str`] reads it.
impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.selection {
            Selection::Fastest => "fastest0",
            Selection::SoonestDone => "fastest1",
            Selection::Lightest => "lightest",
            Selection::Cheapest => "adaptive",
        })?;
        write!(f, ",T={}", self.transfers)?;
        match self.hedging {
            Hedging::Progress { blocks } => write!(f, ",R={},P={blocks}", self.copies)?,
            Hedging::Late { extra_percent } => write!(f, ",extra-percent={extra_percent}")?,
        }
        if let Some(timeout_ms) = self.timeout_ms {
            write!(f, ",timeout-ms={timeout_ms}")?;
        }
        f.write_str(match self.preference {
            Preference::DataFirst => ",data-first",
            Preference::Any => ",any",
        })?;
        f.write_str(match self.order {
            Order::Streaming => ",streaming",
            Order::Whole => ",whole",
        })?;
        write!(f, ",window-mib={}", self.window_bytes >> 20)
    }
}

#[cfg(test)]
#[path = "profile_tests.rs"]
mod tests;
