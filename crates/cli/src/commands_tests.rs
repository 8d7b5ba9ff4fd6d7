use super::*;

/// Commands for people below `command`, groups of commands included.
fn below(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        found.push((path.clone(), sub.clone()));
        below(sub, &path, found);
    }
}

fn all_commands() -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    below(&command(), "weft", &mut found);
    found
}

#[test]
fn every_command_is_in_one_group() {
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    grouped.sort_unstable();
    let command = command();
    let for_people = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let mut names: Vec<&str> = for_people.map(clap::Command::get_name).collect();
    names.sort_unstable();
    assert_eq!(grouped, names);
}

#[test]
fn every_command_has_an_example_that_it_takes() {
    for (path, shown) in all_commands() {
        let help = shown.get_after_help().map(ToString::to_string).unwrap_or_default();
        let examples: Vec<&str> = help.lines().filter_map(|line| Some(&line[line.find("weft ")?..])).collect();
        assert!(!examples.is_empty(), "{path} --help has no example");
        for example in examples {
            assert!(example.starts_with(&path), "an example of {path} is of another command: {example}");
            let taken = command().try_get_matches_from(example.split_whitespace());
            assert!(taken.is_ok(), "{example}: {}", taken.unwrap_err());
        }
    }
}

#[test]
fn every_argument_has_a_help_text() {
    for (path, shown) in all_commands() {
        for argument in shown.get_arguments().filter(|argument| !argument.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{path}: {} has no help", argument.get_id());
        }
    }
}

#[test]
fn the_help_of_meta_offers_the_engines_that_this_program_has() {
    for address in ["postgres://host/database", "etcd://host/name"] {
        let is_taken = weft_engine::MetaUrl::parse(address.as_ref()).is_ok();
        let is_refused = crate::arguments::META_HELP.contains("was built without");
        assert_eq!(is_taken, !is_refused, "{address}");
    }
}
