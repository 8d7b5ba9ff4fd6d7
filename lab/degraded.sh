#!/usr/bin/env bash
# What reading and repairing 24 MiB costs the processor, code by code, on folders in memory, beside Reed-Solomon of the same k and m:
# lab/degraded.sh [CODE...]
#
# Seconds of CPU (user and system) of `weft get` of a whole file, of one with LOST nodes gone (1), and of `weft repair` onto empty ones:
# they bear a busy machine better than the clock's. MIB says how much; WEFT=PROGRAM takes a build that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
codes=("$@")
[ "$#" -gt 0 ] || codes=(mojette:layout-2 mojette:layout-2,nonsystematic mojette:16+8 rs:200+55 rs:100+100 ldpc:plank-100 ldpc:cube-8-6 clay:10+4
    msr:4+4,d=7 basic:4+4,d=6 msbasic:8 embr:n=8,k=6 lrc:12+2+2)
mib="${MIB:-24}" lost="${LOST:-1}"
folder="$(mktemp -d /dev/shm/weft-degraded.XXXXXX)"
trap 'rm -rf "$folder"' EXIT
TIMEFORMAT='%U %S'

number() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" | head -n 1; }
cpu() { { time "$@" >/dev/null 2>&1; } 2>&1 | awk '{ printf "%.2f", $1 + $2 }'; }
measure() { # CODE NODES: the three figures
    local meta="$folder/meta.db" node
    "$weft" format --policy "$1" "$meta" >/dev/null
    for node in $(seq "$2"); do "$weft" node add "$meta" "$node" "$folder/node$node" >/dev/null; done
    head -c "${mib}M" /dev/urandom >"$folder/file"
    "$weft" put "$meta" "$folder/file" /file >/dev/null 2>&1
    cpu "$weft" get "$meta" /file "$folder/whole"
    for node in $(seq "$lost"); do rm -rf "$folder/node$node"; done
    printf ' '
    cpu "$weft" get "$meta" /file "$folder/degraded"
    for node in $(seq "$lost"); do "$weft" node replace "$meta" "$node" "$folder/new$node" >/dev/null; done
    printf ' '
    cpu "$weft" repair "$meta"
    "$weft" get "$meta" /file "$folder/repaired" >/dev/null 2>&1
    for node in whole degraded repaired; do cmp "$folder/file" "$folder/$node"; done
    rm -rf "${folder:?}"/*
}

echo "| code | lost | get | get, degraded | repair | rs of the same k and m: get | get, degraded | repair |"
echo "|---|---|---|---|---|---|---|---|"
for code in "${codes[@]}"; do
    figures="$("$weft" codes show "$code" --json)"
    nodes="$(number nodes <<<"$figures")"
    data="$(awk -v n="$nodes" -v stored="$(number stored_bytes_per_byte <<<"$figures")" 'BEGIN { printf "%.0f", n / stored }')"
    read -r whole degraded repaired <<<"$(measure "$code" "$nodes")"
    read -r rs_whole rs_degraded rs_repaired <<<"$(measure "rs:$data+$((nodes - data))" "$nodes")"
    echo "| \`$code\` | $lost | $whole | $degraded | $repaired | $rs_whole | $rs_degraded | $rs_repaired |"
done
