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
    /// Does its protocol send readers elsewhere?
    pub(super) follows_redirects: bool,
    /// Is what is read always read to the object's end? OpenDAL leaves an FTP transfer in the middle and uses the connection again:
    /// what the server says of that may be taken for its answer to something else, and fails it.
    pub(super) reads_to_end: bool,
    /// The HTTP port of its DataNodes, if a node can be bound to one of them.
    pub(super) datanode_port: Option<u16>,
}

/// What stands between `://` and the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Authority {
    /// The name of a bucket, for this setting of OpenDAL.
    Bucket(&'static str),
    /// Host and port; with the prefix they are this setting of OpenDAL.
    Host { setting: &'static str, prefix: &'static str, may_have_user: bool },
    /// A name of the user's choice: whose account it is, the key file says.
    Account,
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
    /// In 256 subfolders, as a folder node has them; put under another name first where the service renames. A list of a folder
    /// that is there has the folder itself, or nothing tells it from one that is not.
    /// Where OpenDAL renames by itself, it leaves its temporary files beside the subfolders.
    Folders { renames: bool, show_themselves: bool, leaves_temporary: bool },
}

const fn host(prefix: &'static str) -> Authority {
    Authority::Host { setting: "endpoint", prefix, may_have_user: false }
}

/// A store of buckets, where all shards of a node lie side by side.
const fn bucket(kind: &'static str, options: &'static [Setting], secrets: &'static [Setting]) -> Service {
    let authority = Authority::Bucket("bucket");
    Service {
        scheme: kind,
        kind,
        opendal: kind,
        authority,
        options,
        secrets,
        layout: Layout::Flat,
        follows_redirects: false,
        reads_to_end: false,
        datanode_port: None,
    }
}

/// A drive that programs reach over the web: a folder of it has all shards, since most do not tell an empty folder from none.
const fn drive(kind: &'static str, authority: Authority, options: &'static [Setting]) -> Service {
    Service { authority, ..bucket(kind, options, SIGN_IN) }
}

/// Who may use a drive for a user, and what of.
const SIGN_IN: &[Setting] = &[same("access_token"), same("refresh_token"), same("client_id"), same("client_secret")];

const PASSWORD: &[Setting] = &[same("username"), same("password")];

const FTP: Service = Service {
    scheme: "ftp",
    kind: "ftp",
    opendal: "ftp",
    authority: host("ftp://"),
    options: &[],
    secrets: &[Setting { name: "username", opendal: "user" }, same("password")],
    // OpenDAL itself writes under another name and renames.
    layout: Layout::Folders { renames: false, show_themselves: false, leaves_temporary: true },
    follows_redirects: false,
    reads_to_end: true,
    datanode_port: None,
};

const WEBDAV: Service = Service {
    scheme: "webdav",
    kind: "webdav",
    opendal: "webdav",
    authority: host("http://"),
    secrets: &[same("username"), same("password"), same("token")],
    // A server's MOVE costs four requests; those that write in place can be told by their damaged shards.
    layout: Layout::Folders { renames: false, show_themselves: true, leaves_temporary: false },
    reads_to_end: false,
    ..FTP
};

const WEBHDFS: Service = Service {
    scheme: "webhdfs",
    kind: "webhdfs",
    opendal: "webhdfs",
    options: &[Setting { name: "user", opendal: "user_name" }],
    secrets: &[same("delegation")],
    follows_redirects: true,
    datanode_port: Some(9864),
    ..WEBDAV
};

const SEAFILE: Service = Service {
    secrets: PASSWORD,
    ..drive("seafile", host("http://"), &[Setting { name: "library", opendal: "repo_name" }])
};

pub(super) const SERVICES: [Service; 26] = [
    bucket(
        "s3",
        &[
            same("region"),
            same("endpoint"),
            same("profile"),
            Setting { name: "storage_class", opendal: "default_storage_class" },
            Setting { name: "virtual_host", opendal: "enable_virtual_host_style" },
        ],
        &[same("access_key_id"), same("secret_access_key"), same("session_token")],
    ),
    bucket(
        "gcs",
        &[
            same("endpoint"),
            same("credential_path"),
            Setting { name: "storage_class", opendal: "default_storage_class" },
        ],
        &[same("credential"), same("token")],
    ),
    Service {
        authority: Authority::Bucket("container"),
        ..bucket(
            "azblob",
            &[same("endpoint"), Setting { name: "account", opendal: "account_name" }],
            &[same("account_key"), same("sas_token")],
        )
    },
    bucket("b2", &[same("bucket_id")], &[same("application_key_id"), same("application_key")]),
    Service { authority: Authority::Bucket("container"), ..bucket("swift", &[same("endpoint")], &[same("token")]) },
    bucket("oss", &[same("endpoint")], &[same("access_key_id"), same("access_key_secret"), same("security_token")]),
    bucket("cos", &[same("endpoint")], &[same("secret_id"), same("secret_key"), same("security_token")]),
    bucket("obs", &[same("endpoint")], &[same("access_key_id"), same("secret_access_key")]),
    bucket(
        "tos",
        &[same("endpoint"), same("region")],
        &[same("access_key_id"), same("secret_access_key"), same("security_token")],
    ),
    bucket("upyun", &[], &[same("operator"), same("password")]),
    WEBDAV,
    Service { scheme: "webdavs", authority: host("https://"), ..WEBDAV },
    Service {
        scheme: "sftp",
        kind: "sftp",
        opendal: "sftp",
        authority: Authority::Host { setting: "endpoint", prefix: "ssh://", may_have_user: true },
        options: &[
            Setting { name: "identity", opendal: "key" },
            Setting { name: "known_hosts", opendal: "known_hosts_strategy" },
        ],
        // ssh has its own: identity files, an agent, ~/.ssh/config.
        secrets: &[],
        layout: Layout::Folders { renames: true, show_themselves: true, leaves_temporary: false },
        ..WEBDAV
    },
    FTP,
    Service { scheme: "ftps", authority: host("ftps://"), ..FTP },
    WEBHDFS,
    Service { scheme: "swebhdfs", authority: host("https://"), datanode_port: Some(9865), ..WEBHDFS },
    Service {
        scheme: "hdfs",
        kind: "hdfs-native",
        opendal: "hdfs-native",
        authority: Authority::Host { setting: "name_node", prefix: "hdfs://", may_have_user: false },
        // Hadoop's own: HADOOP_USER_NAME, Kerberos.
        secrets: &[],
        ..WEBDAV
    },
    SEAFILE,
    Service { scheme: "seafiles", authority: host("https://"), ..SEAFILE },
    drive("gdrive", Authority::Account, &[]),
    // What is read is read from another address, that the first answer names.
    Service { follows_redirects: true, ..drive("onedrive", Authority::Account, &[]) },
    drive("dropbox", Authority::Account, &[]),
    drive("aliyun-drive", Authority::Account, &[same("drive_type")]),
    Service {
        secrets: &[same("access_token")],
        follows_redirects: true,
        ..drive("yandex-disk", Authority::Account, &[])
    },
    Service { secrets: PASSWORD, ..drive("pcloud", host("https://"), &[]) },
];

/// The service of a scheme.
pub(super) fn of_scheme(scheme: &str) -> Option<&'static Service> {
    SERVICES.iter().find(|service| service.scheme == scheme)
}
