#!/usr/bin/env python3
"""A store of objects without a catalogue whose members come and go: lab/objects.py

Fifteen daemons, each a machine of its own (a network namespace), and a machine of users. Ten users put 1,000 objects of 16 to 256 KiB, by turns of
`ldpc:cube-8-6` and `rs:8+6`, while two daemons join, one leaves, one is killed and one is killed and returns. Then users that know one
host, each another, read all of them, and no member may give a fifth more or less than the mean; one more daemon is killed, and what the others send until all is whole
is compared with theory, and the time with what SEMANTICS.md states. Needs root and ip (iproute2). WEFT=PROGRAM takes a build that is there, OBJECTS=100 fewer objects, and SEED=2 others."""

import functools, json, os, random, re, signal, subprocess, sys, threading, time
from concurrent.futures import ThreadPoolExecutor

import machines as lab
from machines import SENT, Machines, wait

COUNT = int(os.environ.get("OBJECTS", "1000"))
SEED = int(os.environ.get("SEED", "1"))
CODES = ["ldpc:cube-8-6", "rs:8+6"]
SHARDS, DATA_SHARDS = 14, 8
USERS = 10
REBUILD_AFTER_S = 20
# SEMANTICS.md, Objects, Care: how long it takes to make again what a lost member had.
NOTICED_S, ROUND_S, REBUILD_RATE = 15, REBUILD_AFTER_S / 4, 32 << 20

weft = lab.weft()
machines = Machines("objects")
folder, key = machines.folder, machines.folder / "all.key"


def address(number):
    return f"10.9.0.{10 + number}"


class Daemon:
    """One member, on a machine of its own."""

    def __init__(self, number):
        self.number, self.process = number, None
        (folder / f"disk{number}").mkdir()
        machines.add(number, address(number))
        self.start()

    def start(self):
        host = f"{address(self.number)}:7600"
        options = ["--listen", ":7600", "--advertise", host, "--plain", "--key", folder / f"key{self.number}", "--cluster-key", key, "--objects"]
        options += ["--rebuild-after", REBUILD_AFTER_S, "--open-metrics"] + (["--join", address(0)] if self.number else [])
        with open(folder / f"log{self.number}", "ab") as log:
            self.process = subprocess.Popen(
                machines.on(self.number, weft, "node", "serve", folder / f"disk{self.number}", *options), stdout=log, stderr=log
            )
        wait(f"daemon {self.number} listens", lambda: self.metrics() is not None)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()

    def metrics(self):
        code = (
            "import urllib.request, sys\n"
            f"sys.stdout.write(urllib.request.urlopen('http://127.0.0.1:7600/metrics', timeout=5).read().decode())"
        )
        answer = subprocess.run(machines.on(self.number, sys.executable, "-c", code), capture_output=True, text=True)
        return answer.stdout if answer.returncode == 0 else None

    def counted(self, name, labels=""):
        found = re.findall(rf"^{name}(?:\{{{labels}.*\}})? (\S+)$", self.metrics() or "", re.MULTILINE)
        return sum(map(float, found))

    def reads(self):
        """Reads of shards, answered so far. Members that rebuild nothing read none of each other, but ask for records all the time."""
        return self.counted("weft_node_requests_total", 'request="get"')

    def rebuilt(self):
        """Shards that it rebuilt, and the bytes that members sent for them."""
        return self.counted("weft_objects_rebuilt_shards_total"), self.counted("weft_objects_rebuild_read_bytes_total")

    def sent_bytes(self):
        return machines.bytes(self.number, SENT)


def user(*arguments, host=0, **options):
    command = machines.on("user", weft, *arguments, "--from", address(host), "--cluster-key", key)
    return subprocess.run(command, capture_output=True, text=True, **options)


def object_name(number):
    return f"run/{number:04}"


def content(number):
    chance = random.Random(SEED * 1_000_003 + number)
    return chance.randbytes(chance.randrange(16 << 10, 256 << 10))


def put(number, hosts, *how):
    """Stores an object; what `weft` says if it does not."""
    path = folder / f"put{threading.get_ident()}"
    path.write_bytes(content(number))
    host = random.Random(number).choice(hosts)
    said = user("object", "put", path, object_name(number), "--code", CODES[number % 2], *how, host=host)
    return None if said.returncode == 0 else f"{object_name(number)}: {said.stderr.strip()}"


def found_shards(number):
    """Shards of an object, as one that knows host 0 finds them."""
    said = user("object", "stat", object_name(number), "--json")
    if said.returncode != 0:
        return 0
    return min(found for found, _ in json.loads(said.stdout)["shards"])


def lacking(pool, numbers):
    return [number for number, found in zip(numbers, pool.map(found_shards, numbers)) if found < SHARDS]


def until_whole(pool):
    """Seconds until each object has all its shards, and the number that lacked some at first."""
    began = time.monotonic()
    left = first = lacking(pool, range(COUNT))
    while left:
        if time.monotonic() - began > lab.DEADLINE_S:
            raise TimeoutError(f"{len(left)} objects lack shards after {lab.DEADLINE_S} s, such as {object_name(left[0])}")
        time.sleep(1)
        left = lacking(pool, left)
    return time.monotonic() - began, len(first)


