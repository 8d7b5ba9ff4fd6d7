#!/usr/bin/env bash
# A mount over six daemons on loopback beside one over six folders and beside the ceiling of plain FUSE, in one run:
# lab/mount_daemons.sh [FOLDER]
#
# rs:4+2, all in memory (a new folder in /dev/shm; needs 8 GiB). KEYED=1 gives the daemons keys, TLS=1 certificates; SENT=1
# has them send all that is read, as to another machine, where they otherwise lend files (--short-circuit); GLUSTER=1 sets
# GlusterFS 4+2 beside them, on six bricks in the same memory. Best of three writes, median of three reads, in turn. Read the ratios.
# Needs root, fio, gcc, pkg-config, fuse3, libfuse3-dev; for GlusterFS glusterfs-server, and an address that is not loopback's.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in fio gcc pkg-config fusermount3; do
    command -v "$program" >/dev/null || { echo "lab/mount_daemons.sh needs $program: apt-get install fio gcc pkg-config fuse3 libfuse3-dev" >&2; exit 1; }
done
example=/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c
[ -e "$example" ] || { echo "lab/mount_daemons.sh needs $example: apt-get install libfuse3-dev" >&2; exit 1; }
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
folder="${1:-$(mktemp -d /dev/shm/weft-mounts.XXXXXX)}"
size="${SIZE:-512m}" seconds="${SECONDS_EACH:-2}"
places=(folders daemons peer ${GLUSTER:+gluster})
mkdir -p "$folder/peer" "$folder/source" "$folder/folders" "$folder/daemons" "$folder/served"
processes=()
finish() {
    for mounted in folders daemons; do "$weft" umount "$folder/$mounted" >/dev/null 2>&1 || umount -l "$folder/$mounted" 2>/dev/null || true; done
    umount -l "$folder/peer" 2>/dev/null || true
    if [ -n "${GLUSTER:-}" ]; then
        umount -l "$folder/gluster" 2>/dev/null || true
        gluster --mode=script volume stop weft-peer force >/dev/null 2>&1 || true
        gluster --mode=script volume delete weft-peer >/dev/null 2>&1 || true
    fi
    kill "${processes[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

# The first touch of memory is slow on virtual machines; it must not be counted.
head -c 4G /dev/zero >"$folder/touch" && rm "$folder/touch"
gcc -O2 -w -o "$folder/passthrough_ll" "$example" $(pkg-config fuse3 --cflags --libs)
"$folder/passthrough_ll" -o "source=$folder/source,cache=auto" "$folder/peer"
for kind in folders daemons; do "$weft" format "$folder/$kind.db" --policy rs:4+2 >/dev/null; done
for number in 1 2 3 4 5 6; do
    "$weft" node add "$folder/folders.db" "n$number" "$folder/f$number" >/dev/null
    mkdir "$folder/served/$number"
    options=(${KEYED:+--key "$folder/$number.key"} ${TLS:+--tls})
    [ -n "${SENT:-}" ] || options+=(--short-circuit)
    "$weft" node serve "$folder/served/$number" --listen 127.0.0.1:0 "${options[@]}" >"$folder/said$number" 2>"$folder/log$number" &
    processes+=($!)
    until grep -q 'weft[+a-z]*://' "$folder/said$number"; do sleep 0.05; done
    url="$(grep -o 'weft[+a-z]*://[^ ]*' "$folder/said$number" | head -1)"
    "$weft" node add "$folder/daemons.db" "n$number" "$url" ${KEYED:+--key "$folder/$number.key"} >/dev/null
done
short=(); [ -n "${SENT:-}" ] || short=(--short-circuit)
for kind in folders daemons; do "$weft" mount "$folder/$kind.db" "$folder/$kind" -d "${short[@]}" >/dev/null; done
if [ -n "${GLUSTER:-}" ]; then
    command -v gluster >/dev/null || { echo "GLUSTER=1 needs gluster: apt-get install glusterfs-server glusterfs-client" >&2; exit 1; }
    if ! pgrep -x glusterd >/dev/null; then
        glusterd -N >/dev/null 2>&1 &
        processes+=($!)
    fi
    until gluster pool list >/dev/null 2>&1; do sleep 0.2; done
    address="$(hostname -I | awk '{ print $1 }')" bricks=()
    for number in 1 2 3 4 5 6; do bricks+=("$address:$folder/brick$number"); done
    mkdir "$folder/gluster" "$folder"/brick{1..6}
    gluster --mode=script volume create weft-peer disperse 6 redundancy 2 "${bricks[@]}" force >/dev/null
    gluster --mode=script volume start weft-peer >/dev/null
    mount -t glusterfs "$address:/weft-peer" "$folder/gluster"
fi

# fio's terse line: field 7 is read KiB/s, 8 read IOPS, 48 write KiB/s.
run() { # PLACE FIELD ARGUMENTS...
    local place="$1" field="$2"
    shift 2
    echo 3 >/proc/sys/vm/drop_caches
    fio --name=work --directory="$place" --ioengine=psync --group_reporting --output-format=terse --terse-version=3 "$@" |
        awk -F';' -v field="$field" '/^3;/ { print $field }'
}
row() { # NAME UNIT FIELD WHICH ARGUMENTS...
    local name="$1" unit="$2" field="$3" which="$4"
    shift 4
    for _ in 1 2 3; do
        for place in "${places[@]}"; do echo "$place $(run "$folder/$place" "$field" "$@")"; done
    done | sort -k1,1 -k2,2n | awk -v name="$name" -v unit="$unit" -v which="$which" '
        { count[$1]++; if (count[$1] == which) figure[$1] = $2 }
        END {
            printf "%-40s %9.0f %9.0f %9.0f %-5s %5.2f %5.2f", name, figure["daemons"], figure["folders"], figure["peer"], unit,
                figure["daemons"] / figure["folders"], figure["daemons"] / figure["peer"]
            if ("gluster" in figure) printf " %9.0f %5.2f", figure["gluster"], figure["daemons"] / figure["gluster"]
            print ""
        }'
}
printf '%-40s %9s %9s %9s %-5s %5s %5s\n' "daemons${KEYED:+ with keys}${TLS:+ with TLS}${SENT:+ that send}, folders, plain FUSE" daemons folders peer "" "/fold" "/peer${GLUSTER:+   gluster /gluster}"
sequential="--filename=large --bs=1m --size=$size"
row "sequential write + fsync" KiB/s 48 3 $sequential --rw=write --end_fsync=1
row "sequential read" KiB/s 7 2 $sequential --rw=read
# What was read ahead is forgotten: every random read asks nodes.
for kind in folders daemons; do
    "$weft" umount "$folder/$kind" >/dev/null
    "$weft" mount "$folder/$kind.db" "$folder/$kind" -d >/dev/null
done
random="--filename=large --bs=4k --size=$size --rw=randread --direct=1 --runtime=$seconds --time_based"
row "random read 4 KiB O_DIRECT, 1 thread" IOPS 8 2 $random --numjobs=1
row "random read 4 KiB O_DIRECT, 16 threads" IOPS 8 2 $random --numjobs=16
