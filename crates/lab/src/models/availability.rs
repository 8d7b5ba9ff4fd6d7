//! The chance that a file can be read when each of its nodes is there with some probability, independently.
//!
//! `availability = sum over the number j of lost shards of P(j are lost) * (share of the patterns of j that can be decoded)`.
//! Equation 2 of the CERN paper is the case in which that share is 1 up to `m` losses and 0 beyond (MDS). Other codes have
//! shares of their own, and to treat them as MDS flatters them.

use weft_codes::analysis::{self, Survival};
use weft_codes::families::ldpc::Profile;
use weft_codes::{Code, Erasures};

/// Of each number of lost shards, the share of the patterns that cost data.
#[derive(Clone, Debug, PartialEq)]
pub struct FatalShares {
    shares: Vec<Share>,
}

/// A share of patterns, counted or sampled.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// From 0, none, to 1, all.
    pub value: f64,
    /// 0 where all patterns were counted.
    pub standard_error: f64,
}

impl Share {
    const fn exact(value: f64) -> Share {
        Share { value, standard_error: 0.0 }
    }

    fn of(survival: &Survival) -> Share {
        let value = (survival.tried - survival.decodable) as f64 / survival.tried.max(1) as f64;
        if survival.is_exact() {
            return Share::exact(value);
        }
        // Of no fatal pattern in s samples the share may still be about 1/s (the rule of succession).
        let tried = survival.tried as f64;
        let cautious = (value * tried + 1.0) / (tried + 2.0);
        Share { value, standard_error: (cautious * (1.0 - cautious) / tried).sqrt() }
    }
}

impl FatalShares {
    /// Of a code: counted where that takes at most about `effort` element operations for a number of losses, else sampled by
    /// `seed`.
    ///
    /// # Errors
    /// A sentence, where the code's program is not sound.
    pub fn of(code: &dyn Code, effort: u64, seed: u64) -> Result<FatalShares, String> {
        let erasures = Erasures::new(code).map_err(|error| error.to_string())?;
        Ok(FatalShares::counted(&erasures, code.shape().tolerance, effort, seed))
    }

    /// The same of a code whose erasures are known, and that survives any `tolerance` losses.
    #[must_use]
    pub fn counted(erasures: &Erasures, tolerance: usize, effort: u64, seed: u64) -> FatalShares {
        let share = |lost| match lost <= tolerance {
            true => Share::exact(0.0),
            false => Share::of(&analysis::survival(erasures, lost, effort, seed)),
        };
        FatalShares { shares: (0..=erasures.shard_count()).map(share).collect() }
    }

    /// Of a code that survives any `tolerance` of `n` losses and no more.
    #[must_use]
    pub fn of_mds(n: usize, tolerance: usize) -> FatalShares {
        let share = |lost| Share::exact(if lost > tolerance { 1.0 } else { 0.0 });
        FatalShares { shares: (0..=n).map(share).collect() }
    }

    /// Of a graph whose undecodable sets were counted.
    #[must_use]
    pub fn of_graph(profile: &Profile) -> FatalShares {
        let n = profile.undecodable.len() - 1;
        let share = |lost| Share::exact(profile.undecodable[n - lost] as f64 / analysis::binomial(n, lost) as f64);
        FatalShares { shares: (0..=n).map(share).collect() }
    }

    /// By number of lost shards.
    #[must_use]
    pub fn shares(&self) -> &[Share] {
        &self.shares
    }

    /// The chance that data cannot be read when each shard is there with probability `availability`, and its standard error.
    #[must_use]
    pub fn failure(&self, availability: f64) -> (f64, f64) {
        let losses = binomial_distribution(self.shares.len() - 1, 1.0 - availability);
        let (mut failure, mut variance) = (0.0, 0.0);
        for (chance, share) in losses.into_iter().zip(&self.shares) {
            failure += chance * share.value;
            variance += (chance * share.standard_error).powi(2);
        }
        (failure, variance.sqrt())
    }
}

/// The chances that `0 ..= n` of `n` things happen, each with probability `chance`.
#[must_use]
pub fn binomial_distribution(n: usize, chance: f64) -> Vec<f64> {
    let (happens, not) = (chance.ln(), (1.0 - chance).ln());
    let mut choices = 0.0;
    let probability = |count: usize| {
        if count > 0 {
            choices += ((n + 1 - count) as f64 / count as f64).ln();
        }
        // 0 * ln 0 stands for a power of 0.
        let power = |exponent: usize, logarithm: f64| if exponent == 0 { 0.0 } else { exponent as f64 * logarithm };
        (choices + power(count, happens) + power(n - count, not)).exp()
    };
    (0..=n).map(probability).collect()
}

/// Equation 1 of the CERN paper: of `copies` of a whole file, at least one is there.
#[must_use]
pub fn failure_of_copies(copies: usize, availability: f64) -> f64 {
    (1.0 - availability).powi(copies as i32)
}

#[cfg(test)]
#[path = "availability_tests.rs"]
mod tests;