def spread(counts):
    """The mean, and how far members are from it; in per cent."""
    mean = sum(counts) / len(counts)
    return mean, *(100 * (count / mean - 1) for count in (min(counts), max(counts)))


@functools.cache
def received(code):
    """Shards that the repair of one lost shard receives, on average."""
    shown = subprocess.run([weft, "codes", "show", code, "--json"], check=True, capture_output=True, text=True).stdout
    return json.loads(shown)["repair"]["received_bytes_per_byte"]


def rebuilt(daemons):
    return [sum(counts) for counts in zip(*(daemon.rebuilt() for daemon in daemons))]


def main():
    machines.add("user", "10.9.0.1")
    daemons = [Daemon(number) for number in range(15)]

    def living():
        return [daemon for daemon in daemons if daemon.process.poll() is None]

    def members():
        said = user("node", "list", "--json")
        return [member for member in json.loads(said.stdout or "[]") if member["state"] == "alive"]

    wait("all know each other", lambda: len(members()) == 15)
    print(f"load {' '.join(open('/proc/loadavg').read().split()[:3])}; {COUNT} objects, seed {SEED}, members that are silent for {REBUILD_AFTER_S} s are gone", flush=True)

    hosts = [0, 1, 2]
    began, done = time.monotonic(), 0
    events = {  # after this share of the objects
        0.15: ("15 joins", lambda: daemons.append(Daemon(15))),
        0.30: ("16 joins", lambda: daemons.append(Daemon(16))),
        0.45: ("5 leaves", lambda: daemons[5].end(signal.SIGTERM)),
        0.60: ("9 is killed", lambda: daemons[9].end(signal.SIGKILL)),
        0.75: ("12 is killed", lambda: daemons[12].end(signal.SIGKILL)),
        0.90: ("12 returns", lambda: daemons[12].start()),
    }
    refused = {}
    with ThreadPoolExecutor(USERS) as pool:
        for number, failure in enumerate(pool.map(lambda number: put(number, hosts), range(COUNT))):
            done += 1
            refused |= {number: failure} if failure else {}
            for share in [share for share in events if done >= share * COUNT]:
                what, act = events.pop(share)
                act()
                print(f"  after {done} puts, {time.monotonic() - began:.0f} s: {what}", flush=True)
        put_s = time.monotonic() - began
        print(f"| {COUNT} puts by {USERS} users while members come and go | {put_s:.0f} s, {len(refused)} refused |", flush=True)
        # The two members closest to such a name were away and may have had it. Its user knows better.
        for number, failure in refused.items():
            print(f"  refused, and put again with --replace: {failure}")
            again = put(number, hosts, "--replace")
            assert again is None, again
        seconds, lacked = until_whole(pool)
        print(f"| all have {SHARDS} shards again, {lacked} of them lacked some | {seconds:.0f} s after the last put |", flush=True)

        before = {daemon.number: (daemon.reads(), daemon.sent_bytes()) for daemon in living()}
        began = time.monotonic()
        for number in range(COUNT):
            path = folder / "got"
            known = living()[number % len(living())].number
            said = user("object", "get", object_name(number), path, host=known)
            assert said.returncode == 0, f"{object_name(number)}: {said.stderr}"
            assert path.read_bytes() == content(number), f"{object_name(number)} has other bytes"
            path.unlink()
        print(f"| users that know one host, each another, read all of them | {time.monotonic() - began:.0f} s, every byte right |")
        after = {daemon.number: (daemon.reads(), daemon.sent_bytes()) for daemon in living()}
        for which, what in enumerate(["shards read", "bytes sent"]):
            counts = [after[number][which] - before[number][which] for number in after]
            mean, least, most = spread(counts)
            print(f"| {what} of {len(counts)} members meanwhile | {mean:.0f} each, {least:+.0f} % to {most:+.0f} % |", flush=True)
            # Of few objects chance decides.
            assert COUNT < 1000 or -20 <= least <= most <= 20, f"{what}: {counts}"

        victim = daemons[7]
        victim.end(signal.SIGKILL)
        before, began = rebuilt(living()), time.monotonic()
        wait("it is known to be dead", lambda: len(members()) == len(living()))
        lost = lacking(pool, range(COUNT))
        until_whole(pool)
        shards, read_bytes = (after - before for before, after in zip(before, rebuilt(living())))
        theory = sum(received(CODES[number % 2]) * len(content(number)) / DATA_SHARDS for number in lost)
        took = time.monotonic() - began
        print(f"| one more is killed: {len(lost)} objects lack a shard, {shards:.0f} are made again | {took:.0f} s after that |")
        print(f"| members sent for these, as they count | {read_bytes / 1e6:.1f} MB, {read_bytes / theory:.2f} of theory |")
        written_bytes = sum(len(content(number)) / DATA_SHARDS for number in lost)
        stated_s = NOTICED_S + 2 * REBUILD_AFTER_S + 2 * ROUND_S + (read_bytes + written_bytes) / REBUILD_RATE
        print(f"| within | {stated_s:.0f} s, as SEMANTICS.md states |")
        assert took <= stated_s, f"{took:.0f} s"


try:
    main()
finally:
    machines.end()
