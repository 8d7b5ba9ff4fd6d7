#!/usr/bin/env bash
# Nodes in clouds, against servers of this machine: Azurite (azblob), fake-gcs-server (gcs), Moto (s3) and pyftpdlib (ftp), each
# installed into a temporary folder and listening at 127.0.0.1 only. First the conformance suite of nodes on each, then a small
# volume over all of them that loses some. On the way each kind of node is compiled alone, which is too long for every change.
#
# Needs node with npm, go, python3 with venv, curl and openssl. Takes some 500 MB and ten minutes of building: TOOLS=/FOLDER keeps
# what was installed for the next time.
set -euo pipefail
cd "$(dirname "$0")/.."

azurite=3.35.0 fake_gcs=v1.56.1 moto=5.2.5 pyftpdlib=2.2.0

folder=$(mktemp -d)
tools=${TOOLS:-$folder/tools}
servers=()
end() {
    for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
    wait
    rm -rf "$folder"
}
trap end EXIT

install() { # NAME VERSION COMMAND...: unless it is there
    if [ ! -e "$tools/$1-$2" ]; then
        echo "installing $1 $2"
        "${@:3}"
        touch "$tools/$1-$2"
    fi
}
mkdir -p "$tools"
install azurite "$azurite" npm install --silent --no-fund --no-audit --prefix "$tools" "azurite@$azurite"
install fake-gcs-server "$fake_gcs" env GOBIN="$tools" go install "github.com/fsouza/fake-gcs-server@$fake_gcs"
install_from_pypi() { python3 -m venv "$tools/python" && "$tools/python/bin/pip" install --quiet "$1"; }
install pyftpdlib "$pyftpdlib" install_from_pypi "pyftpdlib==$pyftpdlib"
install moto "$moto" install_from_pypi "moto[server]==$moto"

free_port() { node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })'; }
start() { # PORT COMMAND...: waits until it listens; its process is the last of servers
    "${@:2}" > "$folder/log.$1" 2>&1 &
    servers+=($!)
    until (exec 3<> "/dev/tcp/127.0.0.1/$1") 2>/dev/null; do
        kill -0 "${servers[-1]}" 2>/dev/null || { cat "$folder/log.$1" >&2; exit 1; }
        sleep 0.1
    done
}

# The account and key that Azurite's documentation gives; they open nothing else.
account=devstoreaccount1
account_key=Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==
echo "account_key = $account_key" > "$folder/azblob.key"
echo "token = any" > "$folder/gcs.key"
printf 'access_key_id = weft\nsecret_access_key = not-a-secret\n' > "$folder/s3.key"
printf 'username = weft\npassword = not-a-secret\n' > "$folder/ftp.key"
chmod 600 "$folder"/*.key
mkdir -p "$folder/gcs/shards" "$folder/ftp/suite"

azblob_port=$(free_port)
start "$azblob_port" node "$tools/node_modules/azurite/dist/src/blob/main.js" --silent --inMemoryPersistence --skipApiVersionCheck \
    --disableTelemetry --blobHost 127.0.0.1 --blobPort "$azblob_port"
gcs_port=$(free_port)
start "$gcs_port" "$tools/fake-gcs-server" -scheme http -host 127.0.0.1 -port "$gcs_port" -public-host "127.0.0.1:$gcs_port" \
    -backend filesystem -filesystem-root "$folder/gcs"
gcs_server=${servers[-1]}
s3_port=$(free_port)
start "$s3_port" "$tools/python/bin/moto_server" --host 127.0.0.1 --port "$s3_port"
s3_server=${servers[-1]}
ftp_port=$(free_port)
start "$ftp_port" "$tools/python/bin/python" -m pyftpdlib --interface 127.0.0.1 --port "$ftp_port" --write --directory "$folder/ftp" \
    --username weft --password not-a-secret
ftp_server=${servers[-1]}

# Azurite begins without a container, and making one must be signed.
now=$(LC_ALL=C date --utc '+%a, %d %b %Y %H:%M:%S GMT')
signed=$(printf 'PUT\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:%s\nx-ms-version:2021-12-02\n/%s/%s/shards\nrestype:container' \
    "$now" "$account" "$account")
key_hex=$(base64 -d <<< "$account_key" | od -An -v -tx1 | tr -d ' \n')
signature=$(printf %s "$signed" | openssl dgst -sha256 -mac HMAC -macopt "hexkey:$key_hex" -binary | base64)
curl --silent --show-error --fail --request PUT --header "x-ms-date: $now" --header 'x-ms-version: 2021-12-02' \
    --header "Authorization: SharedKey $account:$signature" --header 'Content-Length: 0' \
    "http://127.0.0.1:$azblob_port/$account/shards?restype=container"
curl --silent --show-error --fail --request PUT "http://127.0.0.1:$s3_port/shards" --output "$folder/bucket"

options_of_azblob="?endpoint=http://127.0.0.1:$azblob_port/$account&account=$account"
options_of_gcs="?endpoint=http://127.0.0.1:$gcs_port"
options_of_s3="?endpoint=http://127.0.0.1:$s3_port"
place() { # KIND NAME
    local options="options_of_$1"
    case $1 in
    ftp) echo "ftp://127.0.0.1:$ftp_port/$2" ;;
    *) echo "$1://shards/$2${!options}" ;;
    esac
}

features=azblob,gcs,ftp
for kind in azblob gcs s3 ftp; do
    echo "== the conformance suite on $kind"
    WEFT_TEST_PLACE=$(place "$kind" suite) WEFT_TEST_PLACE_KEY="$folder/$kind.key" \
        cargo test --package weft-nodes --features "$features" --locked --test it -- --ignored --exact foreign::a_place_conforms
done

echo "== every kind compiles: all together, and each alone"
cargo test --package weft-nodes --features all-kinds --locked --lib -- foreign::
kinds=$(sed -n '/^all-kinds/,/^]/s/^ *"\(.*\)",$/\1/p' crates/nodes/Cargo.toml)
for kind in $kinds; do cargo check --quiet --package weft-nodes --no-default-features --features "$kind" --locked; done

echo "== a volume over them that loses one"
cargo build --features "$features" --locked
weft() { "${CARGO_TARGET_DIR:-target}/debug/weft" "$@"; }
meta=$folder/meta.db
weft format --policy rs:2+2 "$meta"
for kind in azblob gcs s3 ftp; do weft node add "$meta" "$kind" "$(place "$kind" volume)" --key "$folder/$kind.key"; done
head -c 5000000 /dev/urandom > "$folder/data"
weft put "$meta" "$folder/data" /data
end_server() { kill "$1"; wait "$1" 2>/dev/null || true; }
end_server "$gcs_server"
weft get "$meta" /data "$folder/back"
cmp "$folder/data" "$folder/back"
weft node replace "$meta" gcs "$folder/instead"
weft repair "$meta"
end_server "$s3_server"
end_server "$ftp_server"
weft get "$meta" /data "$folder/again"
cmp "$folder/data" "$folder/again"
echo "== all is well"
