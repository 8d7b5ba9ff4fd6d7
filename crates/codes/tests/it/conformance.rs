//! The promises of the contract, for codes of every family: which losses are decoded and to which bytes, what reads and
//! repairs cost, and that bad questions are refused. A family takes part by its entry in the table below. `weft codes check`
//! does the like for any code, with all patterns up to 14 shards and beyond.

mod checks;

use checks::{Code, conforms};
use weft_codes::{Matrix, Shape, families};

/// What a family claims about its codes.
pub struct Claims {
    /// Its name.
    pub family: &'static str,
    /// Codes of at most 14 shards, which lose every pattern of shards.
    pub small: fn() -> Vec<String>,
    /// Codes that lose some patterns; all that leave as much as was stored where these are not too many.
    pub wide: &'static [&'static str],
    /// At most so many symbols are received for the repair of the lost shard, all others being there.
    pub repair: fn(&Lost) -> usize,
    /// At most so many are received to read one native symbol of the lost shard.
    pub read: fn(&Lost) -> usize,
}

/// A lost shard.
pub struct Lost<'a> {
    /// The numbers in the spec, in order.
    pub numbers: &'a [usize],
    /// Of the code.
    pub shape: &'a Shape,
    /// Of the code: a row per stored symbol.
    pub generator: &'a Matrix,
    /// The shard.
    pub shard: usize,
    /// Do the others combine symbols before they send?
    pub combines: bool,
}

/// As many symbols as there are natives: what any MDS code gets along with.
fn all(lost: &Lost<'_>) -> usize {
    lost.shape.native_count
}

/// The others of its locality group, or as many as there are data shards.
fn group(lost: &Lost<'_>) -> usize {
    let group = lost.shape.groups.iter().find(|group| group.shards.contains(&lost.shard));
    group.map_or(lost.shape.k, |group| group.shards.len() - 1) * lost.shape.alpha
}

/// The share of each other that a minimum storage regenerating code reads when it asks all: `1 / (d - k + 1)`, `d = n - 1`.
fn share_of_each(lost: &Lost<'_>) -> usize {
    (lost.shape.n - 1) * lost.shape.alpha / (lost.shape.n - lost.shape.k)
}

/// The fewest terms of a check that has the shard: of data its others and the check, of a check its data.
fn smallest_check(lost: &Lost<'_>) -> usize {
    let weight = |check: usize| lost.generator.row(check).iter().filter(|&&element| element != 0).count();
    if lost.shard >= lost.shape.k {
        return weight(lost.shard);
    }
    let checks = (lost.shape.k..lost.shape.n).filter(|&check| lost.generator.at(check, lost.shard) != 0);
    checks.map(weight).min().unwrap_or(lost.shape.k)
}

/// A test per entry, and the table of them all.
macro_rules! claims {
    ($($test:ident: $claims:expr,)*) => {
        pub const CLAIMS: &[Claims] = &[$($claims),*];
        $(#[test]
        fn $test() {
            conforms(&$claims);
        })*
    };
}

