#!/usr/bin/env bash
# A volume on one HDFS whose nodes are one DataNode each, in network namespaces: lab/hdfs_nodes.sh
#
# A NameNode and eight DataNodes of Hadoop 3.4.2, a Java process and a network each; eight nodes `webhdfs://...?datanode=...`. Files of MB
# mebibytes (default 64) are put as replica:3 and raided in place to CODE (default msbasic:4), and put as rs:5+2; then a DataNode is killed, all is
# read, and repaired onto the others. After each step the NameNode says where the blocks are: no two shards of a segment may share a DataNode,
# and each block has one replica. Beside it: the same file as HDFS replicates it (3) and codes it (RS-3-2-1024k, as RS-6-3 needs nine DataNodes), by
# WebHDFS. Needs root, ip, curl, python3, Maven and Java 17 (lab/hadoop.sh). WEFT=PROGRAM takes a build with `webhdfs` that is there.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in ip nsenter curl python3 java mvn; do
    command -v "$program" >/dev/null || { echo "lab/hdfs_nodes.sh needs $program: apt-get install iproute2 curl python3 maven openjdk-17-jdk-headless" >&2; exit 1; }
done
source lab/hadoop.sh
weft="${WEFT:-}"
[ -n "$weft" ] || { cargo build --release --locked --features webhdfs; weft="$(realpath "${CARGO_TARGET_DIR:-target}/release/weft")"; }
mb="${MB:-64}" code="${CODE:-msbasic:4}" count=8
name="wefthdfs$$" net=10.78.0
folder="$(mktemp -d "${TMPDIR:-/tmp}/weft-hdfs.XXXXXX")"
processes=()
client() { nsenter "--net=/run/netns/$name" "$@"; }
# The same for what runs on: the process itself, and no shell before it.
beside() { exec nsenter "--net=/run/netns/$name" "$@"; }
finish() {
    kill "${processes[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    for number in $(seq "$count"); do ip netns del "$name-$number" 2>/dev/null || true; done
    ip netns del "$name" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT

# The NameNode and the client are on .1, DataNode k is on .(10 + k).
ip netns add "$name"
ip -n "$name" link set lo up
ip -n "$name" link add switch type bridge
ip -n "$name" addr add "$net.1/24" dev switch
ip -n "$name" link set switch up
for number in $(seq "$count"); do
    ip netns add "$name-$number"
    ip -n "$name-$number" link set lo up
    ip -n "$name" link add "port$number" type veth peer name eth0 netns "$name-$number"
    ip -n "$name" link set "port$number" master switch up
    ip -n "$name-$number" addr add "$net.$((10 + number))/24" dev eth0
    ip -n "$name-$number" link set eth0 up
done

class_path="$(hadoop_class_path "$folder")"
mkdir "$folder/conf"
property() { echo "<property><name>$1</name><value>$2</value></property>"; }
cat > "$folder/conf/core-site.xml" <<XML
<configuration>$(property fs.defaultFS "hdfs://$net.1:8020")$(property hadoop.tmp.dir "$folder/tmp")</configuration>
XML
# A DataNode is dead after two looks of two seconds and ten missed heartbeats.
cat > "$folder/conf/hdfs-site.xml" <<XML
<configuration>
$(property dfs.namenode.http-address "$net.1:9870")
$(property dfs.namenode.name.dir "$folder/names")
$(property dfs.namenode.datanode.registration.ip-hostname-check false)
$(property dfs.permissions.enabled false)
$(property dfs.heartbeat.interval 1)
$(property dfs.namenode.heartbeat.recheck-interval 2000)
</configuration>
XML
# WebHDFS of 3.4 makes classes as Java 8 allowed it. Little is compiled well in so short a life.
hadoop=(java -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 --add-opens java.base/java.lang=ALL-UNNAMED -cp "$folder/conf:$class_path")
namenode=org.apache.hadoop.hdfs.server.namenode.NameNode datanode=org.apache.hadoop.hdfs.server.datanode.DataNode
client "${hadoop[@]}" $namenode -format -nonInteractive >"$folder/format.log" 2>&1
beside "${hadoop[@]}" $namenode >"$folder/namenode.log" 2>&1 &
processes+=($!)
start() { # NUMBER
    local address="$net.$((10 + $1))"
    nsenter "--net=/run/netns/$name-$1" "${hadoop[@]}" $datanode -D "dfs.datanode.data.dir=$folder/data$1" -D "dfs.datanode.hostname=$address" \
        >"$folder/datanode$1.log" 2>&1 &
    processes+=($!)
}
for number in $(seq "$count"); do start "$number"; done

# rest METHOD PATH QUERY [curl's options]: the answer of WebHDFS.
rest() { client curl --silent --show-error --fail --location --request "$1" "http://$net.1:9870/webhdfs/v1$2?user.name=weft&$3" "${@:4}"; }
live() {
    client curl --silent "http://$net.1:9870/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState" |
        python3 -c 'import json, sys; print(json.load(sys.stdin)["beans"][0]["NumLiveDataNodes"])' 2>/dev/null || echo 0
}
for _ in $(seq 240); do [ "$(live)" = "$count" ] && break; sleep 0.5; done
[ "$(live)" = "$count" ] || { tail -n 3 "$folder"/*.log >&2; exit 1; }

# check WHAT: by the NameNode, each shard is on its node's DataNode and nowhere else, and no two of a segment share one.
cat > "$folder/check.py" <<'PYTHON'
import collections, json, sys, urllib.request
base, what = sys.argv[1:]
def ask(path, operation):
    with urllib.request.urlopen(f"{base}/webhdfs/v1{path}?user.name=weft&op={operation}") as answer:
        return json.load(answer)
def files(path):
    for entry in ask(path, "LISTSTATUS")["FileStatuses"]["FileStatus"]:
        below = f"{path}/{entry['pathSuffix']}"
        if entry["type"] == "DIRECTORY":
            yield from files(below)
        else:
            yield below, entry["replication"]
segments = collections.defaultdict(list)
for path, replication in files("/weft"):
    node, file = path.split("/")[2], path.rsplit("/", 1)[1]
    for block in ask(path, "GETFILEBLOCKLOCATIONS")["BlockLocations"]["BlockLocation"]:
        assert replication == 1 and len(block["hosts"]) <= 1, f"{path} has {block['hosts']}"
        for host in block["hosts"]:
            assert host.endswith(f".{10 + int(node)}"), f"{path} is on {host}"
            if not file.endswith(".json"):
                segments[tuple(file.split(".")[:2])].append(host)
for shards in segments.values():
    assert len(set(shards)) == len(shards), f"two shards of one segment on one DataNode: {shards}"
print(f"{what}: {sum(map(len, segments.values()))} shards of {len(segments)} segments and generations, each on its DataNode, no two of one together")
PYTHON
check() { client python3 "$folder/check.py" "http://$net.1:9870" "$1"; }
seconds() { # WHAT COMMAND...: runs it, and tells how fast MB mebibytes went
    local what="$1" began ended
    shift
    began=$(date +%s%N)
    "$@" >"$folder/said" 2>&1 || { cat "$folder/said" >&2; return 1; }
    ended=$(date +%s%N)
    python3 -c "import sys; s = (int(sys.argv[2]) - int(sys.argv[1])) / 1e9; print(f'{sys.argv[3]}: {s:.2f} s, {int(sys.argv[4]) / s:.1f} MiB/s')" \
        "$began" "$ended" "$what" "$mb"
}
# Bytes of blocks and their checksums on the DataNodes' disks.
stored() { sleep 3; find "$folder"/data* -name 'blk_*' -printf '%s\n' | python3 -c 'import sys; print(sum(map(int, sys.stdin)))'; }
told() { # WHAT BYTES BEFORE
    python3 -c "import sys; print(f'{sys.argv[1]}: {(int(sys.argv[2]) - int(sys.argv[3])) / ((int(sys.argv[4]) << 20)):.3f} bytes stored per byte')" "$1" "$2" "$3" "$mb"
}

head -c "$((mb << 20))" /dev/urandom > "$folder/input"
meta="$folder/meta.db"
"$weft" format --policy "rs:5+2" "$meta" >/dev/null
for number in $(seq "$count"); do
    client "$weft" node add "$meta" "$number" "webhdfs://$net.1:9870/weft/$number?user=weft&datanode=$net.$((10 + number))" >/dev/null
done
mkdir "$folder/raid"
client "$weft" put "$meta" "$folder/raid" / >/dev/null
client "$weft" policy set "$meta" /raid replica:3 >/dev/null
before=$(stored)
seconds "put replica:3" client "$weft" put "$meta" "$folder/input" /raid/file
told "replica:3" "$(stored)" "$before"
check "replica:3"
seconds "get replica:3" client "$weft" get "$meta" /raid/file "$folder/output"
cmp "$folder/input" "$folder/output"

client "$weft" policy set "$meta" /raid "$code" --convert >/dev/null
beside "$weft" care "$meta" --scrub-every 0 --balance-every 0 >"$folder/care.log" 2>&1 &
care=$!
processes+=("$care")
is_converted() {
    client "$weft" care status --json "$meta" | python3 -c 'import json, sys; c = json.load(sys.stdin)["conversion"]; sys.exit(not (c and c["ended_ms"]))'
}
for _ in $(seq 240); do is_converted && break; sleep 1; done
is_converted
client "$weft" care status --json "$meta" | python3 -c '
import json, sys
c = json.load(sys.stdin)["conversion"]
mb = int(sys.argv[1]) << 20
print("raided to {}: {} segments, {} of them merged; per byte {:.3f} read, {:.3f} written, {:.3f} saved".format(sys.argv[2], c["segment_count"], c["merged_count"], c["bytes_read"] / mb, c["bytes_written"] / mb, c["bytes_saved"] / mb))
assert c["failure_count"] == 0, c' "$mb" "$code"
kill "$care" && wait "$care" || true
check "$code"
seconds "get $code" client "$weft" get "$meta" /raid/file "$folder/output"
cmp "$folder/input" "$folder/output"

before=$(stored)
seconds "put rs:5+2" client "$weft" put "$meta" "$folder/input" /file
told "rs:5+2" "$(stored)" "$before"
check "rs:5+2"
seconds "get rs:5+2" client "$weft" get "$meta" /file "$folder/output"
cmp "$folder/input" "$folder/output"

# HDFS's own, through WebHDFS as well.
own() { # WHAT PATH QUERY
    before=$(stored)
    seconds "put $1" rest PUT "$2" "op=CREATE&$3" --upload-file "$folder/input"
    told "$1" "$(stored)" "$before"
    seconds "get $1" rest GET "$2" op=OPEN --output "$folder/output"
    cmp "$folder/input" "$folder/output"
}
own "HDFS replication 3" /own/copies "replication=3"
rest PUT /own/coded op=MKDIRS >/dev/null
rest PUT / "op=ENABLEECPOLICY&ecpolicy=RS-3-2-1024k" >/dev/null
rest PUT /own/coded "op=SETECPOLICY&ecpolicy=RS-3-2-1024k" >/dev/null
own "HDFS RS-3-2-1024k" /own/coded/file ""

# DataNode 3 dies; the processes began with the NameNode.
kill -9 "${processes[3]}"
seconds "get rs:5+2, one DataNode killed" client "$weft" get "$meta" /file "$folder/output"
cmp "$folder/input" "$folder/output"
seconds "get $code, one DataNode killed" client "$weft" get "$meta" /raid/file "$folder/output"
cmp "$folder/input" "$folder/output"
for _ in $(seq 120); do [ "$(live)" = "$((count - 1))" ] && break; sleep 0.5; done
# Eight shards do not go onto seven DataNodes: of CODE only what they take.
seconds "get rs:5+2, and HDFS knows" client "$weft" get "$meta" /file "$folder/output"
cmp "$folder/input" "$folder/output"
client "$weft" rm "$meta" /raid/file >/dev/null
seconds "repair rs:5+2" client "$weft" repair "$meta" --assume-lost 3
check "repaired"
seconds "get rs:5+2, repaired" client "$weft" get "$meta" /file "$folder/output"
cmp "$folder/input" "$folder/output"
