#!/usr/bin/env bash
# What the repair of a lost node costs, code by code, on folders in memory, on daemons over loopback, and on daemons with keys, which
# ask each other: seconds, and bytes a lost byte beside the theory: lab/repair.sh [CODE...]
#
# MIB: about so much is lost with each node (256). Each code gets a volume of as many nodes as it has shards; the last node is lost and replaced,
# or the last two together (LOST=2).
# Nodes that combine send less than they read; what was sent is compared.
set -euo pipefail
cd "$(dirname "$0")/.."
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
codes=("$@")
[ "$#" -gt 0 ] || codes=(rs:4+2 rs:8+4 raid5:5 replica:3 embr:n=6,k=5 embr:n=6,k=4 msbasic:4 basic:4+4,d=6 lrc:8+2+2 clay:4+2 clay:8+4 msr:4+4,d=7 mbr:4+4,d=5)
mib="${MIB:-256}" lost_nodes="${LOST:-1}"
folder="$(mktemp -d /dev/shm/weft-repair.XXXXXX)"
processes=()
finish() {
    kill "${processes[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

number() { sed -n "s/.*\"$1\": \([0-9.]*\).*/\1/p" | head -n 1; }
section() { sed -n "/\"$1\": {/,/}/p"; }

place() { # NAME: makes a node, sets $place to its address and its key
    mkdir "$folder/$1"
    if [ "$kind" = folders ]; then
        rmdir "$folder/$1"
        place=("$folder/$1")
        return
    fi
    key=()
    [ "$kind" = daemons ] || key=(--key "$folder/key.$1")
    : >"$folder/said.$1"
    "$weft" node serve "$folder/$1" --listen 127.0.0.1:0 "${key[@]}" >>"$folder/said.$1" 2>/dev/null &
    processes+=("$!")
    until grep -q ' at weft' "$folder/said.$1"; do sleep 0.05; done
    place=("$(sed -n 's,.* at \(weft[^ ]*\) .*,\1,p' "$folder/said.$1")" "${key[@]}")
}

echo "| code | nodes | lost MiB | seconds on $([ -n "${ONLY:-}" ] && echo "$ONLY" || echo "folders, daemons, with keys") | bytes a lost byte | theory |"
echo "|---|---|---|---|---|---|"
for code in "${codes[@]}"; do
    figures="$("$weft" codes show "$code" --json)"
    nodes="$(number nodes <<<"$figures")"
    stored="$(number stored_bytes_per_byte <<<"$figures")"
    plain="$(section repair <<<"$figures" | number received_bytes_per_byte)"
    combined="$(section repair_if_nodes_compute <<<"$figures" | number received_bytes_per_byte)"
    if [ "$lost_nodes" = 2 ]; then
        # Of two together, per byte of both.
        of_both() { section "$1" <<<"$figures" | number received_bytes_per_byte | awk '{ printf "%.3f", $1 / 2 }'; }
        plain="$(of_both if_nodes_send)" combined="$(of_both if_nodes_compute)"
    fi
    seconds="" read=""
    for kind in ${ONLY:-folders daemons keyed}; do
        meta="$folder/$kind.db"
        "$weft" format --policy "$code" "$meta" >/dev/null
        for node in $(seq "$nodes"); do
            place "$kind.$node"
            "$weft" node add "$meta" "$node" "${place[@]}" >/dev/null
        done
        head -c "$(awk "BEGIN { printf \"%d\", $mib * 1048576 * $nodes / $stored }")" /dev/urandom >"$folder/file"
        "$weft" put "$meta" "$folder/file" /file
        # The last nodes go, and what is in their places is empty.
        gone="$(seq "$nodes" -1 $((nodes - lost_nodes + 1)))"
        for node in $gone; do
            if [ "$kind" != folders ]; then
                kill -9 "${processes[-1]}"
                wait "${processes[-1]}" 2>/dev/null || true
                unset 'processes[-1]'
            fi
            rm -rf "$folder/$kind.$node"
        done
        for node in $gone; do
            place "$kind.new$node"
            "$weft" node replace "$meta" "$node" "${place[@]}" >/dev/null
        done
        began="$(date +%s.%N)"
        report="$("$weft" repair --json "$meta")"
        seconds+="$(awk "BEGIN { printf \"%.2f \", $(date +%s.%N) - $began }")"
        report="$(section report <<<"$report"; sed -n '/"report"/,/"census"/p' <<<"$report")"
        lost="$(number bytes_written <<<"$report")"
        read+="$(awk "BEGIN { printf \"%.3f \", $(number bytes_read <<<"$report") / $lost }")"
        "$weft" get "$meta" /file "$folder/back"
        cmp "$folder/file" "$folder/back"
        kill "${processes[@]}" 2>/dev/null || true
        wait 2>/dev/null || true
        processes=()
        rm -rf "${folder:?}"/*
    done
    theory="$plain${combined:+, combined $combined}"
    echo "| $code | $nodes | $((lost >> 20)) | ${seconds% } | ${read% } | $theory |"
done
