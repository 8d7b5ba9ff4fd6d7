#!/usr/bin/env bash
# Daemons with two cables, in network namespaces: lab/two_cables.sh
#
# Three daemons (rs:2+1) of one machine, used from another over one cable, then over two, each of RATE_MBIT (default 64): put and get of
# MB megabytes (default 96), and two cables to one. Then a mount reads and writes while a cable is pulled in the middle, in three ways: at
# the switch (no program learns of it), by dropping all that the daemons send (what users send arrives), at the user's machine (its programs learn of it). The longest call of 1 MiB
# is told, beside that of a calm run. Needs root, ip and tc (iproute2). WEFT=PROGRAM takes a build that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in ip tc python3; do
    command -v "$program" >/dev/null || { echo "lab/two_cables.sh needs $program: apt-get install iproute2 python3" >&2; exit 1; }
done
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
rate="${RATE_MBIT:-64}" mb="${MB:-96}"
name="wefttwo$$"
folder="$(mktemp -d /dev/shm/weft-two-cables.XXXXXX)"
processes=()
# Another network and the same mounts.
user() { nsenter "--net=/run/netns/$name-user" "$@"; }
finish() {
    timeout 90 "$weft" umount "$folder/mnt" >/dev/null 2>&1 || true
    kill "${processes[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    ip netns del "$name-user" 2>/dev/null || true
    ip netns del "$name-server" 2>/dev/null || true
    ip netns del "$name" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

ip netns add "$name"
for machine in user server; do
    ip netns add "$name-$machine"
    ip -n "$name-$machine" link set lo up
done
shape() { # NAMESPACE DEVICE
    ip netns exec "$1" tc qdisc replace dev "$2" root tbf rate "${rate}mbit" burst 32kb latency 50ms
}
for cable in 0 1; do
    ip -n "$name" link add "switch$cable" type bridge
    ip -n "$name" link set "switch$cable" up
    number=1
    for machine in user server; do
        ip -n "$name" link add "$machine$cable" type veth peer name "eth$cable" netns "$name-$machine"
        ip -n "$name" link set "$machine$cable" master "switch$cable" up
        ip -n "$name-$machine" addr add "10.$cable.0.$number/24" dev "eth$cable"
        ip -n "$name-$machine" link set "eth$cable" up
        number=$((number + 1))
    done
    shape "$name-server" "eth$cable"
    shape "$name" "server$cable"
done

"$weft" format --policy rs:2+1 "$folder/meta.db" >/dev/null
for number in 0 1 2; do
    port=$((7600 + number))
    mkdir "$folder/served$number"
    nsenter "--net=/run/netns/$name-server" "$weft" node serve "$folder/served$number" --listen "0.0.0.0:$port" --key "$folder/key$number" --tls \
        --advertise "10.0.0.2:$port,10.1.0.2:$port" >"$folder/said$number" 2>"$folder/log$number" &
    processes+=("$!")
    until grep -qs ' at weft' "$folder/said$number"; do sleep 0.05; done
    url="$(sed -n "s,.* at \(weft[^ ]*\) .*,\1,p" "$folder/said$number")"
    user "$weft" node add "$folder/meta.db" "n$number" "${url/0.0.0.0/10.0.0.2}" --key "$folder/key$number" >/dev/null
done
head -c "${mb}MB" /dev/urandom >"$folder/file"
# Half of it is driven.
head -c "$((mb / 2))MB" "$folder/file" >"$folder/driven"

seconds() { # COMMAND...: how long it takes
    local began ended
    began="$(date +%s.%N)"
    "$@" >/dev/null 2>&1
    ended="$(date +%s.%N)"
    awk -v began="$began" -v ended="$ended" 'BEGIN { printf "%.2f", ended - began }'
}
cable() { ip -n "$name" link set "server$1" "$2"; }

echo "load $(cut -d' ' -f1-3 /proc/loadavg); $mb MB of rs:2+1 ($((mb * 3 / 2)) MB put, $mb MB got), cables of $rate Mbit/s"
cable 1 down
put_one="$(seconds user "$weft" put "$folder/meta.db" "$folder/file" /one)"
get_one="$(seconds user "$weft" get "$folder/meta.db" /one "$folder/copy1")"
cable 1 up
# A switch takes a second or two to find the machines behind it.
until [ "$(user "$weft" node list "$folder/meta.db" | grep -c ': link .* is up')" = 6 ]; do sleep 0.2; done
put_two="$(seconds user "$weft" put "$folder/meta.db" "$folder/file" /two)"
get_two="$(seconds user "$weft" get "$folder/meta.db" /two "$folder/copy2")"
cmp "$folder/file" "$folder/copy1"
cmp "$folder/file" "$folder/copy2"
awk -v p1="$put_one" -v g1="$get_one" -v p2="$put_two" -v g2="$get_two" 'BEGIN {
    printf "| | one cable, s | two, s | ratio |\n|---|---|---|---|\n"
    printf "| put | %.2f | %.2f | %.2f |\n| get | %.2f | %.2f | %.2f |\n", p1, p2, p1 / p2, g1, g2, g1 / g2 }'
