#!/usr/bin/env python3
"""Three sites of two machines each that survive a site or any two machines: lab/sites.py

Each machine runs a daemon, and has a cable to its site's switch; each site has a cable to the middle, where a machine of users is. A volume of
`rs:4+2` has two shards of a segment at each site. A mount reads and writes MB mebibytes (default 16) while each site is cut off in the
middle of it; then all is read without each two machines; then a site is lost for good and made again.
Needs root and ip (iproute2). WEFT=PROGRAM takes a build that is there."""

import itertools, json, os, re, signal, subprocess, sys, time

import machines as lab
from machines import SENT, Machines, wait

MB = int(os.environ.get("MB", "16"))
STEP = 1 << 20

weft = lab.weft()
machines = Machines("sites")
folder = machines.folder
meta, mount = folder / "meta.db", folder / "mnt"


def site_of(machine):
    return (machine + 1) // 2


def host(machine):
    return f"10.9.0.{10 + machine}"


def user(*arguments, check=True):
    said = subprocess.run(machines.on("user", weft, *arguments), capture_output=True, text=True)
    assert said.returncode == 0 or not check, f"weft {arguments}: {said.stderr}"
    return said.stdout


def serve(machine, disk):
    """A daemon at the machine; its address with its key file."""
    (folder / disk).mkdir()
    key = folder / f"key-{disk}"
    command = [weft, "node", "serve", folder / disk, "--listen", ":7600", "--advertise", f"{host(machine)}:7600", "--plain", "--key", key]
    with open(folder / f"log-{disk}", "ab") as log, open(folder / f"said-{disk}", "wb") as said:
        process = subprocess.Popen(machines.on(machine, *command), stdout=said, stderr=log)
    wait(f"{disk} is served", lambda: " at weft" in (folder / f"said-{disk}").read_text())
    url = re.search(r" at (weft\S*)", (folder / f"said-{disk}").read_text()).group(1)
    return process, re.sub(r"//[^/]*:", f"//{host(machine)}:", url), key


# At the users' machine: reads or writes a file by 1 MiB, has a site cut off in the middle of it, and prints the longest call in seconds.
DRIVE = """
import os, sys, time
what, path, source = sys.argv[1:4]
source = open(source, "rb").read()
file = os.open(path, os.O_RDONLY if what == "read" else os.O_CREAT | os.O_WRONLY)
longest, step = 0.0, 1 << 20
os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
for at in range(0, len(source), step):
    if at == len(source) // 2 // step * step:
        print("middle", flush=True)
        sys.stdin.readline()
    began = time.monotonic()
    if what == "read":
        assert os.pread(file, step, at) == source[at:at + step], "other bytes"
    else:
        os.pwrite(file, source[at:at + step], at)
        os.fsync(file)
    longest = max(longest, time.monotonic() - began)
print(f"{longest:.2f}")
"""


def drive(what, path, midway):
    command = machines.on("user", sys.executable, "-c", DRIVE, what, path, folder / "input")
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "middle\n"
    midway()
    said, _ = process.communicate("\n")
    assert process.returncode == 0, f"{what} {path} failed"
    return said.strip()


def read_all(paths):
    for path in paths:
        copy = folder / "copy"
        user("get", meta, path, copy)
        assert copy.read_bytes() == (folder / "input").read_bytes(), f"{path} has other bytes"
        copy.unlink()


def main():
    machines.add("user", "10.9.0.1")
    for site in [1, 2, 3]:
        machines.switch(f"site{site}", uplink="switch")
    (folder / "input").write_bytes(os.urandom(MB << 20))
    mount.mkdir()
    user("format", "--policy", "rs:4+2", meta)
    daemons = {}
    for machine in range(1, 7):
        machines.add(machine, host(machine), f"site{site_of(machine)}")
        daemons[machine], url, key = serve(machine, f"disk{machine}")
        user("node", "add", meta, f"n{machine}", url, "--key", key, "--domain", f"site{site_of(machine)}/host{machine}")
    print("Codes for the wish, cheapest first (weft placement plan):")
    print(user("placement", "plan", meta, "--unit", "1", "--survive", "unit:1", "--survive", "node:2"))
    user("placement", meta, "--unit", "1", "--per-unit", "2")
    print(f"load {' '.join(open('/proc/loadavg').read().split()[:3])}; files of {MB} MiB")
    print("| a site is cut off midway | longest read of 1 MiB, s | longest write and fsync of 1 MiB, s |\n|---|---|---|")

    def mounted(work):
        user("mount", "-d", meta, mount)
        try:
            return work()
        finally:
            user("umount", mount)

    calm_write = mounted(lambda: drive("write", mount / "calm", lambda: None))
    calm_read = mounted(lambda: drive("read", mount / "calm", lambda: None))
    print(f"| none | {calm_read} | {calm_write} |")
    for site in [1, 2, 3]:
        cut = lambda: machines.cable(f"site{site}-up", False)
        read = mounted(lambda: drive("read", mount / "calm", cut))
        machines.cable(f"site{site}-up", True)
        write = mounted(lambda: drive("write", mount / f"cut{site}", cut))
        machines.cable(f"site{site}-up", True)
        print(f"| site{site} | {read} | {write} |", flush=True)
    user("repair", meta)
    status = json.loads(user("status", meta, "--json"))
    print(f"\nafter `weft repair`: {status['survives_losses']} nodes, {status['survives_unit_losses']} site may be lost")

    files = ["/calm", "/cut1", "/cut2", "/cut3"]
    for pair in itertools.combinations(range(1, 7), 2):
        for machine in pair:
            machines.cable(f"m{machine}", False)
        read_all(files)
        for machine in pair:
            machines.cable(f"m{machine}", True)
    print("every file is read without each of the 15 pairs of machines")

    for machine in [5, 6]:
        daemons[machine].send_signal(signal.SIGKILL)
        daemons[machine].wait()
        daemons[machine], url, key = serve(machine, f"again{machine}")
        user("node", "replace", meta, f"n{machine}", url, "--key", key)
    before, began = sum(machines.bytes(machine, SENT) for machine in range(1, 5)), time.monotonic()
    user("repair", meta)
    sent = sum(machines.bytes(machine, SENT) for machine in range(1, 5)) - before
    # Both shards of a segment are made from one reading of four.
    theory = len(files) * (MB << 20)
    print(f"site3 is lost for good and made again: {time.monotonic() - began:.1f} s, {sent / 1e6:.1f} MB sent, {sent / theory:.2f} of theory")
    status = json.loads(user("status", meta, "--json"))
    print(f"{status['survives_losses']} nodes, {status['survives_unit_losses']} site may be lost")
    read_all(files)


try:
    main()
finally:
    subprocess.run(machines.on("user", weft, "umount", "--force", mount), capture_output=True, timeout=60)
    machines.end()
