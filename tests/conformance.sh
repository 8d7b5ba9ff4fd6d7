#!/usr/bin/env bash
# The POSIX suites of others on a real mount: conformance.sh WEFT TOOLS [FSX_OPERATIONS]
# WEFT: the program; TOOLS: the folder with pjdfstest and fsx. Run as root.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
weft="$(realpath "$1")" tools="$(realpath "$2")" operations="${3:-20000}"
seed="${WEFT_SEED:-1}"
[ "$(id -u)" = 0 ] || { echo "conformance.sh needs root: pjdfstest changes users" >&2; exit 1; }

folder="$(mktemp -d)"
finish() {
    "$weft" umount "$folder/try/mnt" >/dev/null 2>&1 || umount -l "$folder/try/mnt" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT
# pjdfstest becomes other users, who must be able to get there.
chmod 755 "$folder"
"$weft" quickstart "$folder/try" >/dev/null
mount="$folder/try/mnt"

mkdir "$mount/pjdfstest"
"$tools/pjdfstest" -c "$here/pjdfstest.toml" -p "$mount/pjdfstest" -s /dev/shm >"$folder/pjdfstest.log" 2>&1 || true
summary="$(grep -a '^Summary:' "$folder/pjdfstest.log" || true)"
echo "pjdfstest: ${summary:-it did not end}"
# Exactly these are skipped, on tmpfs too: they need a remount, or a file system with a limit of links.
case "$summary" in
"Summary: 0 failed, 14 skipped, 384 passed,"*) ;;
*)
    grep -a -A 4 'FAILED' "$folder/pjdfstest.log" >&2 || tail -20 "$folder/pjdfstest.log" >&2
    exit 1
    ;;
esac

echo "fsx: $operations operations with mmap, seed $seed"
"$tools/fsx" -q -f "$here/fsx/mmap.toml" -S "$seed" -N "$operations" -P "$folder" "$mount/mapped"

echo "fsx: $operations operations with O_DIRECT, seed $seed"
cc -shared -fPIC -O2 -o "$folder/direct.so" "$here/fsx/direct.c" -ldl
LD_PRELOAD="$folder/direct.so" "$tools/fsx" -q -f "$here/fsx/direct.toml" -S "$seed" -N "$operations" -P "$folder" "$mount/direct"

"$weft" umount "$mount"
"$weft" fsck "$folder/try/meta.db"
echo "conformance: all passed"
