//! Plain loops over words, which the compiler makes vector instructions of.

/// Something computed by such loops.
pub(crate) trait Wide {
    /// What comes of it.
    type Output;

    /// Computes it. To be `#[inline(always)]`: only then it takes the instructions of the function that calls it.
    fn run(self) -> Self::Output;
}

/// Computes it with the widest instructions of this machine that are worth it.
pub(crate) fn widely<W: Wide>(work: W) -> W::Output {
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    if has_feature!("avx2") && has_feature!("bmi1") && has_feature!("lzcnt") && has_feature!("popcnt") {
        // SAFETY: the machine has these instructions.
        return unsafe { with_avx2(work) };
    }
    work.run()
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "avx2,bmi1,lzcnt,popcnt")]
fn with_avx2<W: Wide>(work: W) -> W::Output {
    work.run()
}
