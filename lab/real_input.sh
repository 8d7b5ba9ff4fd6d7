#!/usr/bin/env bash
# A volume under what people do: lab/real_input.sh SOURCE-TREE FOLDER [CODE NODES LOST] [LARGE-MIB]
#
# Copies SOURCE-TREE (20,000 files or more) and a large file of random bytes into a fresh volume below FOLDER, clones and
# builds a project and runs a SQLite database in it, takes LOST nodes away while reads and writes go on, repairs onto new
# folders, takes LOST others, and compares everything with checksums taken outside. Needs sqlite3, git, cargo.
set -euo pipefail
cd "$(dirname "$0")/.."
source="$(realpath "$1")" folder="$2" code="${3:-rs:4+2}" nodes="${4:-6}" lost="${5:-2}" large_mib="${6:-4096}"
weft="$(realpath "${WEFT:-${CARGO_TARGET_DIR:-target}/release/weft}")"
mkdir -p "$folder/nodes" "$folder/mnt"
folder="$(realpath "$folder")"
meta="$folder/meta.db" mnt="$folder/mnt"
say() { printf '%(%H:%M:%S)T %s\n' -1 "$*"; }
finish() {
    touch "$folder/stop"
    "$weft" umount "$mnt" >/dev/null 2>&1 || umount -l "$mnt" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum); }

"$weft" format "$meta" --policy "$code" >/dev/null
for i in $(seq "$nodes"); do "$weft" node add "$meta" "n$i" "$folder/nodes/$i" >/dev/null; done
"$weft" mount "$meta" "$mnt" -d >/dev/null

say "checksums of $(find "$source" -type f | wc -l) files and a file of $large_mib MiB"
sums "$source" >"$folder/tree.sums"
head -c "${large_mib}M" /dev/urandom >"$folder/large"
large_sum="$(sha256sum <"$folder/large")"
say "copying in"
cp -r "$source" "$mnt/tree"
cp "$folder/large" "$mnt/large"
rm "$folder/large"
check() {
    sums "$mnt/tree" | cmp - "$folder/tree.sums" && [ "$(sha256sum <"$mnt/large")" = "$large_sum" ] || { say "DIFFERS: $1"; exit 1; }
    say "identical: $1"
}

say "git clone and cargo build in the mount"
git clone -q . "$mnt/clone"
git -C "$mnt/clone" fsck --full >/dev/null 2>&1
(cd "$mnt/clone" && CARGO_TARGET_DIR="$mnt/target" cargo build -q -p weft-format --locked)

say "a database under write load"
sqlite3 "$mnt/base.db" "pragma journal_mode=wal; create table t(id integer primary key, x text);" >/dev/null
(
    i=0
    while [ ! -e "$folder/stop" ]; do
        i=$((i + 1))
        sqlite3 "$mnt/base.db" "begin; insert into t(x) values(hex(randomblob(500))); insert into t(x) values('$i'); commit;"
        echo "$i" >"$folder/acknowledged"
    done
) &
load=$!
sleep 2
say "taking away $lost of $nodes nodes"
for i in $(seq "$lost"); do mv "$folder/nodes/$i" "$folder/nodes/gone$i"; done
check "with $lost of $nodes nodes away"
(cd "$mnt/clone" && touch crates/format/src/lib.rs && CARGO_TARGET_DIR="$mnt/target" cargo build -q -p weft-format --locked)
say "built again; $("$weft" status "$meta" | head -1)"
for i in $(seq "$lost"); do "$weft" node replace "$meta" "n$i" "$folder/nodes/new$i" >/dev/null; done
rm -rf "$folder"/nodes/gone*
"$weft" repair "$meta" || true
touch "$folder/stop"
wait "$load"
"$weft" umount "$mnt" >/dev/null
"$weft" repair "$meta"
"$weft" fsck "$meta"
"$weft" mount "$meta" "$mnt" -d >/dev/null
say "taking away $lost others"
for i in $(seq "$lost"); do
    n=$((nodes + 1 - i))
    if [ "$n" -le "$lost" ]; then rm -rf "$folder/nodes/new$n"; else rm -rf "$folder/nodes/$n"; fi
done
check "with $lost other nodes away"
[ "$(sqlite3 "$mnt/base.db" 'pragma integrity_check;')" = ok ]
rows="$(sqlite3 "$mnt/base.db" 'select count(*) from t;')"
[ "$rows" -eq $((2 * $(cat "$folder/acknowledged"))) ]
git -C "$mnt/clone" fsck --full >/dev/null 2>&1
say "the database is whole with $rows rows, the clone too"
say "all as it should be with $code"
