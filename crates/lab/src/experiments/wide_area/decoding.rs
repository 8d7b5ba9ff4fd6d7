//! What decoding costs: simulated time has no processor, so operations are counted, and take time at stated rates. A client has
//! one processor, which computes each set once it has come, while others are under way.

use crate::network::{SetArrival, StoredFile};
use std::sync::Arc;
use weft_codes::{Code, Offer, Offers, Wanted, analysis};

/// The two kinds of code that the study compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ReedSolomon,
    Ldpc,
}

/// The client's processor and the way it decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    /// As the study has it: a dot product over all n blocks for each lost data block, and XORs for LDPC.
    Study,
    /// The operations of this program's own plans.
    Ours,
}

impl Processor {
    pub(super) const ALL: [Processor; 2] = [Processor::Study, Processor::Ours];
}

/// Galois-field multiplication and addition by tables, byte by byte, on a processor of 2.2 GHz of 2004.
const STUDY_MULTIPLIED_BYTES_PER_SECOND: f64 = 200e6;
/// XOR, a word at a time.
const STUDY_ADDED_BYTES_PER_SECOND: f64 = 1e9;
/// Any operation of this program's kernels, on one core.
const OURS_BYTES_PER_SECOND: f64 = 10e9;

/// Decoding of one code.
pub(super) struct Decoder {
    pub(super) code: Arc<dyn Code>,
    pub(super) kind: Kind,
}

impl Decoder {
    /// Seconds that both processors take to compute the lost data blocks of a set, in the order of [`Processor::ALL`].
    ///
    /// # Errors
    /// A sentence, where what has come does not suffice.
    pub(super) fn seconds(&self, file: &StoredFile, set: &SetArrival) -> Result<[f64; 2], String> {
        let n = self.code.shape().k;
        let lost: Vec<usize> = (0..n).filter(|shard| !set.arrived[*shard]).collect();
        if lost.is_empty() {
            return Ok([0.0; 2]);
        }
        let lost_count = lost.len();
        let offer = Offer { combines: false, request_price: 0, symbol_price: 1 };
        let offers = Offers(set.arrived.iter().map(|came| came.then_some(offer)).collect());
        let plan = self.code.plan(&Wanted::Natives(lost), &offers).map_err(|error| error.to_string())?;
        let size = analysis::size(&plan.program);
        let block_bytes = file.block_bytes(set.set) as f64;
        let study = match self.kind {
            Kind::ReedSolomon => (lost_count * n) as f64 / STUDY_MULTIPLIED_BYTES_PER_SECOND,
            Kind::Ldpc => size.additions as f64 / STUDY_ADDED_BYTES_PER_SECOND,
        };
        let ours = (size.additions + size.multiplications) as f64 / OURS_BYTES_PER_SECOND;
        Ok([study, ours].map(|seconds| seconds * block_bytes))
    }
}

/// When the last set is computed, each with the time at which it has come and the time that computing it takes, in the order in which
/// they come.
pub(super) fn finished(sets: impl Iterator<Item = (f64, f64)>) -> f64 {
    sets.fold(0.0, |free_at: f64, (come_at, takes)| free_at.max(come_at) + takes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoding_overlaps_what_is_under_way() {
        // The first is computed while the second is under way; the third waits for the second.
        assert_eq!(finished([(1.0, 0.5), (2.0, 3.0), (3.0, 1.0)].into_iter()), 6.0);
        assert_eq!(finished([(1.0, 0.0), (4.0, 0.25)].into_iter()), 4.25);
        assert_eq!(finished([].into_iter()), 0.0);
    }

    #[test]
    fn a_lost_block_is_a_dot_product_of_the_study() {
        let code = weft_codes::parse("rs:4+2").unwrap();
        let file = StoredFile::encode("rs:4+2", 4).unwrap();
        let decoder = Decoder { code, kind: Kind::ReedSolomon };
        let set = |arrived: [bool; 6]| SetArrival { set: 0, seconds: 1.0, arrived: arrived.to_vec() };
        assert_eq!(decoder.seconds(&file, &set([true, true, true, true, false, false])).unwrap(), [0.0; 2]);
        let [study, ours] = decoder.seconds(&file, &set([true, false, true, false, true, true])).unwrap();
        assert!((study - 8.0 * 1048576.0 / 200e6).abs() < 1e-12, "{study}");
        assert!(ours > 0.0 && ours < study);
        assert!(decoder.seconds(&file, &set([true, true, true, false, false, false])).is_err());
    }
}
