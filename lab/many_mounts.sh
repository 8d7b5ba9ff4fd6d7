#!/usr/bin/env bash
# Three machines, one volume: what happens to programs when a mount, a daemon and a server of the metadata die, each in turn.
#
#   lab/many_mounts.sh [--seconds N] [--etcd]
#
# Machines a, b and c are namespaces (network, processes, mounts, host name) on one bridge, so that no one of them sees the processes of
# another; each has two daemons and a mount. The metadata is on
# PostgreSQL, the primary on a and a synchronous standby on b; with --etcd on etcd, a member on each machine. Programs on all three write files, append to one log and count in one file under a
# lock, and note outside of the volume what was acknowledged. After N seconds (10) a daemon on c is killed, then the mount of c, then the
# primary, and the standby is promoted (of etcd: the leader); each time it prints the longest pause of any program that goes on. In the end everything that was
# acknowledged is read on every mount that is left, and the volume is checked.
#
# Needs root, ip, python3, fuse3 and postgresql, or etcd-server and etcd-client. WEFT=PROGRAM takes a build that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=10 engine=postgres
while [ $# -gt 0 ]; do
    case "$1" in
    --seconds) seconds="$2"; shift 2 ;;
    --etcd) engine=etcd; shift ;;
    *) echo "usage: lab/many_mounts.sh [--seconds N] [--etcd]" >&2; exit 1 ;;
    esac
done
[ "$(id -u)" = 0 ] || { echo "lab/many_mounts.sh needs root: it makes network namespaces" >&2; exit 1; }
postgres_bin="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1 || true)"
servers=("$postgres_bin/initdb")
[ "$engine" = etcd ] && servers=(etcd etcdctl)
for program in ip nsenter unshare python3 fusermount3 "${servers[@]}"; do
    command -v "$program" >/dev/null ||
        { echo "lab/many_mounts.sh needs $program: apt-get install iproute2 util-linux python3 fuse3 postgresql etcd-server etcd-client" >&2; exit 1; }
done
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked --features shared; weft="${CARGO_TARGET_DIR:-target}/release/weft"; }
weft="$(realpath "$weft")"

tag="weft$$"
work="$(mktemp -d /var/tmp/weft-many-XXXXXX)"
chmod 755 "$work"
machines=(a b c)
declare -A init parent
finish() {
    set +e
    # With its first process a machine ends: all its processes are killed, and its mounts go.
    for machine in "${!init[@]}"; do kill -9 "${parent[$machine]}" "${init[$machine]}" 2>/dev/null; done
    for machine in "${machines[@]}"; do timeout 5 ip netns del "$tag$machine" 2>/dev/null; done
    timeout 5 ip link del "$tag" 2>/dev/null
    wait
    [ -n "${KEEP:-}" ] || rm -rf "$work"
}
trap finish EXIT

start_machine() { # MACHINE
    local machine="$1" children
    # Not by `ip netns exec`: that would give it mounts of its own.
    nsenter --net="/run/netns/$tag$machine" unshare --uts --pid --mount-proc --fork \
        sh -c 'hostname "$1" && exec sleep infinity' sh "$machine" &
    parent[$machine]=$!
    disown
    children="/proc/$!/task/$!/children"
    until [ "$(wc -w <"$children")" = 1 ]; do sleep 0.05; done
    init[$machine]="$(tr -d ' ' <"$children")"
    until [ "$(on "$machine" hostname)" = "$machine" ]; do sleep 0.05; done
}
on() { # MACHINE COMMAND...: on that machine
    local machine="$1"
    shift
    nsenter --target "${init[$machine]}" --net --uts --pid --mount "$@"
}
end() { # MACHINE PROCESS: kills a process by the number that it has there
    on "$1" sh -c 'kill -9 "$1"' sh "$2"
}
as_postgres() { # MACHINE COMMAND...: as its user
    local machine="$1"
    shift
    on "$machine" setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
}

ip link add "$tag" type bridge
ip link set "$tag" up
number=1
for machine in "${machines[@]}"; do
    ip netns add "$tag$machine"
    ip link add "$tag$machine" type veth peer name eth0 netns "$tag$machine"
    ip link set "$tag$machine" master "$tag" up
    ip -n "$tag$machine" addr add "10.77.0.$number/24" dev eth0
    ip -n "$tag$machine" link set eth0 up
    ip -n "$tag$machine" link set lo up
    mkdir -p "$work/$machine"/{mnt,disk1,disk2}
    start_machine "$machine"
    number=$((number + 1))
done

