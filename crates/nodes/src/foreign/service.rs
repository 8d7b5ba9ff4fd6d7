//! The services that can be a node, as data.

/// A service of OpenDAL, and how an address of ours becomes its configuration.
#[derive(Debug)]
// Without any service an address is read, and nothing opened.
#[cfg_attr(not(feature = "foreign"), allow(dead_code))]
pub(super) struct Service {
    /// Before `://`.
    pub(super) scheme: &'static str,
    /// Its kind in `kinds.rs`, and the cargo feature that brings it.
    pub(super) kind: &'static str,
    /// OpenDAL's name for it.
    pub(super) opendal: &'static str,
    pub(super) authority: Authority,
    /// What may stand behind `?`, besides `quota`.
    pub(super) options: &'static [Setting],
    /// What may stand in the key file.
    pub(super) secrets: &'static [Setting],
    pub(super) layout: Layout,
}

/// What stands between `://` and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// The name of a bucket, for this setting of OpenDAL.
    Bucket(&'static str),
    /// Host and port; with the prefix it is OpenDAL's `endpoint`.
    Host { prefix: &'static str, may_have_user: bool },
}

/// A setting, under our name and OpenDAL's.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) name: &'static str,
    pub(super) opendal: &'static str,
}

const fn same(name: &'static str) -> Setting {
    Setting { name, opendal: name }
}

/// How shards are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// All side by side: what lists in order of names then lists in order of segments.
    Flat,
    /// In 256 subfolders, as a folder node has them; put under another name first where the service renames.
    Folders { renames: bool },
}

const WEBDAV: Service = Service {
    scheme: "webdav",
    kind: "webdav",
    opendal: "webdav",
    authority: Authority::Host { prefix: "http://", may_have_user: false },
    options: &[],
    secrets: &[same("username"), same("password"), same("token")],
    // A server's MOVE costs four requests; those that write in place can be told by their damaged shards.
    layout: Layout::Folders { renames: false },
};

const WEBHDFS: Service = Service {
    scheme: "webhdfs",
    kind: "webhdfs",
    opendal: "webhdfs",
    authority: Authority::Host { prefix: "http://", may_have_user: false },
    options: &[Setting { name: "user", opendal: "user_name" }],
    secrets: &[same("delegation")],
    layout: Layout::Folders { renames: false },
};

pub(super) const SERVICES: [Service; 8] = [
    Service {
        scheme: "s3",
        kind: "s3",
        opendal: "s3",
        authority: Authority::Bucket("bucket"),
        options: &[
            same("region"),
            same("endpoint"),
            same("profile"),
            Setting { name: "storage_class", opendal: "default_storage_class" },
            Setting { name: "virtual_host", opendal: "enable_virtual_host_style" },
        ],
        secrets: &[same("access_key_id"), same("secret_access_key"), same("session_token")],
        layout: Layout::Flat,
    },
    Service {
        scheme: "gcs",
        kind: "gcs",
        opendal: "gcs",
        authority: Authority::Bucket("bucket"),
        options: &[
            same("endpoint"),
            same("credential_path"),
            Setting { name: "storage_class", opendal: "default_storage_class" },
        ],
        secrets: &[same("credential"), same("token")],
        layout: Layout::Flat,
    },
    Service {
        scheme: "azblob",
        kind: "azblob",
        opendal: "azblob",
        authority: Authority::Bucket("container"),
        options: &[same("endpoint"), Setting { name: "account", opendal: "account_name" }],
        secrets: &[same("account_key"), same("sas_token")],
        layout: Layout::Flat,
    },
    WEBDAV,
    Service { scheme: "webdavs", authority: Authority::Host { prefix: "https://", may_have_user: false }, ..WEBDAV },
    Service {
        scheme: "sftp",
        kind: "sftp",
        opendal: "sftp",
        authority: Authority::Host { prefix: "ssh://", may_have_user: true },
        options: &[
            Setting { name: "identity", opendal: "key" },
            Setting { name: "known_hosts", opendal: "known_hosts_strategy" },
        ],
        // ssh has its own: identity files, an agent, ~/.ssh/config.
        secrets: &[],
        layout: Layout::Folders { renames: true },
    },
    WEBHDFS,
    Service { scheme: "swebhdfs", authority: Authority::Host { prefix: "https://", may_have_user: false }, ..WEBHDFS },
];

/// The service of a scheme.
pub(super) fn of_scheme(scheme: &str) -> Option<&'static Service> {
    SERVICES.iter().find(|service| service.scheme == scheme)
}
