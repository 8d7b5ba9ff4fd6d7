//! Runs a target: guided by coverage where `cargo fuzz` builds it (`crates/fuzz/run`), and over files otherwise.
//!
//! ```text
//! cargo run -p weft-fuzz -- list
//! cargo run -p weft-fuzz -- seeds              write the encoders' inputs into the corpus
//! cargo run -p weft-fuzz -- TARGET FILE...     as a finding is looked at
//! ```

#![cfg_attr(fuzzing, no_main)]

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(
    init: std::sync::LazyLock::force(&TARGET),
    |input: &[u8]| TARGET.check(input)
);

/// The one that the environment names: `cargo fuzz` passes no other arguments on.
#[cfg(fuzzing)]
static TARGET: std::sync::LazyLock<&'static weft_fuzz::Target> = std::sync::LazyLock::new(|| {
    let name = std::env::var("WEFT_FUZZ_TARGET").unwrap_or_default();
    weft_fuzz::find(&name).unwrap_or_else(|| panic!("WEFT_FUZZ_TARGET={name} names no target"))
});

#[cfg(not(fuzzing))]
fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["seeds"] => write_seeds(),
        [name, files @ ..] if *name != "list" => {
            let Some(target) = weft_fuzz::find(name) else {
                return Err(std::io::Error::other(format!("no target is called {name}: see `list`")));
            };
            files.iter().try_for_each(|file| {
                target.check(&std::fs::read(file)?);
                Ok(())
            })
        }
        _ => {
            weft_fuzz::TARGETS.iter().for_each(|target| println!("{}", target.name));
            Ok(())
        }
    }
}

#[cfg(not(fuzzing))]
fn write_seeds() -> std::io::Result<()> {
    for target in weft_fuzz::TARGETS {
        std::fs::create_dir_all(target.corpus_folder())?;
        for (number, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(target.corpus_folder().join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
