#!/usr/bin/env bash
# A daemon beside nginx, both serving the same 64 shards of 1 MiB from memory on loopback, in one run: lab/daemon.sh
#
# Both have one core and wrk has the same one, so that cells say what a GET costs in all; seconds of processor for a GiB, which
# is the server's alone, are told beside. Then both over TLS; GETs by our own client, with and without a key, which wrk cannot
# sign with; and PUTs beside a loop that writes, syncs and renames files in the same folder (DISK, default /var/tmp), the disk's
# bound. Read the ratios, not the figures. Needs nginx, wrk, curl, openssl.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in nginx wrk curl openssl; do
    command -v "$program" >/dev/null || { echo "lab/daemon.sh needs $program: apt-get install nginx-light wrk curl openssl" >&2; exit 1; }
done
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
client="${CLIENT:-}"
[ -n "$client" ] || {
    cargo build --release --locked -p weft-daemon --example daemon_client
    client="$(realpath "${CARGO_TARGET_DIR:-target}/release/examples/daemon_client")"
}
seconds="${SECONDS_EACH:-3}" rounds="${ROUNDS:-3}" core="${CORE:-1}"
folder="$(mktemp -d /dev/shm/weft-daemon.XXXXXX)"
disk="$(mktemp -d "${DISK:-/var/tmp}/weft-daemon.XXXXXX")"
mkdir "$folder/served"
processes=()
finish() {
    kill "${processes[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$folder" "$disk"
}
trap finish EXIT

serve() { # NAME FOLDER OPTIONS...: sets $pid, and $url as the daemon says it
    local name="$1" served="$2"
    shift 2
    taskset -c "$core" "$weft" node serve "$served" --listen 127.0.0.1:0 "$@" >"$folder/said.$name" 2>"$folder/log.$name" &
    pid=$!
    processes+=("$pid")
    until grep -q ' at weft' "$folder/said.$name"; do sleep 0.05; done
    url="$(sed -n 's,.* at \(weft[^ ]*\) .*,\1,p' "$folder/said.$name")"
}
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$folder/tls.key" -out "$folder/tls.pem" 2>/dev/null
serve plain "$folder/served"
daemon="$pid" plain="$url" ours="http://${url#weft://}"
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
    server {
        listen 127.0.0.1:${TLS_PORT:-7698} ssl;
        ssl_certificate $folder/tls.pem;
        ssl_certificate_key $folder/tls.key;
        ssl_protocols TLSv1.3;
        root $folder/served;
    }
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
compare() { # HEADING NGINX_URL DAEMON_URL DAEMON_PROCESS CONNECTIONS...
    local heading="$1" nginx_url="$2" daemon_url="$3" daemon_process="$4"
    shift 4
    echo "$heading: 1 MiB GETs a second, and the server's seconds of processor for a GiB; best of $rounds rounds in turn"
    for connections in "$@"; do
        for _ in $(seq "$rounds"); do
            echo "nginx $(cell nginx "$nginx_url" "$connections" "$nginx")"
            echo "daemon $(cell daemon "$daemon_url" "$connections" "$daemon_process")"
        done | awk -v connections="$connections" '
            $2 > best[$1] { best[$1] = $2 }
            !($1 in least) || $3 < least[$1] { least[$1] = $3 }
            END {
                printf "%2d connections: nginx %5d %.3f s, daemon %5d %.3f s; ratio %.2f, of the server alone %.2f\n", connections,
                    best["nginx"], least["nginx"], best["daemon"], least["daemon"], best["daemon"] / best["nginx"], least["nginx"] / least["daemon"]
            }'
    done
}
compare "plain HTTP" "$theirs" "$ours" "$daemon" 1 8 32
# A folder has one daemon at a time.
kill "$daemon" && wait "$daemon" 2>/dev/null || true
serve tls "$folder/served" --cert "$folder/tls.pem" --cert-key "$folder/tls.key"
compare "TLS 1.3" "https://127.0.0.1:${TLS_PORT:-7698}" "https://${url#weft+tls://}" "$pid" 1 8
kill "$pid" && wait "$pid" 2>/dev/null || true

by_client() { # WHAT URL KEY PROCESS
    local before each
    before="$(ticks "$4")"
    each="$(taskset -c "$core" "$client" "$1" "$2" "$3" 8 "$seconds")"
    awk -v each="$each" -v seconds="$seconds" -v ticks="$(($(ticks "$4") - before))" -v hz="$(getconf CLK_TCK)" \
        'BEGIN { printf "%6.0f a second, %.3f s of the daemon for a GiB\n", each, ticks / hz / (each * seconds) * 1024 }'
}
echo "by our own client, 8 at a time"
serve plain2 "$folder/served"
echo "GET without a key  $(by_client get "$url" - "$pid")"
kill "$pid" && wait "$pid" 2>/dev/null || true
serve keyed "$folder/served" --key "$folder/key"
echo "GET with a key     $(by_client get "$url" "$folder/key" "$pid")"
kill "$pid" && wait "$pid" 2>/dev/null || true
serve both "$folder/served" --key "$folder/key" --tls
echo "GET with both      $(by_client get "$url" "$folder/key" "$pid")"
kill "$pid" && wait "$pid" 2>/dev/null || true
serve local "$folder/served" --key "$folder/key" --tls --short-circuit
echo "by short circuit   $(by_client local "$url" "$folder/key" "$pid")"

mkdir "$disk/served" "$disk/raw"
cp "$folder/served/weft-node.json" "$disk/served/"
serve put "$disk/served"
for workers in 1 8; do
    for round in $(seq "$rounds"); do
        echo "raw $(taskset -c "$core" "$client" raw "$disk/raw" "$workers" "$seconds")"
        rm -rf "$disk/raw" && mkdir "$disk/raw"
        echo "daemon $(taskset -c "$core" "$client" put "$url" - "$workers" "$seconds")"
    done | awk -v workers="$workers" '
        $2 > best[$1] { best[$1] = $2 }
        END { printf "1 MiB PUTs to a disk, %d at a time: write, fsync and rename alone %.0f a second, through the daemon %.0f; ratio %.2f\n", workers, best["raw"], best["daemon"], best["daemon"] / best["raw"] }'
done
