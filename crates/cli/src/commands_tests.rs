use super::*;

/// Commands for people that do something: those without commands of their own, and `care`, which has both.
fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, clap::Command)>) {
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help" && !sub.is_hide_set()) {
        let path = format!("{path} {}", sub.get_name());
        if !sub.has_subcommands() || path == "weft care" {
            found.push((path.clone(), sub.clone()));
        }
        leaves(sub, &path, found);
    }
}

fn all_leaves() -> Vec<(String, clap::Command)> {
    let mut found = Vec::new();
    leaves(&command(), "weft", &mut found);
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
    for (path, leaf) in all_leaves() {
        let help = leaf.get_after_help().map(ToString::to_string).unwrap_or_default();
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
    for (path, leaf) in all_leaves() {
        for argument in leaf.get_arguments().filter(|argument| !argument.is_hide_set()) {
            assert!(argument.get_help().is_some(), "{path}: {} has no help", argument.get_id());
        }
    }
}