server() { # MACHINE ADDRESS: the server whose data is there
    as_postgres "$1" "$postgres_bin/pg_ctl" -D "$work/$1/postgres/data" -l "$work/$1/postgres/log" -w start \
        -o "-p 5432 -k $work/$1/postgres -c listen_addresses=$2 -c max_connections=200" >/dev/null
}
psql_at() { # ADDRESS SQL
    on c "$postgres_bin/psql" -h "$1" -U weft -d postgres -qtAc "$2"
}
start_postgres() {
    for machine in a b; do install -d -o postgres "$work/$machine/postgres"; done
    as_postgres a "$postgres_bin/initdb" -D "$work/a/postgres/data" -A trust -U weft >/dev/null
    printf 'host all all 10.77.0.0/24 trust\nhost replication all 10.77.0.0/24 trust\n' >>"$work/a/postgres/data/pg_hba.conf"
    server a 10.77.0.1
    as_postgres b "$postgres_bin/pg_basebackup" -h 10.77.0.1 -U weft -D "$work/b/postgres/data" -R -X stream -c fast
    server b 10.77.0.2
    psql_at 10.77.0.1 "ALTER SYSTEM SET synchronous_standby_names = '*'"
    psql_at 10.77.0.1 "SELECT pg_reload_conf()" >/dev/null
    psql_at 10.77.0.1 "CREATE DATABASE weft"
    meta="postgres://weft@10.77.0.1,10.77.0.2/weft?sslmode=disable"
}
lose_postgres() {
    end a "$(head -1 "$work/a/postgres/data/postmaster.pid")"
    sleep 2
    psql_at 10.77.0.2 "ALTER SYSTEM RESET synchronous_standby_names"
    psql_at 10.77.0.2 "SELECT pg_reload_conf()" >/dev/null
    psql_at 10.77.0.2 "SELECT pg_promote(true, 60)" >/dev/null
    lost="the primary was killed, and the standby promoted after 2 s"
}

etcd_at() { # COMMAND...: by etcd's own program, of all members
    ETCDCTL_API=3 on c etcdctl --endpoints=http://10.77.0.1:2379,http://10.77.0.2:2379,http://10.77.0.3:2379 "$@"
}
start_etcd() {
    local cluster="a=http://10.77.0.1:2380,b=http://10.77.0.2:2380,c=http://10.77.0.3:2380" number=1
    for machine in "${machines[@]}"; do
        on "$machine" sh -c 'echo $$ >"$0" && exec etcd "$@"' "$work/10.77.0.$number.pid" --name "$machine" \
            --data-dir "$work/$machine/etcd" --initial-cluster "$cluster" --initial-cluster-state new \
            --listen-client-urls "http://10.77.0.$number:2379" --advertise-client-urls "http://10.77.0.$number:2379" \
            --listen-peer-urls "http://10.77.0.$number:2380" --initial-advertise-peer-urls "http://10.77.0.$number:2380" \
            >"$work/$machine/etcd.log" 2>&1 &
        number=$((number + 1))
    done
    for _ in $(seq 300); do etcd_at endpoint health >/dev/null 2>&1 && break; sleep 0.1; done
    meta="etcd://10.77.0.1,10.77.0.2,10.77.0.3/weft?tls=off"
}
lose_etcd() {
    local leader
    leader="$(etcd_at endpoint status --write-out=json |
        python3 -c 'import json, sys; print(*[m["Endpoint"] for m in json.load(sys.stdin) if m["Status"]["leader"] == m["Status"]["header"]["member_id"]])')"
    leader="${leader#http://}" leader="${leader%:*}"
    end "${machines[${leader##*.} - 1]}" "$(cat "$work/$leader.pid")"
    lost="the leader was killed"
}

"start_$engine"
on a "$weft" format --policy rs:4+2 "$meta" >/dev/null
serve() { # MACHINE DISK ADDRESS: a daemon
    on "$1" sh -c 'echo $$ >"$0" && exec "$@"' "$work/$1/daemon$2.pid" \
        "$weft" node serve "$work/$1/disk$2" --listen "$3" --key "$work/$1/key$2" --plain >"$work/$1/daemon$2.log" 2>&1 &
    for _ in $(seq 100); do [ -s "$work/$1/key$2" ] && grep -q . "$work/$1/daemon$2.log" && break; sleep 0.1; done
}
number=1
for machine in "${machines[@]}"; do
    for disk in 1 2; do
        serve "$machine" "$disk" "10.77.0.$number:760$disk"
        on a "$weft" node add "$meta" "$machine$disk" "weft://10.77.0.$number:760$disk" --key "$work/$machine/key$disk" >/dev/null
    done
    number=$((number + 1))
done
for machine in "${machines[@]}"; do
    XDG_STATE_HOME="$work/$machine" on "$machine" "$weft" mount -d --shared "$meta" "$work/$machine/mnt"
done
echo "three machines, six daemons, three mounts"

