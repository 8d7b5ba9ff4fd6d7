//! The kinds of foreign nodes, as data. How an address becomes OpenDAL's configuration is in `service.rs`.

use crate::kind::{About, LOCAL};
use crate::node::Capability;

/// An object store far away: 20 ms to the first byte; what it sends is billed and comes through a shared line.
const BUCKET: Capability =
    Capability { latency_us: 20_000, request_price: 2000, kib_out_price: 4, kib_in_price: 2, ..LOCAL };
const S3: Capability = Capability { lists_in_order: true, ..BUCKET };
const GCS: Capability = S3;
const AZBLOB: Capability = BUCKET;
const OSS: Capability = S3;
const TOS: Capability = S3;
const COS: Capability = BUCKET;
/// They replace what is there, without being asked.
const OBS: Capability = Capability { puts_conditionally: false, ..BUCKET };
const UPYUN: Capability = OBS;
const B2: Capability = Capability { lists_in_order: true, ..OBS };
const SWIFT: Capability = B2;

/// Whether a put can be seen half done is up to the server.
const WEBDAV: Capability = Capability {
    puts_atomically: false,
    puts_conditionally: false,
    latency_us: 2000,
    request_price: 200,
    kib_out_price: 1,
    kib_in_price: 1,
    ..LOCAL
};
const SFTP: Capability = Capability { puts_atomically: true, ..WEBDAV };
const WEBHDFS: Capability = Capability { latency_us: 5000, request_price: 500, ..WEBDAV };

const HDFS_NATIVE: Capability = WEBHDFS;
const FTP: Capability = Capability { puts_atomically: true, ..WEBHDFS };
const SEAFILE: Capability = Capability { puts_atomically: true, latency_us: 10_000, request_price: 1000, ..WEBDAV };

/// Made for people who save a document now and then: each request is looked up by name, and too many are refused.
const DRIVE: Capability =
    Capability { puts_conditionally: false, latency_us: 200_000, request_price: 20_000, ..BUCKET };

const DRIVE_PRICES: &str =
    "a request waits some 200 ms for its first byte, and many at a time are refused; the line is the user's own";

/// A drive that no server could be had of.
const fn drive(
    name: &'static str,
    schemes: &'static [&'static str],
    what: &'static str,
    url: &'static str,
    is_built_in: bool,
) -> About {
    About {
        name,
        what,
        url,
        schemes,
        is_path: false,
        feature: Some(name),
        is_built_in,
        is_lasting: true,
        capability: &DRIVE,
        prices_because: DRIVE_PRICES,
        durable: "the service has answered: as durable as what it keeps for people",
        tested_against: None,
    }
}

const BUCKET_PRICES: &str =
    "a request waits some 20 ms for its first byte; bytes sent are billed by most providers, bytes stored are not";

/// What the rows below have in common.
const FOREIGN: About = drive("", &[], "", "", false);

