//! Plain loops over words, which the compiler turns into vector instructions.

/// A computation by such loops.
pub(crate) trait Wide {
    /// Its result.
    type Output;

    /// Computes it. Implementations are `#[inline(always)]`: only then they use the instructions of the function that
    /// calls them.
    fn run(self) -> Self::Output;
}

/// Computes it with the widest instructions of this machine that gain anything.
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