claims! {
    replica: Claims {
        family: "replica",
        small: || (1..=14).map(|copies| format!("replica:{copies}")).collect(),
        wide: &["replica:40"],
        repair: |_| 1,
        read: |_| 1,
    },
    raid5: Claims {
        family: "raid5",
        small: || (3..=14).map(|n| format!("raid5:{n}")).collect(),
        wide: &["raid5:100"],
        repair: all,
        read: all,
    },
    raid6: Claims {
        family: "raid6",
        small: || (4..=14).map(|n| format!("raid6:{n}")).collect(),
        wide: &["raid6:100"],
        repair: all,
        read: all,
    },
    rs: Claims {
        family: "rs",
        small: || {
            let of = |n: usize| (1..n).map(move |k| format!("rs:{k}+{}", n - k));
            (2..=11).flat_map(of).chain(["rs:10+4", "rs:4+10", "rs:7+7", "rs:12+2"].map(str::to_owned)).collect()
        },
        wide: &["rs:17+3", "rs:50+50", "rs:100+20"],
        repair: all,
        read: all,
    },
    rs_klauspost: Claims {
        family: "rs-klauspost",
        small: || {
            let of = |n: usize| (1..n).map(move |k| format!("rs-klauspost:{k}+{}", n - k));
            (2..=9).flat_map(of).chain(["rs-klauspost:10+4", "rs-klauspost:7+7"].map(str::to_owned)).collect()
        },
        wide: &["rs-klauspost:17+3", "rs-klauspost:40+24"],
        repair: all,
        read: all,
    },
    rs_cauchy: Claims {
        family: "rs-cauchy",
        small: || {
            let of = |n: usize| (1..n).map(move |k| format!("rs-cauchy:{k}+{}", n - k));
            (2..=9).flat_map(of).chain(["rs-cauchy:10+4", "rs-cauchy:7+7"].map(str::to_owned)).collect()
        },
        wide: &["rs-cauchy:17+3", "rs-cauchy:40+24"],
        repair: all,
        read: all,
    },
    rs_vandermonde: Claims {
        family: "rs-vandermonde",
        small: || {
            let most = |m: usize| [8, 8, 8, 8, 8, 5, 4, 4, 4][m];
            let of = |m: usize| (1..=most(m)).map(move |k| format!("rs-vandermonde:{k}+{m}"));
            (1..=8).flat_map(of).chain(["rs-vandermonde:11+3", "rs-vandermonde:10+4"].map(str::to_owned)).collect()
        },
        wide: &["rs-vandermonde:21+4", "rs-vandermonde:60+3"],
        repair: all,
        read: all,
    },
    lrc: Claims {
        family: "lrc",
        small: || {
            let specs = ["6+2+2", "12+1+1", "8+3+3", "5+5+0", "1+1+0", "4+2+1", "7+3+2", "4+2+6", "9+2+0"];
            specs.iter().map(|counts| format!("lrc:{counts}")).collect()
        },
        wide: &["lrc:12+2+2", "lrc:24+3+3", "lrc:96+4+5"],
        repair: group,
        read: group,
    },
    lrc_uniform: Claims {
        family: "lrc-uniform",
        small: || {
            let specs = ["6+2+2", "12+1+1", "8+3+3", "5+5+0", "1+1+0", "4+2+1", "7+3+2", "4+2+6", "9+2+0"];
            specs.iter().map(|counts| format!("lrc-uniform:{counts}")).collect()
        },
        wide: &["lrc-uniform:24+2+2", "lrc-uniform:96+4+5"],
        repair: group,
        read: group,
    },
    embr: Claims {
        family: "embr",
        small: || (2..=8).flat_map(|n| (1..n).map(move |k| format!("embr:n={n},k={k}"))).collect(),
        wide: &["embr:n=12,k=9", "embr:n=20,k=18"],
        repair: |lost| lost.numbers[0] - 1,
        read: |_| 1,
    },
    crs: Claims {
        family: "crs",
        small: || {
            let counts = ["1+1", "3+1", "4+2", "4+4", "6+3", "2+6", "2+2,w=4", "3+2,w=4", "8+2,w=4", "6+3,w=4", "7+3"];
            counts.iter().map(|counts| format!("crs:{counts}")).collect()
        },
        wide: &["crs:8+6,w=4", "crs:12+4,w=4", "crs:10+4", "crs:20+6"],
        repair: all,
        read: all,
    },
    msbasic: Claims {
        family: "msbasic",
        small: || [2, 4, 6].map(|k| format!("msbasic:{k}")).to_vec(),
        wide: &["msbasic:8", "msbasic:16"],
        repair: |lost| lost.shape.k / 2 * lost.shape.alpha,
        read: |lost| lost.shape.k / 2 * lost.shape.alpha,
    },
    clay: Claims {
        family: "clay",
        small: || {
            let counts = ["1+2", "2+2", "3+2", "4+2", "5+2", "1+3", "2+3", "3+3", "4+3", "5+3", "6+3", "2+4", "4+4"];
            counts.iter().map(|counts| format!("clay:{counts}")).collect()
        },
        wide: &["clay:8+4"],
        repair: share_of_each,
        read: share_of_each,
    },
    msr: Claims {
        family: "msr",
        small: || {
            let counts =
                ["2+1,d=2", "2+2,d=2", "2+2,d=3", "3+2,d=4", "3+3,d=4", "3+3,d=5", "4+3,d=6", "4+4,d=6", "4+4,d=7"];
            counts.iter().map(|counts| format!("msr:{counts}")).collect()
        },
        wide: &["msr:8+8,d=14", "msr:6+7,d=12"],
        repair: |lost| match (lost.combines, lost.numbers) {
            (true, [_, _, d]) => *d,
            _ => lost.shape.native_count,
        },
        read: |lost| match (lost.combines, lost.numbers) {
            (true, [k, ..]) => *k,
            _ => lost.shape.native_count,
        },
    },
    mbr: Claims {
        family: "mbr",
        small: || {
            let of = |n: usize| {
                (1..n).flat_map(move |k| (k..n).map(move |d| format!("mbr:{k}+{},d={d}", n - k)))
            };
            (2..=7).flat_map(of).collect()
        },
        wide: &["mbr:4+8,d=6", "mbr:8+4,d=9"],
        repair: |lost| match (lost.combines, lost.numbers) {
            (true, [_, _, d]) => *d,
            _ => lost.shape.native_count,
        },
        read: |lost| if lost.combines { lost.numbers[0] } else { lost.shape.native_count },
    },
    mojette: Claims {
        family: "mojette",
        small: || {
            let systematic = ["1+1,l=2", "2+1,l=3", "1+3,l=3", "2+2,l=3", "2+2", "3+3,l=4", "4+2,l=6", "4+4,l=3", "8+4,l=4"];
            let paper = ["1+2,l=2", "2+1,l=3", "2+1,l=8", "4+2,l=5", "3+4,l=3", "5+4,l=1"];
            let paper = paper.iter().map(|counts| counts.replace(",l", ",nonsystematic,l"));
            systematic.map(str::to_owned).into_iter().chain(paper).map(|counts| format!("mojette:{counts}")).collect()
        },
        wide: &["mojette:12+4,l=20", "mojette:6+6,nonsystematic,l=9"],
        repair: all,
        read: |lost| lost.shape.k,
    },
    ldpc: Claims {
        family: "ldpc",
        small: || {
            let graphs =
                ["plank-5", "cube-8-6", "8+6:eb,3f,5d,9a,ec,f0", "5+5:1e,d,15,1b,7", "3+3:3,5,6", "6+3:f,33,3c", "1+1:1"];
            graphs.iter().map(|graph| format!("ldpc:{graph}")).collect()
        },
        wide: &["ldpc:plank-10", "ldpc:plank-20", "ldpc:plank-50", "ldpc:plank-100"],
        repair: smallest_check,
        read: smallest_check,
    },
    basic_mbr: Claims {
        family: "basic-mbr",
        small: || {
            let counts = ["1+1,d=1", "1+3,d=2", "2+2,d=3", "3+3,d=3", "3+3,d=5"];
            counts.iter().map(|counts| format!("basic-mbr:{counts}")).collect()
        },
        wide: &["basic-mbr:4+4,d=7"],
        repair: |lost| if lost.combines { lost.shape.alpha } else { lost.shape.native_count },
        read: all,
    },
    basic: Claims {
        family: "basic",
        small: || {
            let counts = ["2+2,d=2", "2+3,d=4", "3+3,d=4", "3+3,d=5", "4+4,d=6", "4+4,d=7"];
            counts.iter().map(|counts| format!("basic:{counts}")).collect()
        },
        wide: &["basic:6+6,d=10"],
        repair: |lost| match (lost.combines, lost.numbers) {
            (true, [k, _, d]) => d * lost.shape.alpha / (d - k + 1),
            _ => lost.shape.native_count,
        },
        // Of any one symbol, a helper's share is one symbol.
        read: |lost| if lost.combines { lost.shape.k } else { lost.shape.native_count },
    },
}

#[test]
fn every_family_takes_part() {
    for family in families() {
        let claims = CLAIMS.iter().find(|claims| claims.family == family.name);
        let claims = claims.unwrap_or_else(|| panic!("{} makes no claims: add them to the table", family.name));
        let specs = (claims.small)();
        let of_family = |spec: &str| spec.split_once(':').is_some_and(|(name, _)| name == family.name);
        assert!(specs.iter().all(|spec| of_family(spec)) && claims.wide.iter().all(|spec| of_family(spec)));
        assert!(specs.iter().any(|spec| Code::of(spec).shape().n >= 4), "{} has a code worth testing", family.name);
    }
}
