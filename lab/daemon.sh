#!/usr/bin/env bash
# A daemon beside nginx, both serving the same 64 shards of 1 MiB from memory on loopback, in one run: lab/daemon.sh
#
# Both have one core and wrk has the same one, so that cells say what a GET costs in all; seconds of processor for a GiB, which
# is the server's alone, are told beside. Read the ratios, not the figures. Needs nginx, wrk, curl.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in nginx wrk curl; do
    command -v "$program" >/dev/null || { echo "lab/daemon.sh needs $program: apt-get install nginx-light wrk curl" >&2; exit 1; }
done
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
seconds="${SECONDS_EACH:-3}" rounds="${ROUNDS:-3}" core="${CORE:-1}"
folder="$(mktemp -d /dev/shm/weft-daemon.XXXXXX)"
mkdir "$folder/served"
processes=()
finish() {
    kill "${processes[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

taskset -c "$core" "$weft" node serve "$folder/served" --listen 127.0.0.1:0 >"$folder/said" 2>"$folder/log" &
daemon=$!
processes+=("$daemon")
until grep -q weft:// "$folder/said"; do sleep 0.05; done
ours="$(sed -n 's,.* at weft://\([^ ]*\) .*,http://\1,p' "$folder/said")"
curl -sSf -X PUT --data-binary '{"weft_node_version":1,"volume":"000102030405060708090a0b0c0d0e0f","node":"101112131415161718191a1b1c1d1e1f"}' "$ours/identity"
for number in $(seq 16 79); do
    head -c 1M /dev/urandom >"$folder/shard"
    curl -sSf -T "$folder/shard" -H 'Expect:' "$ours/shards/0190a1b2c3d4f0f1f2f3f4f5f6f7f8$number.0.0"
done

cat >"$folder/nginx.conf" <<END
user root;
worker_processes 1;
pid $folder/nginx.pid;
error_log $folder/error.log;
daemon off;
events { worker_connections 256; }
http {
    access_log off;
    sendfile ${SENDFILE:-on};
    tcp_nopush on;
    keepalive_requests 1000000;
    open_file_cache max=1000;
    default_type application/octet-stream;
    server { listen 127.0.0.1:${PORT:-7699}; root $folder/served; }
}
END
taskset -c "$core" nginx -c "$folder/nginx.conf" &
processes+=($!)
theirs="http://127.0.0.1:${PORT:-7699}"
until curl -sf -o /dev/null "$theirs/16/0190a1b2c3d4f0f1f2f3f4f5f6f7f816.0.0"; do sleep 0.05; done
nginx="$(pgrep -P "$(cat "$folder/nginx.pid")")"

# Every shard in turn; where in the folder it lies is nginx's affair.
cat >"$folder/get.lua" <<'END'
local at = 15
local plain = os.getenv("PLACE") == "nginx"
request = function()
    at = at == 79 and 16 or at + 1
    local name = string.format("0190a1b2c3d4f0f1f2f3f4f5f6f7f8%d.0.0", at)
    return wrk.format("GET", plain and string.format("/%d/%s", at, name) or "/shards/" .. name)
end
END
ticks() { awk '{ print $14 + $15 }' "/proc/$1/stat"; }
cell() { # PLACE URL CONNECTIONS PROCESS
    local before requests
    before="$(ticks "$4")"
    requests="$(PLACE="$1" taskset -c "$core" wrk -t1 -c"$3" -d"$seconds" -s "$folder/get.lua" "$2" | awk '/requests in/ { print $1 }')"
    awk -v requests="$requests" -v seconds="$seconds" -v ticks="$(($(ticks "$4") - before))" -v hz="$(getconf CLK_TCK)" \
        'BEGIN { printf "%.0f %.3f\n", requests / seconds, ticks / hz / requests * 1024 }'
}
echo "1 MiB GETs a second, and the server's seconds of processor for a GiB; best of $rounds rounds in turn"
for connections in 1 8 32; do
    for round in $(seq "$rounds"); do
        echo "nginx $(cell nginx "$theirs" "$connections" "$nginx")"
        echo "daemon $(cell daemon "$ours" "$connections" "$daemon")"
    done | awk -v connections="$connections" '
        $2 > best[$1] { best[$1] = $2 }
        !($1 in least) || $3 < least[$1] { least[$1] = $3 }
        END {
            printf "%2d connections: nginx %5d %.3f s, daemon %5d %.3f s; ratio %.2f, of the server alone %.2f\n", connections,
                best["nginx"], least["nginx"], best["daemon"], least["daemon"], best["daemon"] / best["nginx"], least["nginx"] / least["daemon"]
        }'
done