cat >"$work/load.py" <<'PYTHON'
import fcntl, os, sys, time
machine, mnt, stop, notes = sys.argv[1:5]
longest, count, began = 0.0, 0, time.monotonic()
with open(notes, "w", buffering=1) as told, open(notes + ".pause", "w", buffering=1) as pauses:
    number = 0
    while not os.path.exists(stop):
        step = time.monotonic()
        number += 1
        content = f"{machine} {number}\n" * (1 + number % 300)
        with open(f"{mnt}/{machine}/f{number}", "w") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        told.write(f"file {number} {len(content)}\n")
        with open(f"{mnt}/log", "a") as log:
            log.write(f"{machine} {number}\n")
        told.write(f"log {number}\n")
        with open(f"{mnt}/count", "r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            before = int(file.read() or 0)
            file.seek(0)
            file.write(f"{before + 1}")
            file.flush()
            os.fsync(file.fileno())
        told.write("count\n")
        pauses.write(f"{step - began:.2f} {time.monotonic() - step:.3f}\n")
PYTHON
on a mkdir "$work/a/mnt/a" "$work/a/mnt/b" "$work/a/mnt/c"
on a sh -c "echo 0 > '$work/a/mnt/count'"
sleep 1.5
declare -A program
for machine in "${machines[@]}"; do
    on "$machine" python3 "$work/load.py" "$machine" "$work/$machine/mnt" "$work/stop" "$work/$machine.notes" 2>"$work/$machine.errors" &
    program[$machine]=$!
done

longest() { # MACHINE...: the longest pause so far, and begin again
    for machine in "$@"; do cat "$work/$machine.notes.pause"; done | sort -k2 -n | tail -1 | cut -d' ' -f2
    for machine in "$@"; do : >"$work/$machine.notes.pause"; done
}
sleep "$seconds"
echo "all is well: the longest step of a program took $(longest a b c) s"
end c "$(cat "$work/c/daemon1.pid")"
sleep "$seconds"
echo "a daemon of c was killed: the longest step took $(longest a b c) s"
mount_of() { # MACHINE: its process; nothing if its session is over
    on a "$weft" session list --json "$meta" |
        python3 -c 'import json, sys; print(*[s["process"] for s in json.load(sys.stdin) if s["mountpoint"] == sys.argv[1]])' "$work/$1/mnt"
}
is_over() { # MACHINE: is the session of its mount over? A list that cannot be had says nothing.
    local process
    process="$(mount_of "$1")" || return 1
    [ -z "$process" ]
}
end c "$(mount_of c)"
killed="$(date +%s.%N)"
# Its program may have had the lock of the count: others wait until the session of its mount is over.
until is_over c; do sleep 0.5; done
echo "the mount of c was killed: its session was over after $(python3 -c "import time; print(f'{time.time() - $killed:.0f}')") s"
sleep "$seconds"
echo "    and the longest step of the others took $(longest a b) s"
"lose_$engine"
sleep "$seconds"
echo "$lost: the longest step took $(longest a b) s"
touch "$work/stop"
for machine in a b; do wait "${program[$machine]}" || { echo "the program on $machine was told of an error:"; cat "$work/$machine.errors"; exit 1; }; done
wait "${program[c]}" || true

cat >"$work/check.py" <<'PYTHON'
import os, sys
mnt, work = sys.argv[1:3]
files = counted = 0
log = open(f"{mnt}/log").read().splitlines()
assert len(log) == len(set(log)), "a line was appended twice"
log = set(log)
for machine in "abc":
    lines = open(f"{work}/{machine}.notes").read().splitlines()
    for words in map(str.split, lines):
        if words[0] == "file":
            number = int(words[1])
            expected = f"{machine} {number}\n" * (1 + number % 300)
            assert open(f"{mnt}/{machine}/f{number}").read() == expected, f"{machine} {number}"
            files += 1
        elif words[0] == "log":
            assert f"{machine} {words[1]}" in log, f"line {machine} {words[1]}"
        else:
            counted += 1
count = int(open(f"{mnt}/count").read())
# One step of the program on c may have been done and not noted.
assert counted <= count <= counted + 1, f"{count} of {counted}"
print(f"{files} files, {len(log)} lines and a count of {count} are there as they were acknowledged")
PYTHON
sleep 1.5
for machine in a b; do echo "on $machine: $(on "$machine" python3 "$work/check.py" "$work/$machine/mnt" "$work")"; done
for machine in a b; do XDG_STATE_HOME="$work/$machine" on "$machine" "$weft" umount "$work/$machine/mnt"; done
on b "$weft" fsck "$meta"
serve c 1 10.77.0.3:7601
on b "$weft" repair "$meta" | tail -1
