#!/usr/bin/env bash
# Raiding in place: what a conversion from copies moves, by code: lab/raid.sh [CODE...]
#
# For each code a volume of folders, on which MB mebibytes (default 64) lie as replica:3. `weft care` converts them to the code, and tells how many
# bytes it read and wrote for each byte of data, and how many segments it merged; then the file is read back and compared. The files are
# written under an age rule that names the code (`replica:3 then CODE after 30d`), and then `weft policy set --convert` asks for it now. WEFT=PROGRAM takes a build that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
mb="${MB:-64}"
folder="$(mktemp -d "${TMPDIR:-/tmp}/weft-raid.XXXXXX")"
care=""
finish() {
    [ -z "$care" ] || kill "$care" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
head -c "$((mb << 20))" /dev/urandom > "$folder/input"
[ $# -gt 0 ] || set -- rs:4+2 lrc:4+2+2 crs:4+2 clay:4+2 clay:6+3 msbasic:4 msbasic:8 basic:4+4,d=6 msr:4+4,d=7 mojette:4+2 embr:n=6,k=4
for code in "$@"; do
    volume="$folder/volume"
    mkdir "$volume"
    "$weft" format --policy replica:3 "$volume/meta.db" >/dev/null
    for number in $(seq 20); do "$weft" node add "$volume/meta.db" "$number" "$volume/node$number" >/dev/null; done
    "$weft" policy set "$volume/meta.db" / "$code" --after 30d >/dev/null
    "$weft" put "$volume/meta.db" "$folder/input" /file >/dev/null 2>&1
    "$weft" policy set "$volume/meta.db" / "$code" --convert >/dev/null
    "$weft" care "$volume/meta.db" --scrub-every 0 --balance-every 0 >/dev/null 2>&1 &
    care=$!
    # 0: it is converted; 1: not yet; 2: it failed.
    converted() { { "$weft" care status --json "$volume/meta.db" 2>/dev/null || true; } | python3 -c '
import json, sys
text, mb, code = sys.stdin.read(), int(sys.argv[1]) << 20, sys.argv[2]
c = json.loads(text)["conversion"] if text else None
if not c or not c["ended_ms"] or not c["segment_count"]:
    sys.exit(1)
if c["failure_count"]:
    print("the conversion to", code, "failed:", c, file=sys.stderr)
    sys.exit(2)
print("| `{}` | {} | {} | {:.3f} | {:.3f} | {:.3f} |".format(code, c["segment_count"], c["merged_count"], c["bytes_read"] / mb, c["bytes_written"] / mb, c["bytes_saved"] / mb))' \
        "$mb" "$code"; }
    outcome=1
    for _ in $(seq 240); do
        outcome=0
        converted || outcome=$?
        [ "$outcome" = 1 ] || break
        sleep 0.5
    done
    [ "$outcome" = 0 ] || { echo "lab/raid.sh: $code was not converted" >&2; exit 1; }
    kill "$care" && wait "$care" || true
    care=""
    "$weft" get "$volume/meta.db" /file "$folder/output" >/dev/null 2>&1
    cmp "$folder/input" "$folder/output"
    rm -rf "$volume" "$folder/output"
done