user "$weft" node list "$folder/meta.db" | grep ': link'

cat >"$folder/drive.py" <<'END'
"""Reads or writes a file in calls of 1 MiB, runs a command in the middle; prints the longest call in seconds."""
import os, subprocess, sys, time
what, path, midway = sys.argv[1:4]
source = open(sys.argv[4], "rb").read()
file = os.open(path, os.O_RDONLY if what == "read" else os.O_CREAT | os.O_WRONLY)
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
longest, step = 0.0, 1 << 20
for at in range(0, len(source), step):
    if at <= len(source) // 2 < at + step:
        subprocess.run(midway, shell=True, check=True)
    began = time.monotonic()
    if what == "read":
        assert os.pread(file, step, at) == source[at:at + step], "other bytes"
    else:
        os.pwrite(file, source[at:at + step], at)
        os.fsync(file)
    longest = max(longest, time.monotonic() - began)
print(f"{longest:.2f}")
END
mkdir "$folder/mnt"
mount() { user "$weft" mount -d "$folder/meta.db" "$folder/mnt" >/dev/null; }
drive() { user python3 "$folder/drive.py" "$1" "$folder/mnt/$2" "$3" "$folder/driven"; }
mount
calm="$(drive write calm true)"
user "$weft" umount "$folder/mnt" >/dev/null
mount
echo "| a cable is pulled midway | longest read of 1 MiB, s | longest write and fsync of 1 MiB, s |"
echo "|---|---|---|"
echo "| none | $(drive read calm true) | $calm |"
for number in 0 1; do
    for how in "at the switch" "answers vanish" "at the user"; do
        case "$how" in
            "at the switch")
                pull="ip -n $name link set server$number down"
                plug="ip -n $name link set server$number up" ;;
            "answers vanish")
                # No packet is as short as the bucket, so all are dropped.
                pull="ip netns exec $name-server tc qdisc replace dev eth$number root tbf rate 1kbit burst 10 latency 1ms"
                plug="" ;;
            "at the user")
                pull="ip -n $name-user link set eth$number down"
                plug="ip -n $name-user link set eth$number up" ;;
        esac
        written="$(drive write "$number$how" "$pull")"
        restore() { if [ -n "$plug" ]; then $plug; else shape "$name-server" "eth$number"; fi; }
        restore
        user "$weft" umount "$folder/mnt" >/dev/null
        mount
        read="$(drive read "$number$how" "$pull")"
        restore
        until [ "$(user "$weft" node list "$folder/meta.db" | grep -c ': link.* is down')" = 0 ]; do sleep 0.2; done
        echo "| cable $number, $how | $read | $written |"
    done
done
user "$weft" umount "$folder/mnt" >/dev/null
user "$weft" fsck "$folder/meta.db" | tail -n 1
echo "load $(cut -d' ' -f1-3 /proc/loadavg)"