/// All of them, those that most people have first.
pub(super) static KINDS: [About; 22] = [
    About {
        name: "s3",
        what: "a bucket of Amazon S3 or of any store that speaks its protocol",
        url: "s3://BUCKET/PREFIX?region=REGION&endpoint=URL",
        schemes: &["s3"],
        feature: Some("s3"),
        is_built_in: cfg!(feature = "s3"),
        capability: &S3,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: Some("s3s-fs 0.14 and Moto 5.2.5"),
        ..FOREIGN
    },
    About {
        name: "gcs",
        what: "a bucket of Google Cloud Storage",
        url: "gcs://BUCKET/PREFIX",
        schemes: &["gcs"],
        feature: Some("gcs"),
        is_built_in: cfg!(feature = "gcs"),
        capability: &GCS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: Some("fake-gcs-server 1.56.1"),
        ..FOREIGN
    },
    About {
        name: "azblob",
        what: "a container of Azure Blob Storage",
        url: "azblob://CONTAINER/PREFIX?endpoint=URL",
        schemes: &["azblob"],
        feature: Some("azblob"),
        is_built_in: cfg!(feature = "azblob"),
        capability: &AZBLOB,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its redundancy option",
        tested_against: Some("Azurite 3.35.0"),
        ..FOREIGN
    },
    About {
        name: "b2",
        what: "a bucket of Backblaze B2",
        url: "b2://BUCKET/PREFIX?bucket_id=ID",
        schemes: &["b2"],
        feature: Some("b2"),
        is_built_in: cfg!(feature = "b2"),
        capability: &B2,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its data centre",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "swift",
        what: "a container of OpenStack Swift",
        url: "swift://CONTAINER/PREFIX?endpoint=URL",
        schemes: &["swift"],
        feature: Some("swift"),
        is_built_in: cfg!(feature = "swift"),
        capability: &SWIFT,
        prices_because: BUCKET_PRICES,
        durable: "a majority of the replicas that the service keeps is stored",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "oss",
        what: "a bucket of Alibaba Cloud OSS",
        url: "oss://BUCKET/PREFIX?endpoint=URL",
        schemes: &["oss"],
        feature: Some("oss"),
        is_built_in: cfg!(feature = "oss"),
        capability: &OSS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "cos",
        what: "a bucket of Tencent Cloud COS",
        url: "cos://BUCKET/PREFIX?endpoint=URL",
        schemes: &["cos"],
        feature: Some("cos"),
        is_built_in: cfg!(feature = "cos"),
        capability: &COS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "obs",
        what: "a bucket of Huawei Cloud OBS",
        url: "obs://BUCKET/PREFIX?endpoint=URL",
        schemes: &["obs"],
        feature: Some("obs"),
        is_built_in: cfg!(feature = "obs"),
        capability: &OBS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "tos",
        what: "a bucket of Volcano Engine TOS",
        url: "tos://BUCKET/PREFIX?region=REGION",
        schemes: &["tos"],
        feature: Some("tos"),
        is_built_in: cfg!(feature = "tos"),
        capability: &TOS,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered: as durable as its storage class",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "upyun",
        what: "a bucket of UPYUN",
        url: "upyun://BUCKET/PREFIX",
        schemes: &["upyun"],
        feature: Some("upyun"),
        is_built_in: cfg!(feature = "upyun"),
        capability: &UPYUN,
        prices_because: BUCKET_PRICES,
        durable: "the service has answered, and says no more",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "webdav",
        what: "a folder of a WebDAV server: a NAS, Nextcloud, Apache, nginx",
        url: "webdav://HOST:PORT/PATH or webdavs://HOST:PORT/PATH",
        schemes: &["webdav", "webdavs"],
        feature: Some("webdav"),
        is_built_in: cfg!(feature = "webdav"),
        capability: &WEBDAV,
        prices_because: "a request is an HTTP exchange and a few file operations of a small server, about 2 ms",
        durable: "the server has answered: few write through to their disks, so a power cut there may take the last seconds",
        tested_against: Some("Apache httpd 2.4"),
        ..FOREIGN
    },
    About {
        name: "sftp",
        what: "a folder of a machine that has an SSH server",
        url: "sftp://USER@HOST:PORT/PATH",
        schemes: &["sftp"],
        feature: Some("sftp"),
        is_built_in: cfg!(feature = "sftp"),
        capability: &SFTP,
        prices_because: "a request is several round trips of SFTP, about 2 ms",
        durable: "the server has closed the file: a power cut there may take the last seconds",
        tested_against: Some("OpenSSH 9.2"),
        ..FOREIGN
    },
    About {
        name: "webhdfs",
        what: "a folder of HDFS, through WebHDFS",
        url: "webhdfs://HOST:PORT/PATH or swebhdfs://HOST:PORT/PATH",
        schemes: &["webhdfs", "swebhdfs"],
        feature: Some("webhdfs"),
        is_built_in: cfg!(feature = "webhdfs"),
        capability: &WEBHDFS,
        prices_because: "a request goes to the NameNode and on to a DataNode, about 5 ms",
        durable: "one DataNode has it in memory, not yet on its disk",
        tested_against: Some("Hadoop 3.4.2"),
        ..FOREIGN
    },
    About {
        name: "ftp",
        what: "a folder of an FTP server: an old NAS, a web host",
        url: "ftp://HOST:PORT/PATH or ftps://HOST:PORT/PATH",
        schemes: &["ftp", "ftps"],
        feature: Some("ftp"),
        is_built_in: cfg!(feature = "ftp"),
        capability: &FTP,
        prices_because: "a request opens connections for itself and is several round trips, about 5 ms",
        durable: "the server has closed the file: a power cut there may take the last seconds",
        tested_against: Some("pyftpdlib 2.2.0"),
        ..FOREIGN
    },
    About {
        name: "hdfs-native",
        what: "a folder of HDFS, through its own protocol",
        url: "hdfs://HOST:PORT/PATH",
        schemes: &["hdfs"],
        feature: Some("hdfs-native"),
        is_built_in: cfg!(feature = "hdfs-native"),
        capability: &HDFS_NATIVE,
        prices_because: "a request goes to the NameNode and on to a DataNode, about 5 ms",
        durable: "as many DataNodes as HDFS replicates to have it in memory, not yet on their disks",
        tested_against: None,
        ..FOREIGN
    },
    About {
        name: "seafile",
        what: "a library of a Seafile server",
        url: "seafile://HOST:PORT/PATH or seafiles://HOST:PORT/PATH",
        schemes: &["seafile", "seafiles"],
        feature: Some("seafile"),
        is_built_in: cfg!(feature = "seafile"),
        capability: &SEAFILE,
        prices_because: "a request asks the server for a link and then the link, about 10 ms",
        durable: "the server has answered: a power cut there may take the last seconds",
        tested_against: None,
        ..FOREIGN
    },
    drive("gdrive", &["gdrive"], "a folder of Google Drive", "gdrive://NAME/PATH", cfg!(feature = "gdrive")),
    drive(
        "onedrive",
        &["onedrive"],
        "a folder of Microsoft OneDrive",
        "onedrive://NAME/PATH",
        cfg!(feature = "onedrive"),
    ),
    drive("dropbox", &["dropbox"], "a folder of Dropbox", "dropbox://NAME/PATH", cfg!(feature = "dropbox")),
    drive("pcloud", &["pcloud"], "a folder of pCloud", "pcloud://HOST/PATH", cfg!(feature = "pcloud")),
    drive(
        "yandex-disk",
        &["yandex-disk"],
        "a folder of Yandex Disk",
        "yandex-disk://NAME/PATH",
        cfg!(feature = "yandex-disk"),
    ),
    drive(
        "aliyun-drive",
        &["aliyun-drive"],
        "a folder of Aliyun Drive",
        "aliyun-drive://NAME/PATH",
        cfg!(feature = "aliyun-drive"),
    ),
];
