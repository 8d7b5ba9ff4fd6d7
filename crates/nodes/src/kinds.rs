//! Every kind of node, as data: how its address is written, what it can do, what it costs, against what it was tested.
//!
//! The kinds themselves take their [`Capability`] from here, `weft node kinds` prints it, and each kind has a page in
//! `docs/nodes` that a test compares with it.

use crate::node::Capability;

/// One kind of node.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Its name, and its page's: `docs/nodes/NAME.md`.
    pub name: &'static str,
    /// What it is, in one clause.
    pub what: &'static str,
    /// The form of its address; capitals stand for what the user says.
    pub url: &'static str,
    /// Is it in this program? If not, the cargo feature of its name brings it.
    pub is_built_in: bool,
    /// What it can do, and its prices.
    pub capability: &'static Capability,
    /// Why the prices are what they are.
    pub prices_because: &'static str,
    /// What a shard has survived once a put is answered.
    pub durable: &'static str,
    /// The server that the conformance suite runs against, with its version; `None`: no server could be had.
    pub tested_against: Option<&'static str>,
}

/// Prices are in units of 10 microseconds: about what one KiB takes from a disk or over a gigabit network. A request costs
/// the time to its first byte.
const LOCAL: Capability = Capability {
    combines: false,
    range_granularity_bytes: 1,
    lists_in_order: false,
    puts_atomically: true,
    puts_conditionally: true,
    latency_us: 100,
    request_price: 1,
    kib_out_price: 1,
    kib_in_price: 1,
};

pub(crate) const FOLDER: Capability = LOCAL;
pub(crate) const BLOCK: Capability = Capability { lists_in_order: true, ..LOCAL };
pub(crate) const MEMORY: Capability = Capability { lists_in_order: true, latency_us: 1, ..LOCAL };
pub(crate) const DAEMON: Capability = Capability { combines: true, latency_us: 500, request_price: 4, ..LOCAL };

/// An object store far away: 20 ms to the first byte; what it sends is billed and comes through a shared line.
const BUCKET: Capability =
    Capability { latency_us: 20_000, request_price: 2000, kib_out_price: 4, kib_in_price: 2, ..LOCAL };
pub(crate) const S3: Capability = Capability { lists_in_order: true, ..BUCKET };
pub(crate) const GCS: Capability = S3;
pub(crate) const AZBLOB: Capability = BUCKET;
pub(crate) const OSS: Capability = S3;
pub(crate) const TOS: Capability = S3;
pub(crate) const COS: Capability = BUCKET;
/// They replace what is there, without being asked.
pub(crate) const OBS: Capability = Capability { puts_conditionally: false, ..BUCKET };
pub(crate) const UPYUN: Capability = OBS;
pub(crate) const B2: Capability = Capability { lists_in_order: true, ..OBS };
pub(crate) const SWIFT: Capability = B2;

/// Whether a put can be seen half done is up to the server.
pub(crate) const WEBDAV: Capability = Capability {
    puts_atomically: false,
    puts_conditionally: false,
    latency_us: 2000,
    request_price: 200,
    kib_out_price: 1,
    kib_in_price: 1,
    ..LOCAL
};
pub(crate) const SFTP: Capability = Capability { puts_atomically: true, ..WEBDAV };
pub(crate) const WEBHDFS: Capability = Capability { latency_us: 5000, request_price: 500, ..WEBDAV };

pub(crate) const HDFS_NATIVE: Capability = WEBHDFS;
pub(crate) const FTP: Capability = Capability { puts_atomically: true, ..WEBHDFS };
pub(crate) const SEAFILE: Capability =
    Capability { puts_atomically: true, latency_us: 10_000, request_price: 1000, ..WEBDAV };

/// Made for people who save a document now and then: each request is looked up by name, and too many are refused.
pub(crate) const DRIVE: Capability =
    Capability { puts_conditionally: false, latency_us: 200_000, request_price: 20_000, ..BUCKET };

const DRIVE_PRICES: &str =
    "a request waits some 200 ms for its first byte, and many at a time are refused; the line is the user's own";

