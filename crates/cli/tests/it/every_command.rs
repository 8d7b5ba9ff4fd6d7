//! Every command that takes metadata's place takes a server's URL there.

use crate::served::Served;
use std::collections::BTreeSet;
use std::fs;

/// Arguments of a command, and how it ends: `META` is the volume's URL, `OTHER` and `THIRD` are those of places without a volume.
type Use = (&'static [&'static str], Ends);

enum Ends {
    Well,
    /// With a sentence that says this.
    Refused(&'static str),
    /// When a signal asks for it.
    AtSignal,
}

use Ends::{AtSignal, Refused, Well};

const USES: &[Use] = &[
    (&["status", "META"], Well),
    (&["put", "META", "file", "more", "/"], Well),
    (&["ls", "-l", "META"], Well),
    (&["info", "META", "/file"], Well),
    (&["get", "META", "/file", "back"], Well),
    (&["policy", "set", "META", "/", "rs:3+2"], Well),
    (&["policy", "get", "META"], Well),
    (&["trash", "keep", "META", "1d"], Well),
    (&["rm", "META", "/file"], Well),
    (&["trash", "list", "META"], Well),
    (&["trash", "restore", "META", "/file"], Well),
    (&["rm", "META", "/more"], Well),
    (&["trash", "purge", "--all", "META"], Well),
    (&["node", "add", "META", "7", "node7"], Well),
    (&["node", "list", "META"], Well),
    (&["node", "limit", "META", "7", "--requests", "4"], Well),
    (&["node", "set", "META", "7", "--weight", "2"], Well),
    (&["node", "replace", "META", "6", "node8"], Well),
    (&["node", "move", "META", "7", "node7"], Refused("is recorded at")),
    (&["node", "drain", "META", "7"], Well),
    (&["node", "remove", "META", "7"], Well),
    (&["node", "restore", "META", "1"], Refused("nothing to take back")),
    (&["placement", "META"], Well),
    (&["placement", "plan", "META", "--survive", "node:2"], Well),
    (&["choose", "META"], Well),
    (&["protect", "META"], Refused("server")),
    (&["session", "list", "META"], Well),
    (&["session", "evict", "META", "4711"], Refused("4711")),
    (&["care", "META"], AtSignal),
    (&["care", "pause", "META"], Well),
    (&["care", "resume", "META"], Well),
    (&["care", "cancel", "META"], Well),
    (&["care", "status", "META"], Well),
    (&["repair", "META"], Well),
    (&["scrub", "META"], Well),
    (&["gc", "META"], Well),
    (&["fsck", "META"], Well),
    (&["mount", "-d", "META", "mnt"], Well),
    (&["umount", "mnt"], Well),
    (&["recover", "node1", "node2", "OTHER"], Refused("no replica of the metadata")),
    (&["backup", "META", "kept.db"], Well),
    (&["meta", "dump", "META", "dumped"], Well),
    (&["restore", "kept.db", "META"], Refused("exists")),
    (&["meta", "load", "dumped", "META"], Refused("exists")),
    (&["format", "META"], Refused("exists")),
    (&["meta", "copy", "META", "OTHER"], Well),
    // Names that were on nodes come to a server.
    (&["meta", "copy", "OTHER", "own.db"], Well),
    (&["mount", "-d", "own.db", "mnt"], Well),
    (&["umount", "mnt"], Well),
    (&["recover", "node1", "node2", "node3", "node4", "node5", "node8", "THIRD"], Well),
    (&["fsck", "THIRD"], Well),
    (&["get", "THIRD", "/file", "again"], Well),
];

/// Commands of which the usage has a place for metadata, as words.
fn commands_with_metadata<S>(volume: &Served<S>) -> BTreeSet<Vec<String>> {
    let mut found = BTreeSet::new();
    let mut left: Vec<Vec<String>> = vec![Vec::new()];
    while let Some(command) = left.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let help = volume.weft(&arguments).ok();
        let usage = help.lines().find_map(|line| line.strip_prefix("Usage: weft ")).expect("a usage");
        // Groups of commands have headings of their own.
        let is_word = |word: &&str| word.starts_with(|first: char| first.is_ascii_lowercase()) && *word != "help";
        let lines = help.lines().skip_while(|line| !line.starts_with("Usage:"));
        let lines = lines.take_while(|line| !line.starts_with("Arguments:") && !line.starts_with("Options:"));
        let below = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
        let below = below.filter_map(|line| line.split_whitespace().next()).filter(is_word);
        if command.len() < 2 && usage.contains("COMMAND") {
            left.extend(below.map(|word| [&command[..], &[word.to_owned()]].concat()));
        }
        if usage.contains("META") {
            found.insert(command);
        }
    }
    found
}

/// `url` gives those of places on the same server.
pub fn takes_a_url<S>(volume: &Served<S>, url: impl Fn(&str) -> String) {
    let [other, third] = ["other", "third"].map(url);
    for (name, length) in [("file", 300_000), ("more", 70_000)] {
        fs::write(volume.sandbox.path(name), crate::content::bytes(1, length)).expect("written");
    }
    let used = |words: &[String]| USES.iter().any(|(arguments, _)| arguments.iter().take(words.len()).eq(words));
    for command in commands_with_metadata(volume) {
        assert!(used(&command), "no test uses `weft {}` with a URL", command.join(" "));
    }
    for (arguments, ends) in USES {
        let arguments: Vec<&str> = arguments
            .iter()
            .map(|argument| match *argument {
                "META" => volume.url.as_str(),
                "OTHER" => &other,
                "THIRD" => &third,
                argument => argument,
            })
            .collect();
        println!("weft {}", arguments.join(" "));
        match ends {
            Well => drop(volume.weft(&arguments).ok()),
            Refused(why) => {
                let sentence = volume.weft(&arguments).sentence();
                assert!(sentence.contains(why), "{arguments:?}: {sentence}");
            }
            AtSignal => {
                let _caring = crate::sandbox::caring::Caring::of(volume.command(&arguments));
                crate::sandbox::until("it cares", || {
                    volume.weft(&["care", "status", &volume.url]).stdout.contains("cares for the volume")
                });
            }
        }
    }
    for got in ["back", "again"] {
        assert!(fs::read(volume.sandbox.path(got)).expect("read") == crate::content::bytes(1, 300_000));
    }
}
