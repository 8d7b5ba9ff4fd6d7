//! Some histories in every test run; `weft-sim engine` has the many.

use super::run;

#[test]
fn try_some() {
    for seed in 0..60 {
        let begun = std::time::Instant::now();
        let outcome = run(seed, true);
        println!("seed {seed}: {:?} steps {} commits {} conflicts {} looks {} flushes {} deaths {} in {:?}", outcome.complaints, outcome.steps, outcome.commits, outcome.conflicts, outcome.looks, outcome.flushes, outcome.deaths, begun.elapsed());
        if seed < 3 { for line in outcome.lines { println!("   {}", line.chars().take(300).collect::<String>()); } }
    }
}
