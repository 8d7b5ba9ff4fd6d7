//! `-o`: what a mount allows, in the words of mount(8).

use std::str::FromStr;
use weft_gateways::fuse::Allowed;

/// One option.
#[derive(Clone, Copy, Debug)]
pub struct MountOption {
    word: &'static str,
    apply: fn(&mut Allowed),
}

/// All there are.
const OPTIONS: [MountOption; 13] = [
    option("defaults", |_| {}),
    option("rw", |allowed| allowed.write = true),
    option("ro", |allowed| allowed.write = false),
    option("suid", |allowed| allowed.suid = true),
    option("nosuid", |allowed| allowed.suid = false),
    option("dev", |allowed| allowed.dev = true),
    option("nodev", |allowed| allowed.dev = false),
    option("exec", |allowed| allowed.exec = true),
    option("noexec", |allowed| allowed.exec = false),
    option("atime", |allowed| allowed.atime = true),
    option("relatime", |allowed| allowed.atime = true),
    option("noatime", |allowed| allowed.atime = false),
    option("allow_other", |allowed| allowed.other_users = true),
];

const fn option(word: &'static str, apply: fn(&mut Allowed)) -> MountOption {
    MountOption { word, apply }
}

impl MountOption {
    /// As it is written.
    pub fn word(&self) -> &'static str {
        self.word
    }
}

impl FromStr for MountOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = OPTIONS.iter().find(|option| option.word == text);
        found.copied().ok_or_else(|| {
            let words: Vec<&str> = OPTIONS.iter().map(MountOption::word).collect();
            format!("`{text}` is not a mount option: the options are {}", words.join(", "))
        })
    }
}

/// The defaults, changed by each option in turn: the last one counts.
pub fn allowed(options: &[MountOption]) -> Allowed {
    let mut allowed = Allowed::default();
    options.iter().for_each(|option| (option.apply)(&mut allowed));
    allowed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_32_options_say_what_a_mount_allows_and_the_last_one_counts() {
        let of = |words: &[&str]| allowed(&words.iter().map(|word| word.parse().expect(word)).collect::<Vec<_>>());
        let default = Allowed::default();
        assert!(default.write && default.exec && default.atime);
        assert!(!default.suid && !default.dev && !default.other_users);
        assert_eq!(of(&["defaults"]), default);
        assert_eq!(of(&["ro", "noatime"]), Allowed { write: false, atime: false, ..default });
        assert_eq!(of(&["suid", "dev", "noexec"]), Allowed { suid: true, dev: true, exec: false, ..default });
        assert_eq!(of(&["suid", "nosuid", "ro", "rw", "allow_other"]), Allowed { other_users: true, ..default });
        let error = "user".parse::<MountOption>().expect_err("none of ours");
        assert!(error.contains("`user` is not a mount option") && error.contains("allow_other"), "{error}");
    }
}
