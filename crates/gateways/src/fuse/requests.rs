//! How many requests of each kind the kernel sent: what an operation costs at this door, as a count that tests can hold.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! requests {
    ($($kind:ident $name:literal),* $(,)?) => {
        /// What the kernel asks.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum RequestKind {
            $($kind),*
        }

        impl RequestKind {
            const ALL: &[RequestKind] = &[$(RequestKind::$kind),*];

            /// As in the kernel's protocol, in lower case.
            pub(super) fn name(self) -> &'static str {
                match self {
                    $(RequestKind::$kind => $name),*
                }
            }
        }
    };
}

requests! {
    Lookup "lookup",
    Forget "forget",
    Getattr "getattr",
    Setattr "setattr",
    Readlink "readlink",
    Mknod "mknod",
    Mkdir "mkdir",
    Unlink "unlink",
    Rmdir "rmdir",
    Symlink "symlink",
    Rename "rename",
    Link "link",
    Create "create",
    Open "open",
    Read "read",
    Write "write",
    Flush "flush",
    Release "release",
    Fsync "fsync",
    Readdir "readdir",
    Readdirplus "readdirplus",
    Fsyncdir "fsyncdir",
    Statfs "statfs",
    Setxattr "setxattr",
    Getxattr "getxattr",
    Listxattr "listxattr",
    Removexattr "removexattr",
    Fallocate "fallocate",
    Lseek "lseek",
    CopyFileRange "copy_file_range",
    Getlk "getlk",
    Setlk "setlk",
}

/// The counters of a mount.
#[derive(Debug)]
pub struct Requests([AtomicU64; RequestKind::ALL.len()]);

impl Default for Requests {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Requests {
    pub(super) fn count(&self, kind: RequestKind) {
        self.0[kind as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// In the text format of Prometheus.
    pub fn text(&self) -> String {
        let mut text = String::from(
            "# HELP weft_mount_requests_total Requests of the kernel, by kind.\n# TYPE weft_mount_requests_total counter\n",
        );
        for (kind, count) in RequestKind::ALL.iter().zip(&self.0) {
            let count = count.load(Ordering::Relaxed);
            let _ = writeln!(text, "weft_mount_requests_total{{request=\"{}\"}} {count}", kind.name());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_counter() {
        let requests = Requests::default();
        for (index, kind) in RequestKind::ALL.iter().enumerate() {
            (0..=index).for_each(|_| requests.count(*kind));
        }
        let text = requests.text();
        for (index, kind) in RequestKind::ALL.iter().enumerate() {
            let line = format!("weft_mount_requests_total{{request=\"{}\"}} {}\n", kind.name(), index + 1);
            assert!(text.contains(&line), "{line} in {text}");
        }
    }
}
