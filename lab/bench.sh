#!/usr/bin/env bash
# WeftFS beside the ceiling of plain FUSE, in one run: lab/bench.sh [FOLDER]
#
# FOLDER (default: a new one in /dev/shm, so that disks do not decide) needs 6 GiB. The peer is libfuse's own example
# passthrough_ll, compiled from Debian's libfuse3-dev. Machines are noisy: read the ratios, not the figures; writes are the
# best of three, reads the median. Needs root, fio, gcc, pkg-config, libfuse3-dev, fuse3.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in fio gcc pkg-config fusermount3; do
    command -v "$program" >/dev/null || { echo "lab/bench.sh needs $program: apt-get install fio gcc pkg-config fuse3 libfuse3-dev" >&2; exit 1; }
done
example=/usr/share/doc/libfuse3-dev/examples/passthrough_ll.c
[ -e "$example" ] || { echo "lab/bench.sh needs $example: apt-get install libfuse3-dev" >&2; exit 1; }
cargo build --release --locked
weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"
folder="${1:-$(mktemp -d /dev/shm/weft-bench.XXXXXX)}"
mkdir -p "$folder/source" "$folder/peer"
finish() {
    "$weft" umount "$folder/try/mnt" >/dev/null 2>&1 || umount -l "$folder/try/mnt" 2>/dev/null || true
    umount -l "$folder/peer" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

gcc -O2 -w -o "$folder/passthrough_ll" "$example" $(pkg-config fuse3 --cflags --libs)
# The first touch of memory is slow on virtual machines; it must not be counted.
head -c 5G /dev/zero >"$folder/touch" && rm "$folder/touch"
"$folder/passthrough_ll" -o "source=$folder/source,cache=auto" "$folder/peer"
"$weft" quickstart "$folder/try" >/dev/null

# fio's terse line: field 7 is read KiB/s, 8 read IOPS, 48 write KiB/s, 49 write IOPS.
run() { # PLACE FIELD ARGUMENTS...
    local place="$1" field="$2"
    shift 2
    fio --name=work --directory="$place" --ioengine=psync --group_reporting --output-format=terse --terse-version=3 "$@" |
        awk -F';' -v field="$field" '/^3;/ { print $field }'
}
thrice() { for _ in 1 2 3; do echo 3 >/proc/sys/vm/drop_caches; run "$@"; done; }
best() { sort -n | tail -1; }
median() { sort -n | sed -n 2p; }
row() { # NAME UNIT OURS PEER
    awk -v name="$1" -v unit="$2" -v ours="$3" -v peer="$4" \
        'BEGIN { printf "%-44s %10.0f %10.0f %-5s %5.2f\n", name, ours, peer, unit, ours / peer }'
}
small() { "$weft" bench --files 3000 --size-mib 1 "$1" | awk -v what="$2" 'index($0, what) == 1 { for (i = 1; i <= NF; i++) if ($i == "/s") { print $(i - 1); exit } }'; }

ours="$folder/try/mnt" peer="$folder/peer"
printf '%-44s %10s %10s %-5s %5s\n' "work" "weft" "peer" "" "ratio"
sequential="--filename=large --bs=1m --size=1g"
w="$(thrice "$ours" 48 $sequential --rw=write --end_fsync=1 | best)" p="$(thrice "$peer" 48 $sequential --rw=write --end_fsync=1 | best)"
row "sequential write 1 GiB + fsync" KiB/s "$w" "$p"
healthy="$(thrice "$ours" 7 $sequential --rw=read | median)" p="$(thrice "$peer" 7 $sequential --rw=read | median)"
row "sequential read 1 GiB" KiB/s "$healthy" "$p"
random="--filename=large --bs=4k --size=1g --rw=randread --direct=1 --runtime=3 --time_based"
for threads in 1 16; do
    w="$(thrice "$ours" 8 $random --numjobs=$threads | median)" p="$(thrice "$peer" 8 $random --numjobs=$threads | median)"
    row "random read 4 KiB O_DIRECT, $threads threads" IOPS "$w" "$p"
done
synced="--filename=synced --bs=4k --size=64m --rw=randwrite --fsync=1 --runtime=3 --time_based"
for threads in 1 16; do
    w="$(run "$ours" 49 $synced --numjobs=$threads)" p="$(run "$peer" 49 $synced --numjobs=$threads)"
    row "random write 4 KiB + fsync, $threads threads" IOPS "$w" "$p"
done
for what in "create, write 4 KiB, close" "stat" "open, read 4 KiB, close" "unlink"; do
    row "$what" "/s" "$(small "$ours" "$what")" "$(small "$peer" "$what")"
done

"$weft" umount "$ours" >/dev/null && "$weft" mount "$folder/try/meta.db" "$ours" -d >/dev/null
healthy="$(thrice "$ours" 7 $sequential --rw=read | median)"
mkdir "$folder/away"
for lost in 1 2; do
    mv "$folder/try/nodes/$lost" "$folder/away/"
    degraded="$(thrice "$ours" 7 $sequential --rw=read | median)"
    row "degraded read, $lost of 6 nodes lost (peer: healthy)" KiB/s "$degraded" "$healthy"
done
mv "$folder/away/2" "$folder/try/nodes/"
rm -rf "$folder/away"
"$weft" node replace "$folder/try/meta.db" 1 "$folder/try/nodes/new" >/dev/null
echo "repair of one node of six after 1 GiB:"
"$weft" repair "$folder/try/meta.db" | sed 's/^/  /'