/// A drive that no server could be had of.
const fn drive(name: &'static str, what: &'static str, url: &'static str, is_built_in: bool) -> Kind {
    Kind {
        name,
        what,
        url,
        is_built_in,
        capability: &DRIVE,
        prices_because: DRIVE_PRICES,
        durable: "the service has answered: as durable as what it keeps for people",
        tested_against: None,
    }
}

const BUCKET_PRICES: &str =
    "a request waits some 20 ms for its first byte; bytes sent are billed by most providers, bytes stored are not";

/// All kinds, the nearest first.
pub const KINDS: [Kind; 26] = [
    Kind {
        name: "folder",
        what: "a folder of this machine, best on a disk of its own; a NAS that is mounted",
        url: "/PATH or file:///PATH",
        is_built_in: true,
        capability: &FOLDER,
        prices_because: "one KiB from a local disk is the unit, and a request costs no more",
        durable: "the file and its name are on the disk (fsync)",
        tested_against: Some("ext4, tmpfs"),
    },
    Kind {
        name: "block",
        what: "a block device or an image file of this machine",
        url: "block:///PATH",
        is_built_in: true,
        capability: &BLOCK,
        prices_because: "one KiB from a local disk is the unit, and a request costs no more",
        durable: "slot and table are on the device (fdatasync)",
        tested_against: Some("image files"),
    },
    Kind {
        name: "daemon",
        what: "what `weft node serve` serves on another machine",
        url: "weft+tls://HOST:PORT or weft://HOST:PORT",
        is_built_in: true,
        capability: &DAEMON,
        prices_because: "a round trip in a local network costs as much as 4 KiB",
        durable: "as the folder or device that it serves",
        tested_against: Some("itself"),
    },
    Kind {
        name: "s3",
        what: "a bucket of Amazon S3 or of any store that speaks its protocol",
        url: "s3://BUCKET/PREFIX?region=REGION&endpoint=URL",
        is_built_in: cfg!(feature = "s3"),
        capability: &S3,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: Some("s3s-fs 0.14 and Moto 5.2.5"),
    },
    Kind {
        name: "gcs",
        what: "a bucket of Google Cloud Storage",
        url: "gcs://BUCKET/PREFIX",
        is_built_in: cfg!(feature = "gcs"),
        capability: &GCS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: Some("fake-gcs-server 1.56.1"),
    },
    Kind {
        name: "azblob",
        what: "a container of Azure Blob Storage",
        url: "azblob://CONTAINER/PREFIX?endpoint=URL",
        is_built_in: cfg!(feature = "azblob"),
        capability: &AZBLOB,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its redundancy option",
        tested_against: Some("Azurite 3.35.0"),
    },
    Kind {
        name: "b2",
        what: "a bucket of Backblaze B2",
        url: "b2://BUCKET/PREFIX?bucket_id=ID",
        is_built_in: cfg!(feature = "b2"),
        capability: &B2,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its data centre",
        tested_against: None,
    },
    Kind {
        name: "swift",
        what: "a container of OpenStack Swift",
        url: "swift://CONTAINER/PREFIX?endpoint=URL",
        is_built_in: cfg!(feature = "swift"),
        capability: &SWIFT,
        prices_because: BUCKET_PRICES,
        durable: "a majority of the replicas that the service keeps is stored",
        tested_against: None,
    },
    Kind {
        name: "oss",
        what: "a bucket of Alibaba Cloud OSS",
        url: "oss://BUCKET/PREFIX?endpoint=URL",
        is_built_in: cfg!(feature = "oss"),
        capability: &OSS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
    },
    Kind {
        name: "cos",
        what: "a bucket of Tencent Cloud COS",
        url: "cos://BUCKET/PREFIX?endpoint=URL",
        is_built_in: cfg!(feature = "cos"),
        capability: &COS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
    },
    Kind {
        name: "obs",
        what: "a bucket of Huawei Cloud OBS",
        url: "obs://BUCKET/PREFIX?endpoint=URL",
        is_built_in: cfg!(feature = "obs"),
        capability: &OBS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
    },
    Kind {
        name: "tos",
        what: "a bucket of Volcano Engine TOS",
        url: "tos://BUCKET/PREFIX?region=REGION",
        is_built_in: cfg!(feature = "tos"),
        capability: &TOS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
    },
    Kind {
        name: "upyun",
        what: "a bucket of UPYUN",
        url: "upyun://BUCKET/PREFIX",
        is_built_in: cfg!(feature = "upyun"),
        capability: &UPYUN,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered, and says no more",
        tested_against: None,
    },
    Kind {
        name: "webdav",
        what: "a folder of a WebDAV server: a NAS, Nextcloud, Apache, nginx",
        url: "webdav://HOST:PORT/PATH or webdavs://HOST:PORT/PATH",
        is_built_in: cfg!(feature = "webdav"),
        capability: &WEBDAV,
        prices_because: "a request is an HTTP exchange and a few file operations of a small server, about 2 ms",
        durable: "the server has answered: few write through to their disks, so a power cut there may take the last seconds",
        tested_against: Some("Apache httpd 2.4"),
    },
    Kind {
        name: "sftp",
        what: "a folder of a machine that has an SSH server",
        url: "sftp://USER@HOST:PORT/PATH",
        is_built_in: cfg!(feature = "sftp"),
        capability: &SFTP,
        prices_because: "a request is several round trips of SFTP, about 2 ms",
        durable: "the server has closed the file: a power cut there may take the last seconds",
        tested_against: Some("OpenSSH 9.2"),
    },
    Kind {
        name: "webhdfs",
        what: "a folder of HDFS, through WebHDFS",
        url: "webhdfs://HOST:PORT/PATH or swebhdfs://HOST:PORT/PATH",
        is_built_in: cfg!(feature = "webhdfs"),
        capability: &WEBHDFS,
        prices_because: "a request goes to the NameNode and on to a DataNode, about 5 ms",
        durable: "one DataNode has it in memory, not yet on its disk",
        tested_against: Some("Hadoop 3.4.2"),
    },
    Kind {
        name: "ftp",
        what: "a folder of an FTP server: an old NAS, a web host",
        url: "ftp://HOST:PORT/PATH or ftps://HOST:PORT/PATH",
        is_built_in: cfg!(feature = "ftp"),
        capability: &FTP,
        prices_because: "a request opens connections for itself and is several round trips, about 5 ms",
        durable: "the server has closed the file: a power cut there may take the last seconds",
        tested_against: Some("pyftpdlib 2.2.0"),
    },
    Kind {
        name: "hdfs-native",
        what: "a folder of HDFS, through its own protocol",
        url: "hdfs://HOST:PORT/PATH",
        is_built_in: cfg!(feature = "hdfs-native"),
        capability: &HDFS_NATIVE,
        prices_because: "a request goes to the NameNode and on to a DataNode, about 5 ms",
        durable: "as many DataNodes as HDFS replicates to have it in memory, not yet on their disks",
        tested_against: None,
    },
    Kind {
        name: "seafile",
        what: "a library of a Seafile server",
        url: "seafile://HOST:PORT/PATH or seafiles://HOST:PORT/PATH",
        is_built_in: cfg!(feature = "seafile"),
        capability: &SEAFILE,
        prices_because: "a request asks the server for a link and then the link, about 10 ms",
        durable: "the server has answered: a power cut there may take the last seconds",
        tested_against: None,
    },
    drive("gdrive", "a folder of Google Drive", "gdrive://NAME/PATH", cfg!(feature = "gdrive")),
    drive("onedrive", "a folder of Microsoft OneDrive", "onedrive://NAME/PATH", cfg!(feature = "onedrive")),
    drive("dropbox", "a folder of Dropbox", "dropbox://NAME/PATH", cfg!(feature = "dropbox")),
    drive("pcloud", "a folder of pCloud", "pcloud://HOST/PATH", cfg!(feature = "pcloud")),
    drive("yandex-disk", "a folder of Yandex Disk", "yandex-disk://NAME/PATH", cfg!(feature = "yandex-disk")),
    drive("aliyun-drive", "a folder of Aliyun Drive", "aliyun-drive://NAME/PATH", cfg!(feature = "aliyun-drive")),
    Kind {
        name: "memory",
        what: "this process's memory, for tests: forgotten when it ends, and no other process sees it",
        url: "memory://NAME",
        is_built_in: true,
        capability: &MEMORY,
        prices_because: "as a folder, so that tests plan as they would with folders",
        durable: "nothing",
        tested_against: Some("itself"),
    },
];
